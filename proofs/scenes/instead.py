"""Something else in the place of what a module has, for a while."""

from __future__ import annotations

import importlib
from contextlib import AbstractContextManager

from proofs.doubles.virtual_time import replaced

__all__ = ["instead"]


def instead(name: str, value: object) -> AbstractContextManager[None]:
    """Within it a constant or function of a module, by its full name, is another one."""
    module, _, attribute = name.rpartition(".")
    return replaced(importlib.import_module(module), attribute, value)
