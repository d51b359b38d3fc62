"""Mutants that only show beside maintenance, an interrupted driver, or limits that are near."""

from __future__ import annotations

from typing import Final

from proofs.crash.settings import Setting
from proofs.crash.wrong_lines import CrashMutant

__all__ = ["COMPANY_MUTANTS"]

_JOBS: Final = (Setting(mode="overwrite", shape="two"),)
_COMPACT: Final = "magicfs.past.compact"

COMPANY_MUTANTS: Final = (
    CrashMutant(
        "a compaction removes the sum that it has linked",
        _COMPACT,
        'if dash and keep.get(f"{stem}-", job) != job:',
        "if dash:",
        "f",
        _JOBS,
        "maintenance",
    ),
    CrashMutant(
        "a sum forgets the files of older manifests",
        _COMPACT,
        "files=tuple(view.files.values()),",
        "files=known[newest].files,",
        "b",
        _JOBS,
        "maintenance",
    ),
    CrashMutant(
        "an interruption stops a driver after its commit point",
        "magicfs.runtime.interrupt",
        "if self.is_running and not self._holds and not self._stopped and self.task is not None:",
        "if self.is_running and not self._stopped and self.task is not None:",
        "b",
        _JOBS,
        "interrupts",
    ),
    CrashMutant(
        "nobody asks whether the manifest can be read",
        "magicfs.transaction.prepare",
        "if size > MANIFEST_SIZE_LIMIT:",
        "if False:",
        "b",
        _JOBS,
        "limits",
    ),
)
"""One or two for each company."""
