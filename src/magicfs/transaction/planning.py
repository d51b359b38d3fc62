"""What a job replaces: the planner of its mode reads what it has to know, and plans. Nothing is changed.

A plan is one value, a ``Replacement``. Planners decide it by pure functions, from the listing and from what
manifests show. A guest brings a planner of its own with what the job publishes (``JobOutput.planner``).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Final

from magicfs.engine import Engine
from magicfs.errors import CommitDenied, CommitFailed, FormatError, ObjectNotFound, OutputExists, UsageError
from magicfs.formats.deletions import OldObject
from magicfs.formats.job_object import JobObject, SeenPointer
from magicfs.formats.manifest import ManifestFile
from magicfs.manifests.chain import Seen, chain, read, read_pointer, view_of
from magicfs.manifests.comparison import is_file
from magicfs.manifests.log import job_of_run_by
from magicfs.protocol import modes, paths
from magicfs.protocol.job_state import SHOWS_NOTHING
from magicfs.protocol.modes import lies_in
from magicfs.protocol.replacement import (
    OldFile,
    Partitions,
    Replacement,
    Scope,
    lost_partitions,
    partitions_of,
)
from magicfs.protocol.temporary import RENAMING
from magicfs.report import Advice
from magicfs.runtime.parallel import drained
from magicfs.stores.conditions import Conditions
from magicfs.stores.register import found_at
from magicfs.transaction import facts
from magicfs.transaction.context import JobContext
from magicfs.transaction.extension import KEEPS, extensions_of
from magicfs.transaction.others import find_unfinished_jobs, refuse_lost_pointer
from magicfs.transaction.outcome import has_no_files
from magicfs.transaction.output import JobOutput, keys_that_may_be_taken
from magicfs.transaction.record import JobRecord
from magicfs.transaction.task_manifests import TaskManifests


def _output_exists(context: JobContext, key: str) -> OutputExists:
    """The error for ``mode="error"`` where a key is data already."""
    if context.is_partition_scoped:
        return OutputExists(
            f"a partition of {context.url} that job {context.job} writes to already has data, such as "
            f"{key}, and mode='error' of committer={context.options.committer!r} publishes only into empty "
            "partitions, and files at the root only if the destination is empty; nothing was changed; "
            "choose another destination, or mode='append' or 'overwrite_partitions'"
        )
    return OutputExists(
        f"{context.url} already has data, such as {key}, and mode='error' publishes only to an empty "
        "destination; nothing was changed; choose another destination, or mode='append', "
        "'overwrite_partitions' (only the partitions that you write to) or 'overwrite' (everything)"
    )


async def refuse_data(engine: Engine, context: JobContext, partitions: tuple[str, ...] | None) -> None:
    """Raise OutputExists if data is there in any of the partitions; None looks at all of the destination."""
    destination = context.layout.destination

    async def look(partition: str) -> None:
        async for info in engine.store.list(paths.prefix_of(paths.join(destination, partition))):
            if modes.is_data(info.key, destination):
                raise _output_exists(context, info.key)

    await drained([""] if partitions is None else partitions, look, engine.concurrency)


async def older_files_are_there(
    engine: Engine, context: JobContext, conditions: Conditions, directory: str, own: Iterable[str] = ()
) -> bool:
    """Whether files lie in a directory that no job has brought, when no pointer was there just now. ``own``
    are keys of files that the asking job has made visible already.

    Listed first: the job of a file that is seen is at work afterwards, or has been published, or was undone.
    """
    store = engine.store
    listed = store.list(paths.prefix_of(directory))
    data = {info.key async for info in listed if modes.is_data(info.key, directory)}
    data.difference_update(own)
    if not data:
        return False
    for other in await find_unfinished_jobs(engine, directory):
        if other.job is None:
            continue
        # Only compared with the listing, so what the job names need not be confirmed.
        theirs = replace(context.of(other.job), layout=other.layout)
        theirs = theirs.with_extra(other.job.options.places.extra)
        if other.job.state in SHOWS_NOTHING:
            data -= await _published_by_tasks(engine, theirs)
        else:
            data -= await _keys_of(engine, theirs, other.job)
    # Once a job is published, its manifest tells whether files were there before it.
    return bool(data) and await read_pointer(store, directory, conditions) is None


async def _keys_of(engine: Engine, theirs: JobContext, job: JobObject) -> set[str]:
    try:
        output = await facts.read_output(engine, theirs, job)
    except (ObjectNotFound, FormatError, CommitFailed):
        return set()  # it has ended since, or somebody altered its facts: then nothing is known of its files
    return set(output.final_keys())


async def _published_by_tasks(engine: Engine, theirs: JobContext) -> set[str]:
    """What tasks have made visible whose job has not begun to commit."""
    sets, found = TaskManifests(engine, theirs), set[str]()
    with suppress(
        CommitFailed, FormatError, UsageError
    ):  # somebody altered them: then nothing is known of their files
        for one in await sets.claims():
            claim = await sets.claimed(one.task)
            found |= (
                set() if claim is None else {sets.places.destination_key(f.destination) for f in claim.files}
            )
    return found


async def whole(engine: Engine, context: JobContext, found: Replacement) -> None:
    """List the destination, until nobody needs more. Work files of the job itself are left out.

    Raises CommitFailed if a directory is in the place of a file that the job renames; nothing was changed.
    """
    directory, work = context.layout.destination, None
    if context.options.committer in RENAMING:
        work = paths.prefix_of(context.temporary.job_directory)
    async for info in engine.store.list(paths.prefix_of(directory)):
        if work is not None:
            if info.key.startswith(work):
                continue
            _refuse_directory(info.key, found)
        if not found.add(OldFile(info.key, info.etag, info.size, info.modified)):
            return


def _refuse_directory(key: str, found: Replacement) -> None:
    place = next((one for one in paths.parents(key) if one in found.ours), None) if found.ours else None
    if place is not None:
        raise CommitFailed(
            f"{place} already exists as a directory, and the job has a file of that name; nothing was "
            "published; move it away and commit again, or use other names",
            failed=[place],
        )


async def partitions(engine: Engine, destination: str, chosen: Sequence[str], found: Replacement) -> None:
    """List partitions beside each other, and take what they hold in by their order."""
    listed: dict[str, list[OldFile]] = {}

    async def look(partition: str) -> None:
        objects = engine.store.list(paths.prefix_of(paths.join(destination, partition)))
        listed[partition] = [OldFile(one.key, one.etag, one.size, one.modified) async for one in objects]

    await drained(chosen, look, engine.concurrency)
    for partition in chosen:
        for one in listed[partition]:
            found.add(one)


Choice = Callable[[Mapping[str, ManifestFile]], Mapping[str, ManifestFile]]
"""Chooses files from all that a dataset shows, by keys relative to the destination."""

_LOGGER = logging.getLogger("magicfs")
_SHOWN: Final = 3


def seen_by(seen: Seen | None) -> SeenPointer | None:
    """The pointer that was read, as the job object names it."""
    return None if seen is None else SeenPointer(seen[0].job_id, seen[1].etag)


@dataclass(frozen=True, slots=True)
class Look:
    """One look of a job at what is there, with the pointer that it has read first."""

    engine: Engine
    context: JobContext
    record: JobRecord
    output: JobOutput
    seen: Seen | None = None

    @property
    def parts(self) -> tuple[Engine, JobContext, JobRecord, JobOutput]:
        """All but the pointer."""
        return self.engine, self.context, self.record, self.output

    @property
    def destination(self) -> str:
        return self.context.layout.destination

    async def view(self) -> Mapping[str, ManifestFile]:
        """The files that readers of manifests see, by relative keys. Raises FormatError if they see none, for
        the chain is broken.
        """
        if self.seen is None:
            return {}
        store, conditions = self.engine.store, self.record.conditions
        manifests = chain(store, self.destination, conditions, start=self.seen[0].job_id, hidden="none")
        view = await view_of(manifests)
        return view.files if view is not None else {}

    async def shown(self) -> Mapping[str, ManifestFile]:
        """The same; a chain that is broken shows nothing to anybody."""
        with suppress(FormatError):
            return await self.view()
        return {}


class Planner:
    """``append``: nothing is replaced. The other planners derive from it."""

    announces = False
    """Whether what is planned is announced before the commit point, for it collides with other jobs."""
    deletes = False
    """Whether what is there in the scope is deleted; otherwise nothing may be there."""
    warns = False
    """Whether the caller may not have meant partitions that are replaced by nothing."""

    def __init__(self, look: Look) -> None:
        self.look = look

    def check(self) -> None:
        """Refuse what the mode does not do, whatever is there."""

    async def scope(self) -> Scope:
        """The part of the destination that is replaced, or must be free."""
        return self._scope(whole=False)

    async def narrow(self, plan: Replacement) -> None:
        """Of what is announced: take out of what the listing has shown in the scope what is not replaced."""

    def refuse(self, plan: Replacement) -> None:
        context, taken = self.look.context, plan.equal_keys
        if taken and not context.renames.overwrites:
            raise OutputExists(
                f"{len(taken)} files of job {context.job} have names that are taken, such as "
                f"{taken[0]}, and mode='append' replaces nothing; nothing was changed; use "
                "unique_names=True, other names, or mode='overwrite'"
            )

    def _scope(self, *, whole: bool, partitions: Partitions = None) -> Scope:
        destination = self.look.context.layout.destination
        given_up = self.look.context.options.places.also_overwrite
        also = tuple(key for key in given_up if paths.is_under(key, destination))
        return Scope(destination, whole, partitions, also)

    def _keys(self) -> Iterable[str]:
        """The job's files at the destination; files for extra ones replace nothing."""
        return (one for one in self.look.output.final_keys() if paths.is_under(one, self.look.destination))


