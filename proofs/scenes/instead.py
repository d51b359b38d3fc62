"""Something else in the place of what a module has, for a while."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["instead"]


@contextmanager
def instead(name: str, value: object) -> Iterator[None]:
    """Within it a constant or function of a module, by its full name, is another one."""
    module, _, attribute = name.rpartition(".")
    found = importlib.import_module(module)
    own = getattr(found, attribute)
    setattr(found, attribute, value)
    try:
        yield
    finally:
        setattr(found, attribute, own)
