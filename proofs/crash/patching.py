"""Changing one line of shipped code while it runs, and changing it back."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

__all__ = ["changed_functions", "patched"]

_Codes = list[tuple[FunctionType, CodeType]]


@contextmanager
def patched(module: str, line: str, instead: str) -> Iterator[Callable[[], AbstractContextManager[None]]]:
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