class _Error(Planner):
    announces = True

    async def scope(self) -> Scope:
        context, partitions = self.look.context, None
        if context.is_partition_scoped:
            partitions = modes.partitions_to_check(self._keys(), self.look.destination)
        return self._scope(whole=partitions is None, partitions=partitions)

    def refuse(self, plan: Replacement) -> None:
        data = (one.key for one in plan.deleted if modes.is_data(one.key, self.look.destination))
        if (there := next(data, None)) is not None:
            raise _output_exists(self.look.context, there)


class Overwrite(Planner):
    """``overwrite``: all that is there."""

    announces = deletes = warns = True

    def check(self) -> None:
        if not self.look.context.options.allow_empty and not any(self._keys()):
            raise has_no_files(self.look.context)

    async def scope(self) -> Scope:
        return self._scope(whole=True)

    async def narrow(self, plan: Replacement) -> None:
        if plan.hidden and self.look.seen is not None:
            plan.remove_known(await self._published())

    def refuse(self, plan: Replacement) -> None:
        pass

    async def _published(self) -> dict[str, str]:
        """ETags of all files that manifests show, by relative keys; none if the chain cannot be read.

        Only manifests tell what jobs published under hidden names from what others keep under them.
        """
        assert self.look.seen is not None
        start, conditions = self.look.seen[0].job_id, self.look.record.conditions
        manifests = chain(self.look.engine.store, self.look.destination, conditions, start=start)
        try:
            view = await view_of(manifests)
        except FormatError:
            return {}
        return {file.key: file.etag for file in view.files.values()} if view else {}


