"""The mutants of committers whose jobs rename: what they do beside the job object that all driven share."""

from __future__ import annotations

from typing import Final

from proofs.crash.settings import Setting
from proofs.crash.wrong_lines import CrashMutant

__all__ = ["RENAME_MUTANTS"]

_WORK_FILES: Final = "magicfs.transaction.sweep"

_TWO: Final = Setting(committer="manifest", store="local")
_REPLACE: Final = Setting(committer="manifest", store="local", mode="overwrite", shape="three")
_LOSERS: Final = Setting(committer="manifest", store="local", shape="losers")
_FILE: Final = Setting(committer="file", store="local", mode="overwrite", shape="three")
_COPIES: Final = Setting(committer="file", shape="three")
_TASKS: Final = Setting(committer="file-v2", store="local")
_TASKS_COPY: Final = Setting(committer="file-v2", shape="three")
_LISTED: Final = Setting(committer="file-v2", store="local", shape="three", winners="listed")

RENAME_MUTANTS: Final[tuple[CrashMutant, ...]] = (
    CrashMutant(
        "a job is taken back and its files can still be renamed",
        "magicfs.transaction.revert",
        "problems += await sweep.delete_sources(engine, output.steps())",
        "pass",
        "b",
        (_TWO,),
        "manifest.races",
    ),
    CrashMutant(
        "the work of tasks is left",
        _WORK_FILES,
        "if context.options.committer not in RENAMING or not context.renames.removes_work:",
        "if context.options.committer in RENAMING or not context.renames.removes_work:",
        "d",
        (_LOSERS,),
    ),
    CrashMutant(
        "a job of copies is taken back",
        "magicfs.protocol.job_state",
        "if not write_ids:",
        "if False:",
        "b",
        (_COPIES,),
    ),
    CrashMutant(
        "a copy is not made",
        "magicfs.transaction.visible",
        "await store.copy(step.source, step.key)",
        "pass",
        "b",
        (_COPIES,),
    ),
    CrashMutant(
        "a file is not renamed",
        "magicfs.transaction.visible",
        'renames = cast("Iterator[Rename]", steps())',
        'renames = cast("Iterator[Rename]", iter([*steps()][1:]))',
        "b",
        (_REPLACE, _FILE),
    ),
    CrashMutant(
        "a task publishes before it has claimed",
        "magicfs.classic.algorithm2",
        "claim = await self._manifests.claim(new)",
        "await self._publish(new); claim = await self._manifests.claim(new)",
        "a",
        (_TASKS, _TASKS_COPY),
    ),
    CrashMutant(
        "what a dead task has left is not moved",
        "magicfs.transaction.visible",
        'renames = cast("Iterator[Rename]", steps())',
        'renames = cast("Iterator[Rename]", iter([] if looks_first else [*steps()]))',
        "b",
        (_LISTED,),
    ),
)
"""As ``wrong_lines.MUTANTS``."""
