"""A policy of maintenance: a TOML file with a table for each part of ``magicfs maintain`` that runs.

A part declares what a policy may say in ``POLICY``: names of settings, each with the argument that it stands
for, the function that reads it, which gets its name and value and raises UsageError, and a default, if it has
one.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Final

from magicfs.errors import UsageError
from magicfs.past.commands.settings import texts
from magicfs.runtime import registered

POINTS: Final = "magicfs.maintain"
_SIZE_MAX: Final = 64 * 1024
_EXCLUDE: Final = "exclude"
_HEADER: Final = re.compile(r"\s*\[\s*([^\[\]]+?)\s*\]")
_KEY: Final = re.compile(r"\s*([\w-]+|\"[^\"]*\"|'[^']*')\s*[.=]")
_Reader = Callable[[str, object], object]
_Settings = Mapping[str, tuple[str, _Reader] | tuple[str, _Reader, str]]


@dataclass(frozen=True, slots=True)
class Policy:
    """What a policy says."""

    parts: Mapping[str, Mapping[str, object]]  # the arguments of each part that runs
    exclude: tuple[str, ...] = ()  # patterns of datasets that are left out

    def arguments(self, only: Iterable[str]) -> dict[str, object]:
        """The arguments of some parts."""
        return {name: value for part in only for name, value in self.parts[part].items()}


def read_policy(path: str) -> Policy:
    """Read and check a policy. Raises UsageError with all mistakes, each with its line."""
    text = _text(path)
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path} is not TOML: {error}; nothing was changed; correct it") from error
    known = {name: found for name in registered.names(POINTS) if (found := _settings(name)) is not None}
    problems: list[str] = []
    parts: dict[str, Mapping[str, object]] = {}
    for name, value in document.items():
        where = _line(text, None, name)
        if name == _EXCLUDE:
            _read(texts, name, value, where, problems)
        elif name not in known:
            problems.append(f"{where}no part {name!r}; {_meant(name, [*known, _EXCLUDE])}")
        elif not isinstance(value, dict):
            problems.append(f"{where}{name} is not a table; write [{name}], and its settings below")
        else:
            parts[name] = dict(_arguments(name, known[name], value, text, problems))
    if not document:
        problems.append(f"it asks for nothing; add a table, such as [{'] or ['.join(known)}]")
    if problems:
        raise UsageError(f"{path}: {'; '.join(problems)}; nothing was changed")
    return Policy(parts, tuple(document.get(_EXCLUDE, ())))


def _arguments(
    part: str, known: _Settings, table: Mapping[str, object], text: str, problems: list[str]
) -> Iterator[tuple[str, object]]:
    for name, value in table.items():
        where = _line(text, part, name)
        if name in known:
            yield known[name][0], _read(known[name][1], name, value, where, problems)
        else:
            problems.append(f"{where}[{part}] has no setting {name!r}; {_meant(name, list(known))}")
    for name, (argument, read, *default) in known.items():
        if name not in table and default:
            yield argument, read(name, default[0])


def _read(read: _Reader, name: str, value: object, where: str, problems: list[str]) -> object:
    try:
        return read(name, value)
    except UsageError as error:
        problems.append(f"{where}{error}")
        return None


def _settings(part: str) -> _Settings | None:
    """What a policy may say of a part; None of one that is not for policies."""
    module = registered.load(POINTS, part, "configure", "run")
    return getattr(module, "POLICY", None)


def _text(path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            raw = file.read(_SIZE_MAX + 1)
        if len(raw) > _SIZE_MAX:
            raise UsageError(
                f"{path} is larger than {_SIZE_MAX:,} bytes, so it is not a policy; nothing was changed"
            )
        return raw.decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text; nothing was changed; save it as UTF-8") from error
    except OSError as error:
        raise UsageError(
            f"the policy {path} cannot be read: {error.strerror}; nothing was changed"
        ) from error


def _line(text: str, part: str | None, name: str) -> str:
    """In which line of a policy a name stands; empty if that is not clear."""
    table: str | None = None
    for number, line in enumerate(text.splitlines(), 1):
        if (header := _HEADER.match(line)) is not None:
            table = header[1].strip("\"'")
            if part is None and table.partition(".")[0] == name:
                return f"line {number}: "
        elif (key := _KEY.match(line)) is not None and table == part and key[1].strip("\"'") == name:
            return f"line {number}: "
    return ""


def _meant(word: str, known: list[str]) -> str:
    near = (*get_close_matches(word, known, 1), "")[0]
    if word in registered.names(POINTS):
        return "it runs from the command line only"
    if near:
        return f"did you mean {near}?"
    return f"choose from {', '.join(known)}" if known else "it has none"