class OverwritePartitions(Overwrite):
    """``overwrite_partitions``: what is in the partitions that the job writes to.

    A run that is published again takes in other partitions the files that its earlier publication brought
    there, as far as they are still shown, and leaves all that other jobs brought.
    """

    warns = False

    def __init__(self, look: Look) -> None:
        super().__init__(look)
        self._touched: tuple[str, ...] = ()
        self._earlier: Mapping[str, ManifestFile] = {}

    async def scope(self) -> Scope:
        self._touched = modes.touched_partitions(self._keys(), self.look.destination)
        self._earlier = await self._earlier_files()
        partitions: Partitions = self._touched
        if self._earlier:
            partitions = partitions_of([*(f"{one}/" for one in self._touched), *self._earlier])
        return self._scope(whole=partitions is None, partitions=partitions)

    async def narrow(self, plan: Replacement) -> None:
        await super().narrow(plan)
        if self._earlier:
            plan.leave_others(self._touched, as_old(self._earlier))

    async def _earlier_files(self) -> dict[str, ManifestFile]:
        look, options = self.look, self.look.context.options
        if options.rerun != "overwrite" or options.run_id is None or look.seen is None:
            return {}
        store, conditions = look.engine.store, look.record.conditions
        job = await job_of_run_by(store, look.destination, conditions, look.seen[0], options.run_id)
        manifest = None if job is None else await read(store, look.destination, job, conditions)
        if manifest is None:
            return {}
        shown = await look.shown()
        ours = (one for one in manifest.files if shown.get(one.key) == one)
        return {one.key: one for one in ours if not lies_in(one.key, self._touched)}


class _Named(Overwrite):
    """``drop`` and ``rewrite``: exactly the files that are named.

    They are chosen each time the job looks, from what is shown then. So a file that another job has replaced
    in the meantime is not taken for the one of that name.
    """

    warns = False

    def __init__(self, choice: Choice, look: Look) -> None:
        super().__init__(look)
        self._choice = choice
        self._chosen: Mapping[str, ManifestFile] = {}

    def check(self) -> None:
        pass

    async def scope(self) -> Scope:
        context = self.look.context
        self._chosen = self._choice(await self.look.view()) if self.look.seen is not None else {}
        if not self._chosen:
            raise CommitDenied(
                f"the files of {context.url} that job {context.job} should {context.options.mode} were "
                "replaced by other jobs meanwhile; nothing was changed; call again"
            )
        partitions = partitions_of(self._chosen)
        return self._scope(whole=partitions is None, partitions=partitions)

    async def narrow(self, plan: Replacement) -> None:
        doubtful = plan.take_only(as_old(self._chosen))
        bucket = self.look.engine.store.bucket

        async def look(one: OldFile) -> None:
            info = await found_at(self.look.engine.store, one.key)
            # What is gone needs no look: it is deleted only if it is the one that was listed.
            if info is not None and not is_file(
                info, self._chosen[paths.relative_to(one.key, self.look.destination)]
            ):
                raise CommitDenied(
                    f"{bucket}/{one.key} was overwritten since it was published; nothing was changed; run "
                    f"magicfs verify {self.look.context.url}, and remove or restore altered files"
                )

        await drained(doubtful, look, self.look.engine.concurrency)


