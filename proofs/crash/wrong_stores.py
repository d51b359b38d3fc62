"""Mutants that only show on a store that does otherwise than S3."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from proofs.crash.settings import Setting
from proofs.crash.wrong_lines import CrashMutant

__all__ = ["STORE_MUTANTS"]

_OLD_UPLOADS: Final = "magicfs.transaction.prepare"
_READBACK: Final = "magicfs.protocol.readback"

STORE_MUTANTS: Final[Mapping[str, tuple[CrashMutant, ...]]] = MappingProxyType(
    {
        "gcs": (
            CrashMutant(
                "the ETag of a file is reckoned from its parts, as S3 does",
                "magicfs.engine",
                "etag = await self._complete(step)",
                "etag = await self._complete(step) and f'\"{etag_of_parts(step.etags)}\"'",
                "f",
                (Setting(mode="append", store="gcs"),),
            ),
            CrashMutant(
                "old files are deleted by name, whatever generation they have",
                "magicfs.transaction.publish",
                "return await remove_matching("
                "engine.store, conditions, objects, engine.concurrency, check=check)",
                "await engine.store.delete([key for key, _ in objects]); return []",
                "e",
                (Setting(mode="overwrite", store="gcs"),),
                "rewritten",
            ),
        ),
        "azure": (
            CrashMutant(
                "how many days the store keeps uploads is no matter",
                _OLD_UPLOADS,
                "if days is None or age_ms < days * _DAY_MS - _WARNED_BEFORE_MS:",
                "if True:",
                "b",
                (Setting(mode="overwrite", names="equal", store="azure"),),
                "waited",
            ),
            CrashMutant(
                "a job is taken until its uploads go",
                _OLD_UPLOADS,
                "if age_ms < days * _DAY_MS - _REFUSED_BEFORE_MS:",
                "if age_ms < days * _DAY_MS:",
                "b",
                (Setting(mode="overwrite", names="equal", store="azure"),),
                "waited",
            ),
            CrashMutant(
                "uploads that hide behind objects are taken for gone",
                _OLD_UPLOADS,
                "if gone and not engine.store.capabilities.uploads.apart:",
                "if False:",
                "b",
                (Setting(mode="overwrite", names="equal", store="azure"),),
                "waited",
            ),
            CrashMutant(
                "whoever dropped the upload is taken for oneself",
                _READBACK,
                "if found is not None and found.exists and write_id is not None "
                "and found.write_id == write_id:",
                "if found is not None and found.exists and write_id is not None:",
                "b",
                (Setting(shape="three", store="azure"),),
                "overwritten",
            ),
            CrashMutant(
                "whatever has the name of a file is taken back",
                "magicfs.transaction.revert",
                "if may_delete(Purpose.TAKE_BACK, info.key, shown, own):",
                "if None not in own.values():",
                "e",
                (Setting(shape="three", store="azure"),),
                "overwritten",
            ),
        ),
        "local": (
            CrashMutant(
                "a file without metadata is nobody's",
                _READBACK,
                "return own if _same(etag, expected) else None",
                "return None",
                "b",
                (Setting(mode="overwrite", store="local"),),
            ),
            CrashMutant(
                "versions are told from each other by metadata, which files have none of",
                "magicfs.stores.register",
                "return _NUMBERED in first.metadata or not self._store.capabilities.metadata",
                "return _NUMBERED in first.metadata",
                "b",
                (Setting(mode="overwrite", store="local"),),
            ),
        ),
    }
)
"""By the kind of store."""
