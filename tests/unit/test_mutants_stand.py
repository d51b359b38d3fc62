"""Each line that a mutant makes wrong stands in the shipped code, exactly once: else it proves nothing."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections import Counter
from collections.abc import Iterator

import proofs
from proofs.scenes.mutants import Mutant

_PLACES = ("proofs.commands", "proofs.crash", "proofs.hostile", "proofs.sides")


def modules() -> Iterator[str]:
    for one in pkgutil.walk_packages(proofs.__path__, "proofs."):
        if one.name.startswith(_PLACES) and not one.name.endswith("__main__"):
            yield one.name


def mutants() -> Iterator[Mutant]:
    for name in modules():
        for value in vars(importlib.import_module(name)).values():
            if isinstance(value, tuple | list):
                yield from (one for one in value if isinstance(one, Mutant))


def test_every_mutant_finds_its_line() -> None:
    found = {(one.module, one.name): one for one in mutants()}
    assert len(found) > 100
    lost = []
    for one in found.values():
        lines = Counter(map(str.strip, inspect.getsource(importlib.import_module(one.module)).splitlines()))
        if lines[one.line.strip()] != 1:
            lost.append(f"{one.name}: {one.module} has this line {lines[one.line.strip()]} times: {one.line}")
    assert not lost, "quote the line as it is now, and write what is wrong with it:\n" + "\n".join(lost)