_PLANNERS: Final[Mapping[str, Callable[[Look], Planner]]] = MappingProxyType(
    {"append": Planner, "error": _Error, "overwrite": Overwrite, "overwrite_partitions": OverwritePartitions}
)


def naming(choice: Choice) -> Callable[[Look], Planner]:
    """The planner of a job that replaces exactly the files of a choice."""
    return partial(_Named, choice)


def planner_of(look: Look) -> Planner:
    """The planner of a job: the one that came with its output, or that of its mode."""
    return (look.output.planner or _PLANNERS[look.context.options.mode])(look)


@dataclass(frozen=True, slots=True)
class Plan:
    """What a job replaces, and what was seen before that was decided."""

    planner: Planner
    replacement: Replacement
    pointer: SeenPointer | None
    listed_all: bool  # whether the whole destination was listed

    @property
    def obstacles(self) -> list[OldObject]:
        """Old files in the places of directories: deleted before files are renamed, each by its ETag."""
        places = set(self.planner.look.output.obstacles)
        equal = self.replacement.equal
        return [OldObject(one.key, one.etag, one.size) for one in equal if one.key in places]

    @property
    def deleted(self) -> list[OldObject]:
        """What is deleted once every file is visible, the obstacles at the end."""
        found, over = self.replacement, set(self.replacement.equal_keys)
        gone = (one for one in found.deleted if self.planner.deletes and one.key not in over)
        old = [OldObject(one.key, one.etag, one.size, found.versions.get(one.key, "")) for one in gone]
        return [*old, *self.obstacles]

    @property
    def hidden(self) -> list[OldObject]:
        """What stays where it is and is no part of the dataset any more, if the manifest names that."""
        if not self.planner.look.context.names_replaced:
            return []
        return [OldObject(one.key, one.etag, one.size) for one in self.replacement.left]

    def warnings(self) -> list[str]:
        """What the caller may not have meant; it is logged, too."""
        around = self.planner.look
        old = (one.key for one in self.replacement.deleted if self.planner.warns)
        lost = lost_partitions(around.destination, old, around.output.final_keys())
        if not lost:
            return []
        more = ", …" if len(lost) > _SHOWN else ""
        count = "1 partition is" if len(lost) == 1 else f"{len(lost):,} partitions are"
        warning = Advice(
            f"{count} deleted without new data, such as {', '.join(lost[:_SHOWN])}{more}: mode='overwrite' "
            "deletes the whole dataset; use mode='overwrite_partitions' to replace only the partitions "
            "that you write"
        )
        _LOGGER.warning("job %s, %s: %s", around.context.job, around.context.url, warning)
        return [warning]


async def look(engine: Engine, context: JobContext, record: JobRecord, output: JobOutput) -> Plan:
    """Read the pointer, then list what a job replaces, and plan."""
    destination = context.layout.destination
    seen = await read_pointer(engine.store, destination, record.conditions)
    around = Look(engine, context, record, output, seen)
    planner = planner_of(around)
    # Names that are unique need no look at what is there, except to know whether a manifest knows it all.
    ours = keys_that_may_be_taken(context, output) | dict.fromkeys(output.obstacles)
    plan = Replacement(await planner.scope(), ours)
    listed_all = plan.scope.whole or bool(ours) or seen is None
    if listed_all:
        await whole(engine, context, plan)
    else:
        await partitions(engine, destination, plan.scope.partitions or (), plan)
    if planner.announces:
        await planner.narrow(plan)
    needs = {*context.options.needs()}
    if planner.announces and seen is not None and seen[0].keeping:
        needs.add(KEEPS)  # of what earlier jobs have promised
    for one in extensions_of(needs):
        await one.plan(around, plan)
    if seen is None and (plan.older_files or plan.deleted):
        await refuse_lost_pointer(engine, paths.parse_url(context.url))
    if seen is None and plan.older_files:
        own = output.final_keys() if context.renames.at_task_commit else ()
        plan.older_files = await older_files_are_there(engine, context, record.conditions, destination, own)
    return Plan(planner, plan, seen_by(seen), listed_all)


def as_old(files: Mapping[str, ManifestFile]) -> dict[str, OldFile]:
    """Files of manifests as a listing shows them, by relative keys."""
    return {key: OldFile(key, one.etag, one.size) for key, one in files.items()}
