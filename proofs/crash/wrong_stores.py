"""Mutants that only show on a store that does otherwise than S3."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from proofs.crash.settings import Setting
from proofs.crash.wrong_lines import Mutant

__all__ = ["STORE_MUTANTS"]

_READBACK: Final = "magicfs.protocol.readback"

STORE_MUTANTS: Final[Mapping[str, tuple[Mutant, ...]]] = MappingProxyType(
    {
        "local": (
            Mutant(
                "a file without metadata is nobody's",
                "b",
                _READBACK,
                "return own if _same(etag, expected) else None",
                "return None",
                (Setting(mode="replace", store="local"),),
            ),
            Mutant(
                "versions are told from each other by metadata, which files have none of",
                "b",
                "magicfs.stores.register",
                "return _NUMBERED in first.metadata or not self._store.capabilities.metadata",
                "return _NUMBERED in first.metadata",
                (Setting(mode="replace", store="local"),),
            ),
        ),
    }
)
"""By the kind of store."""
