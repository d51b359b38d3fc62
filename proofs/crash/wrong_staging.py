"""The mutants of the committers that stage: what they do beside the job object that all driven ones share."""

from __future__ import annotations

from typing import Final

from proofs.crash.settings import Setting
from proofs.crash.wrong_lines import CrashMutant

__all__ = ["STAGED_MUTANTS"]

_STAGING: Final = "magicfs.committers.staging.committer"
_CLUSTER: Final = "magicfs.committers.staging.cluster"

_DIRECTORY: Final = Setting(mode="overwrite", committer="directory")
_PARTITIONED: Final = Setting(mode="overwrite_partitions", committer="partitioned", tracking="cluster")
_ZOMBIES: Final = Setting(shape="zombies", committer="partitioned", tracking="cluster")
_LISTED: Final = Setting(committer="partitioned", tracking="cluster", winners="listed")

STAGED_MUTANTS: Final[tuple[CrashMutant, ...]] = (
    CrashMutant(
        "a stager deletes first",
        "magicfs.transaction.execute",
        "output, *success = await at_once(reading, *looks)",
        "output, *success = await at_once(reading, *looks); "
        "await publish.delete_old(self.cleaner, self.record.conditions, "
        "await facts.read_deletions(self.cleaner, self.context, job), output, "
        "partial(self.record.confirm, version))",
        "b",
        (_DIRECTORY, _PARTITIONED),
    ),
    CrashMutant(
        "the uploads of a committed attempt are aborted",
        _STAGING,
        "await self._abort([one for one in uploads.opened if one.upload_id not in persisted])",
        "await self._abort(uploads.opened)",
        "b",
        (_DIRECTORY,),
    ),
    CrashMutant(
        "a pending set is forgotten",
        _CLUSTER,
        'if name == TEMPORARY or name.startswith("."):',
        'if name == TEMPORARY or name.startswith(".") or found:',
        "c",
        (_LISTED,),
    ),
    CrashMutant(
        "a second attempt of the job forgets a task",
        _CLUSTER,
        "found |= {one.task: one for one in await self._committed(number)}",
        "found |= {one.task: one for one in (await self._committed(number))[:1]}",
        "c",
        (_LISTED,),
    ),
    CrashMutant(
        "the cluster's directory is left",
        _CLUSTER,
        'await self._asked("delete", "", lambda place: place.remove(self.layout.job_directory))',
        "pass",
        "d",
        (_PARTITIONED,),
    ),
    CrashMutant(
        "local files of dead attempts are left",
        _STAGING,
        "left = await asyncio.to_thread(attempts.remove_dead, work_directory, job)",
        "left = list[OSError]()",
        "d",
        (_ZOMBIES,),
    ),
)
"""As ``wrong_lines.MUTANTS``."""
