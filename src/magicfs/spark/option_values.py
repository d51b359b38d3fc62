"""What the text of an option means: one parser for each kind of value.

Each gets the name of the option, as it is documented, for its message.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, TypeVar

from magicfs.errors import UsageError
from magicfs.protocol.conflict import CONFLICTS
from magicfs.spark.formats import FORMATS

__all__ = [
    "LATE_WRITERS",
    "columns",
    "conflict",
    "file_format",
    "flag",
    "late_writers",
    "mapping",
    "name",
    "number",
    "text",
    "tracking",
    "word",
]

LATE_WRITERS = ("wait", "background", "leave")
"""What is done about tasks that go on uploading after their job has ended."""

_T = TypeVar("_T")


def text(_option: str, value: str) -> str:
    """Any text."""
    return value


def name(option: str, value: str) -> str:
    """Text that is not empty."""
    if not value.strip():
        raise UsageError(f"{option} is empty; give it a name, or leave it out")
    return value


def word(option: str, value: str, choices: Sequence[str]) -> str:
    """One of some words, in whatever case."""
    found = value.strip().lower()
    if found not in choices:
        raise UsageError(f"{option}={value!r} is unknown; choose one of {', '.join(choices)}")
    return found


def columns(option: str, value: str) -> tuple[str, ...]:
    """Names of columns, separated by commas, or as a JSON list."""
    names: list[Any] = [one.strip() for one in value.split(",")]
    if value.lstrip().startswith("["):
        names = _json(option, value, list)
    if not all(isinstance(one, str) and one for one in names):
        raise UsageError(
            f"{option}={value!r} holds an empty name; write the columns as 'year,month', "
            """or as JSON, '["a,b", "c"]'"""
        )
    return tuple(names)


def conflict(option: str, value: str) -> str:
    """A conflict mode."""
    return word(option, value, CONFLICTS)


def tracking(option: str, value: str) -> str:
    """Where uploads are remembered."""
    return word(option, value, ("memory", "store"))


def late_writers(option: str, value: str) -> str:
    """What is done about late writers."""
    return word(option, value, LATE_WRITERS)


def file_format(option: str, value: str) -> str:
    """A format of files."""
    return word(option, value, tuple(FORMATS))


def flag(option: str, value: str) -> bool:
    """A truth value."""
    return word(option, value, ("true", "false")) == "true"


def number(option: str, value: str | int) -> int:
    """A positive whole number."""
    try:
        found = int(value) if isinstance(value, str) or type(value) is int else 0
    except ValueError:
        found = 0
    if found < 1:
        raise UsageError(f"{option}={value!r} is no positive whole number; write it in digits")
    return found


def mapping(option: str, value: str) -> dict[str, Any]:
    """A JSON object."""
    return _json(option, value, dict)


def _json(option: str, value: str, kind: type[_T]) -> _T:
    try:
        parsed = json.loads(value)
    except ValueError:
        parsed = None
    if not isinstance(parsed, kind):
        # The value may hold a secret: it is not shown.
        shape = 'an object, such as \'{"endpoint_url": "…"}\'' if kind is dict else "a list of texts"
        raise UsageError(f"{option} is not valid JSON for {shape}; use json.dumps to write it")
    return parsed
