"""Which publications are still in effect: those that no later rollback and no later drop has taken back.

A rollback of everything leads back to a job: what was published between the two is taken back. One of some
partitions does that for the files in them, and a drop takes the files that it names. What an ordinary job
replaces stays in effect: the run has done its work.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass

from magicfs.errors import FormatError
from magicfs.formats.log import LoggedJob
from magicfs.formats.manifest import ManifestFile
from magicfs.manifests import chain, log
from magicfs.manifests.chain import View
from magicfs.manifests.log import job_of_run_by
from magicfs.protocol.final_names import copied_key
from magicfs.protocol.ids import job_id
from magicfs.protocol.modes import lies_in
from magicfs.runtime.parallel import gathered
from magicfs.stores.conditions import Conditions
from magicfs.stores.port import Store

_AT_ONCE = 8


async def run_in_effect(store: Store, destination: str, conditions: Conditions, run_id: str) -> str | None:
    """The job that has published a run; None if none has, or it was taken back.

    It was taken back if each of its files was. A run without files, such as a drop, can be taken back by a
    rollback of everything alone. Of a run that was published again, a rollback may show an earlier job.

    Raises FormatError if the chain, as far as it is read to find the job, or the log is broken.
    """
    seen = await chain.read_pointer(store, destination, conditions)
    job = None if seen is None else await job_of_run_by(store, destination, conditions, seen[0], run_id)
    if seen is None or job is None or job == seen[0].job_id:
        return job
    with suppress(FormatError):  # where nobody can know, the run is not published twice
        if not await _is_in_effect(store, destination, conditions, job):
            return await _shown_again(store, destination, conditions, run_id)
    return job


async def _shown_again(store: Store, destination: str, conditions: Conditions, run_id: str) -> str | None:
    """The newest job of a run of which readers see a file, in its place or as a rollback has copied it."""
    view = await chain.view(store, destination, conditions)
    rollbacks: list[str] = []
    async with aclosing(log.publications(store, destination, conditions)) as jobs:
        async for one in jobs:
            rollbacks += [one.job_id] if one.restores is not None else []
            if one.run_id == run_id and view is not None:
                manifest = await chain.read(store, destination, one.job_id, conditions)
                if manifest is not None and _is_seen(manifest.files, view, rollbacks):
                    return one.job_id
    return None


def _is_seen(files: Sequence[ManifestFile], view: View, rollbacks: Sequence[str]) -> bool:
    copies = (copied_key("", file.key, job_id(one)) for file in files for one in rollbacks)
    return any(view.files.get(file.key) == file for file in files) or any(key in view.files for key in copies)


async def _is_in_effect(store: Store, destination: str, conditions: Conditions, job: str) -> bool:
    since = await _since(store, destination, conditions, job)
    if not any(one.takes_something for one in since):
        return True
    manifest = await chain.read(store, destination, job, conditions)
    if manifest is None or since[-1].job_id != job:
        return True
    # Of a job without files there is only itself.
    keys: list[str | None] = [one.key for one in manifest.files]
    if any(_stays(key, job, since) for key in keys or [None]):
        return True
    view = await chain.view(store, destination, conditions)
    shown = view.files if view is not None else {}
    # It may have joined the chain just before the rollback did, which had not seen it.
    return any(shown.get(one.key) == one for one in manifest.files)


@dataclass(frozen=True, slots=True)
class _Later:
    """A job that was published later, and what it took back."""

    job_id: str
    leads_to: str | None = None
    partitions: Collection[str] | None = None  # where; None for everywhere
    dropped: Collection[str] = ()

    @property
    def takes_something(self) -> bool:
        return self.leads_to is not None or bool(self.dropped)


def _stays(key: str | None, job: str, since: Sequence[_Later]) -> bool:
    """Whether a file that a job brought was not taken back since; without a key whether the job was not."""
    names = set() if key is None else {key, *(copied_key("", key, job_id(one.job_id)) for one in since)}
    leads_to: str | None = None
    for one in since:
        if leads_to not in {None, one.job_id}:
            continue
        leads_to = None
        if one.job_id == job:
            return True
        if not names.isdisjoint(one.dropped):
            return False
        if one.partitions is None or (key is not None and lies_in(key, one.partitions)):
            leads_to = one.leads_to
    return False


async def _since(store: Store, destination: str, conditions: Conditions, job: str) -> list[_Later]:
    """The job and what matters of those that were published later, the newest first."""
    found: list[LoggedJob] = []
    async with aclosing(log.publications(store, destination, conditions)) as jobs:
        async for one in jobs:
            found.append(one)
            if one.job_id == job:
                break
    targets = {one.restores for one in found}

    async def look(one: LoggedJob) -> _Later:
        if one.mode == "drop" or (one.restores is not None and one.mode != "overwrite"):
            manifest = await chain.read(store, destination, one.job_id, conditions, files=False)
            if manifest is None:
                return _Later(one.job_id)
            dropped = frozenset(manifest.deleted) if one.mode == "drop" else ()
            return _Later(one.job_id, one.restores, frozenset(manifest.partitions or ()), dropped)
        return _Later(one.job_id, one.restores)

    matters = [
        one
        for one in found
        if one.mode == "drop" or one.restores is not None or one.job_id in targets or one.job_id == job
    ]
    return await gathered(matters, look, _AT_ONCE)
