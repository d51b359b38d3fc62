"""Mutants that only show beside maintenance, an interrupted driver, or limits that are near."""

from __future__ import annotations

from typing import Final

from proofs.crash.settings import Setting
from proofs.crash.wrong_lines import Mutant

__all__ = ["COMPANY_MUTANTS"]

_JOBS: Final = (Setting(mode="overwrite", shape="two"),)
_COMPACT: Final = "magicfs.past.compact"

COMPANY_MUTANTS: Final = (
    Mutant(
        "a compaction removes the sum that it has linked",
        "f",
        _COMPACT,
        'if dash and keep.get(f"{stem}-", job) != job:',
        "if dash:",
        _JOBS,
        "maintenance",
    ),
    Mutant(
        "a sum forgets the files of older manifests",
        "b",
        _COMPACT,
        "files=tuple(view.files.values()),",
        "files=known[newest].files,",
        _JOBS,
        "maintenance",
    ),
    Mutant(
        "an interruption stops a driver after its commit point",
        "b",
        "magicfs.runtime.interrupt",
        "if self.is_running and not self._holds and not self._stopped and self.task is not None:",
        "if self.is_running and not self._stopped and self.task is not None:",
        _JOBS,
        "interrupts",
    ),
    Mutant(
        "nobody asks whether the manifest can be read",
        "b",
        "magicfs.transaction.prepare",
        "if size > MANIFEST_SIZE_LIMIT:",
        "if False:",
        _JOBS,
        "limits",
    ),
)
"""One or two for each company."""
