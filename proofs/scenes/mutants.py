"""The shipped code, made wrong on purpose, and the hunt that shows whether a proof notices.

A mutant that only makes programs die of an exception has not been caught: what its proof looks for must be
seen with the wrong line, and not with the right one.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, Generic, Protocol, TypeVar

__all__ = ["Hunted", "Mutant", "Sound", "Wrong", "changed_functions", "hunt", "patched"]

Sound = Callable[[], AbstractContextManager[object]]
"""Makes what is wrong sound again for a while."""
_Codes = list[tuple[FunctionType, CodeType]]


class Wrong(Protocol):
    """Something that protects, made wrong."""

    @property
    def name(self) -> str:
        """What is wrong."""

    def wrong(self) -> AbstractContextManager[Sound]:
        """Within it the protection is missing."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One line of the shipped code, made wrong.

    Attributes:
        name: What is wrong.
        module: Full name of the module.
        line: The line without its indentation, as it stands there exactly once.
        instead: The line in its place.
    """

    name: str
    module: str
    line: str
    instead: str

    def wrong(self) -> AbstractContextManager[Sound]:
        """Within it the line reads otherwise, wherever its function has been imported to."""
        return patched(self.module, self.line, self.instead)


_M = TypeVar("_M", bound=Wrong)


@dataclass(frozen=True, slots=True)
class Hunted(Generic[_M]):
    """How a mutant ended.

    Attributes:
        mutant: What was hunted.
        seen: What gave it away; empty if nothing did.
        elsewhere: What gave it away where it should not be noticed, or what is seen without it.
        problem: Why it could not be made, or what its proof died of; empty if nothing.
        runs: How many times its proof has looked.
        seconds: How long that took.
    """

    mutant: _M
    seen: str = ""
    elsewhere: str = ""
    problem: str = ""
    runs: int = 0
    seconds: float = 0.0

    @property
    def caught(self) -> bool:
        """Whether it was noticed by what is there to notice it, and by nothing else."""
        return bool(self.seen) and not self.elsewhere and not self.problem

    def __str__(self) -> str:
        also = f", BUT ALSO {self.elsewhere}" if self.elsewhere else ""
        how = self.problem or self.seen or f"NOT CAUGHT in {self.runs} runs"
        return f"mutant {self.mutant.name}: {how}{also} ({self.seconds:.1f} s)"


def hunt(
    mutant: _M, look: Callable[[Sound], Iterable[str]], elsewhere: Callable[[], str] = str
) -> Hunted[_M]:
    """Look with the wrong line until something is seen.

    Args:
        mutant: What is wrong.
        look: Is given what makes the code sound again, and yields what each run has shown, "" for nothing.
        elsewhere: What is seen where the mutant should not be noticed, "" for nothing.
    """
    begun, runs, seen, also, problem = time.perf_counter(), 0, "", "", ""
    try:
        with mutant.wrong() as sound:
            for seen in look(sound):
                runs += 1
                if seen:
                    break
            also = elsewhere()
    except Exception as error:  # noqa: BLE001 - that the code dies is no proof
        problem = repr(error)
    return Hunted(mutant, seen, also, problem, runs, time.perf_counter() - begun)


@contextmanager
def patched(module: str, line: str, instead: str) -> Iterator[Sound]:
    """Within it one line of a module reads otherwise, wherever its function has been imported to.

    Args:
        module: Its full name.
        line: The line without its indentation, as it stands in the source exactly once.
        instead: The line in its place.

    Yields:
        What makes it sound again for a while.

    Raises:
        ValueError: There is not exactly one such line, or it belongs to no function, or nothing changes.
    """
    changed = changed_functions(module, line, instead)
    sound = [(function, function.__code__) for function, _ in changed]
    _exchange(changed)
    try:
        yield lambda: _exchanged(sound, changed)
    finally:
        _exchange(sound)


@contextmanager
def _exchanged(codes: _Codes, back: _Codes) -> Iterator[None]:
    _exchange(codes)
    try:
        yield
    finally:
        _exchange(back)


def _exchange(codes: _Codes) -> None:
    for function, code in codes:
        function.__code__ = code


def changed_functions(module: str, line: str, instead: str) -> _Codes:
    """The functions that a changed line belongs to, and their code with it."""
    found = importlib.import_module(module)
    path = Path(str(found.__file__))
    source = path.read_text(encoding="utf-8")
    lines = source.split("\n")
    places = [number for number, text in enumerate(lines) if text.strip() == line]
    if len(places) != 1:
        raise ValueError(f"{module} has {len(places)} lines {line!r}; correct the mutant")
    text = lines[places[0]]
    lines[places[0]] = text[: len(text) - len(text.lstrip())] + instead
    old = dict(_functions(compile(source, str(path), "exec", dont_inherit=True)))
    new = dict(_functions(compile("\n".join(lines), str(path), "exec", dont_inherit=True)))
    changed = [name for name in old if old[name] != new.get(name)]
    if not changed:
        raise ValueError(f"{instead!r} changes nothing in {module}")
    return [(_function(found, name), new[name]) for name in changed]


def _functions(code: CodeType) -> Iterator[tuple[str, CodeType]]:
    """The outermost functions below a module, methods included."""
    for constant in code.co_consts:
        if not isinstance(constant, CodeType):
            continue
        if constant.co_flags & 0x2:  # CO_NEWLOCALS: a function, no class body
            if not constant.co_name.startswith("<"):
                yield constant.co_qualname, constant
        else:
            yield from _functions(constant)


def _function(module: ModuleType, name: str) -> FunctionType:
    found: Any = module
    for part in name.split("."):
        found = vars(found)[part]
    if isinstance(found, property):
        found = found.fget
    found = getattr(found, "__func__", found)
    if not isinstance(found, FunctionType):
        raise ValueError(f"{module.__name__}.{name} is no function that could be changed")
    return found
