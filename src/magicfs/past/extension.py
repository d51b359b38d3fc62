"""What a job has to know of the past: files that earlier jobs still keep, those that it keeps itself, and
those that a rollback shows again.

A rollback is a job that replaces everything, and whose new files are old ones: they are where they were. It
announces itself as every job that replaces, and only then looks whether they are there: from then on nobody
deletes them. ``magicfs.past.expire`` marks what it is going to delete in the pointer, and then looks for
rollbacks that have announced themselves; of the two at least one sees the other.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from magicfs.engine import Engine
from magicfs.errors import CommitDenied, ObjectNotFound, UsageError
from magicfs.formats.job_object import JobObject
from magicfs.formats.manifest import KeptFiles, ManifestFile
from magicfs.formats.pointer import Pointer
from magicfs.manifests import chain, kept
from magicfs.manifests.comparison import compare
from magicfs.manifests.log import is_published
from magicfs.past import aside
from magicfs.past.retention import Keep
from magicfs.protocol import paths
from magicfs.protocol.final_names import copied_key
from magicfs.protocol.modes import is_data, lies_in
from magicfs.protocol.replacement import OldFile, Replacement, Scope
from magicfs.stores.conditions import Conditions
from magicfs.transaction import facts
from magicfs.transaction.context import JobContext
from magicfs.transaction.extension import Extension, Prepared, Settling
from magicfs.transaction.planning import Look, Overwrite, as_old
from magicfs.transaction.record import new_token

_LOGGER = logging.getLogger("magicfs")


class Rollback(Overwrite):
    """Replaces everything, or what lies in the partitions of the rollback, by files of the past."""

    warns = False

    def check(self) -> None:
        pass

    async def scope(self) -> Scope:
        partitions = self.look.context.options.rollback.partitions
        return self._scope(whole=partitions is None, partitions=partitions)


class Past(Extension):
    """Leaves what earlier jobs keep, keeps what this one replaces, shows what a rollback leads to."""

    def at_setup(self, context: JobContext, job: JobObject) -> None:
        if job.options.keep.rule:
            Keep.of(f"keep of job {context.job}", job.options.keep.rule)

    async def on_output(self, job: Prepared) -> None:
        if job.context.options.rollback.job is None:
            return
        output = job.output
        output.planner = Rollback
        if not output.restored:
            copied = set(output.final_keys())
            output.restored = await restored_files(job.engine, job.context, job.record.conditions, copied)

    async def plan(self, look: Look, plan: Replacement) -> None:
        """Take out of what a job replaces what earlier jobs keep, and what it shows again itself.

        What is kept by its version is deleted as any other file, if it is there.

        Raises CommitDenied if the job would write over what is kept, UsageError over what it is to keep;
        ObjectNotFound if it would show what is being deleted.
        """
        options = look.context.options
        keeps = options.keep.ms is not None
        if look.seen is not None and options.mode != "append":
            keeps_versions = keeps and look.record.keeps_versions and not options.keep.in_place
            if look.seen[0].keeping or keeps_versions or options.rollback.job is not None:
                shown = await look.shown()
                promises = await _promises(look, look.seen[0])
                promises.refuse(look, plan, shown)
                _leave(look, plan, promises.held, shown)
                plan.versions = versions_of(look.context, plan, shown) if keeps_versions else {}
        if keeps:
            plan.stays = _staying(look, plan.versions)
        if keeps and plan.equal_keys:
            raise _cannot_keep(look.context, plan.equal_keys[0])

    async def before_commit_point(self, look: Look) -> dict[str, object]:
        """Raises ObjectNotFound, before it writes, if a file that a rollback shows is gone or another."""
        return {**await _in_place(look), **await self._restored(look)}

    async def _restored(self, look: Look) -> dict[str, object]:
        restored = look.output.restored
        if look.context.options.rollback.job is None:
            return {}
        found = await compare(look.engine, look.destination, restored)
        gone = [key for key in (*found.missing, *found.altered) if is_data(key, "")]
        if gone := gone or [*found.missing, *found.altered]:
            raise files_gone(look.engine, look.context, gone)
        restored_list = await facts.write_restored(look.engine, look.context, new_token(), restored.values())
        return {"restored": restored_list}

    async def settle(self, job: Settling) -> None:
        if job.job.restored:
            job.output.restored = await facts.read_restored(job.engine, job.context, job.job)
            again = set(job.output.restored_keys(job.context.layout.destination))
            job.old = job.deleted = [one for one in job.old if one.key not in again]
        keep = job.job.options.keep
        if keep.ms is not None and job.old:
            destination, name = job.context.layout.destination, job.job.job_id
            old = job.old if keep.in_place else aside.marked(destination, name, job.old)
            aside.count_cost(job, old)
            await aside.copy_all(job.engine, destination, name, old)
            lists = await kept.write(job.engine.store, destination, name, old)
            rule = {"rule": keep.rule} if keep.rule else {}
            job.manifest["kept"] = KeptFiles(until_ms=job.job.changed_ms + keep.ms, lists=lists, unknown=rule)
            # Those in place stay until magicfs maintain, the others by their versions, or aside.
            job.deleted = [one for one in old if not one.in_place]
        job.manifest["restores"] = job.job.options.rollback.job


def _staying(look: Look, versions: Mapping[str, str]) -> Callable[[str], bool]:
    """Which of the files that a job keeps stay in their places, by their keys."""
    if look.context.options.keep.in_place:
        return lambda _: True
    if versions:
        return lambda key: key not in versions
    return aside.staying(look.destination, look.context.job)


async def _in_place(look: Look) -> dict[str, object]:
    """What the job object says from now on where a job cannot move aside what it keeps."""
    options = look.context.options
    if options.keep.ms is None or options.keep.in_place or look.record.keeps_versions:
        return {}
    problem = await aside.refusal(look.engine, look.context.layout)
    if not problem:
        return {}
    _LOGGER.warning(
        "%s: job %s keeps replaced files in place, next to the new ones: the store refuses to copy them: %s",
        look.context.url,
        look.context.job,
        problem,
    )
    return {"options": replace(options, keep=replace(options.keep, in_place=True))}


@dataclass(frozen=True, slots=True)
class _Promises:
    """What earlier jobs keep."""

    held: Mapping[str, str]  # ETags of what stays where it is, by keys
    going: frozenset[str]  # keys of what magicfs maintain is deleting

    def refuse(self, look: Look, plan: Replacement, shown: Mapping[str, ManifestFile]) -> None:
        if over := [key for key in plan.equal_keys if key in self.held]:
            raise CommitDenied(
                f"job {look.context.job} would overwrite {over[0]}, which an earlier job has replaced and "
                "still keeps; nothing was published; use unique_names=True, or run magicfs maintain after "
                "it has expired"
            )
        restored = (key for key in look.output.restored if key not in shown)
        if lost := [key for key in restored if paths.join(look.destination, key) in self.going]:
            raise files_gone(look.engine, look.context, lost)


async def _promises(look: Look, pointer: Pointer) -> _Promises:
    store, conditions = look.engine.store, look.record.conditions
    lists = await kept.kept_by(store, look.destination, conditions, pointer.keeping)
    held = {one.key: one.etag.strip('"') for objects in lists.values() for one in objects if one.in_place}
    going = {one.key for job in pointer.keeping if job.expires for one in lists[job.job_id]}
    going -= {one.key for job in pointer.keeping if not job.expires for one in lists[job.job_id]}
    return _Promises(held, frozenset(going))


def _leave(look: Look, plan: Replacement, held: Mapping[str, str], shown: Mapping[str, ManifestFile]) -> None:
    """Leave what is held, and what is shown again. What is shown and stays is ``left``.

    What is kept and shown all the same, since a rollback, is still what the earlier job has promised. Only a
    job that keeps what it replaces promises it once more.
    """
    restored, promises_again = look.output.restored, look.context.options.keep.ms is not None

    def stays(one: OldFile) -> bool:
        relative = paths.relative_to(one.key, look.destination)
        if relative in restored:
            return True
        return not (promises_again and relative in shown) and one.etag.strip('"') == held.get(one.key)

    staying = [one for one in plan.deleted if stays(one)]
    plan.deleted = [one for one in plan.deleted if not stays(one)]
    shown_keys = {paths.join(look.destination, key) for key in shown if key not in restored}
    plan.left += [one for one in staying if one.key in shown_keys]
    partitions = look.context.options.rollback.partitions
    if partitions is not None:
        plan.left += _missing(look, partitions, plan, shown_keys, shown)


def _missing(
    look: Look,
    partitions: Sequence[str],
    plan: Replacement,
    shown_keys: Collection[str],
    shown: Mapping[str, ManifestFile],
) -> list[OldFile]:
    """What is shown in the partitions of a rollback, and is not there any more."""
    listed = {one.key for one in (*plan.deleted, *plan.left)}
    inside = {key: one for key, one in as_old(shown).items() if lies_in(key, partitions)}
    old = [one._replace(key=paths.join(look.destination, key)) for key, one in inside.items()]
    return [one for one in old if one.key in shown_keys and one.key not in listed]


def versions_of(context: JobContext, found: Replacement, shown: Mapping[str, ManifestFile]) -> dict[str, str]:
    """The versions of what a job replaces, by keys: of files that manifests name with one."""
    versions = {}
    for one in found.deleted:
        file = shown.get(paths.relative_to(one.key, context.layout.destination))
        if file is not None and file.version and file.etag.strip('"') == one.etag.strip('"'):
            versions[one.key] = file.version
    return versions


async def restored_files(
    engine: Engine, context: JobContext, conditions: Conditions, copied: Collection[str] = ()
) -> dict[str, ManifestFile]:
    """The files that were visible when the job that a rollback leads to had been published, by relative keys,
    without those of which it has a copy among the keys in ``copied``.

    Raises ObjectNotFound if no such job is in the chain, UsageError if not all of its files were known.
    """
    store, destination, job = engine.store, context.layout.destination, context.options.rollback.job
    assert job is not None
    if not await is_published(store, destination, conditions, job):
        raise ObjectNotFound(
            "rollback",
            f"{store.bucket}/{chain.manifest_key(destination, job)}",
            f"job {job} was not published to {context.url}; nothing was changed",
            hint=f"magicfs log {context.url} shows all publications",
        )
    view = await chain.view_of(chain.chain(store, destination, conditions, start=job, hidden="none"))
    assert view is not None
    if view.older_files:
        raise UsageError(
            f"when job {job} was published to {context.url} there were files in no manifest, so magicfs "
            "cannot know what readers saw then; nothing was changed; roll back to a later job"
        )
    only = context.options.rollback.partitions
    return {
        key: file
        for key, file in view.files.items()
        if (not copied or copied_key(destination, key, context.job) not in copied)
        and (only is None or lies_in(key, only))
    }


def files_gone(
    engine: Engine, context: JobContext, keys: Sequence[str], job: str | None = None
) -> ObjectNotFound:
    """The error of a rollback to files of a job that are gone, whose relative keys are given."""
    return ObjectNotFound(
        "rollback",
        f"{engine.store.bucket}/{paths.join(context.layout.destination, keys[0])}",
        f"{len(keys)} files of the dataset as of job {job or context.options.rollback.job} are gone, "
        "overwritten, or being deleted; nothing was changed",
        hint="choose another publication, or only partitions that are whole; publish with keep= to keep "
        "replaced files for a time",
    )


def _cannot_keep(context: JobContext, key: str) -> UsageError:
    """The error of a job that would write over what it is to keep."""
    return UsageError(
        f"job {context.job} would overwrite {key}, which keep has to preserve; nothing was published; use "
        "unique_names=True, or leave keep out"
    )
