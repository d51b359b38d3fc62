"""What a job replaces: the planner of its mode reads what it has to know, and plans. Nothing is changed.

A plan is one value, a ``Replacement``. Planners decide it by pure functions, from the listing and from what
manifests show. A guest brings a planner of its own with what the job publishes (``JobOutput.planner``).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Final

from magicfs.engine import Engine
from magicfs.errors import CommitDenied, FormatError, ObjectNotFound
from magicfs.formats.deletions import OldObject
from magicfs.formats.job_object import SeenPointer
from magicfs.formats.manifest import ManifestFile
from magicfs.manifests.chain import Seen, chain, read, read_pointer, view_of
from magicfs.manifests.comparison import is_file
from magicfs.manifests.runs import job_of_run_by
from magicfs.protocol import conflict, paths
from magicfs.protocol.conflict import lies_in
from magicfs.protocol.replacement import (
    OldFile,
    Partitions,
    Replacement,
    Scope,
    lost_partitions,
    partitions_of,
)
from magicfs.runtime.parallel import drained
from magicfs.transaction import scope
from magicfs.transaction.context import JobContext
from magicfs.transaction.extension import KEEPS, extensions_of
from magicfs.transaction.outcome import has_no_files
from magicfs.transaction.output import JobOutput, keys_that_may_be_taken
from magicfs.transaction.record import JobRecord

__all__ = [
    "Choice",
    "Look",
    "Plan",
    "Planner",
    "Replace",
    "as_old",
    "look",
    "naming",
    "planner_of",
    "seen_by",
]

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
    def destination(self) -> str:
        return self.context.layout.destination

    @property
    def pointer(self) -> SeenPointer | None:
        return seen_by(self.seen)

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
        """Take out of what the listing has shown in the scope what is not replaced."""

    def refuse(self, plan: Replacement) -> None:
        """Refuse to publish onto what is there."""
        scope.refuse_equal(self.look.context, plan.equal_keys)

    def _scope(self, *, whole: bool, partitions: Partitions = None) -> Scope:
        destination = self.look.destination
        given_up = self.look.context.options.places.also_replace
        also = tuple(key for key in given_up if paths.is_under(key, destination))
        return Scope(destination, whole, partitions, also)

    def _keys(self) -> Iterable[str]:
        """The job's files at the destination; files for extra ones replace nothing."""
        return (one for one in self.look.output.final_keys() if paths.is_under(one, self.look.destination))


class _Fail(Planner):
    announces = True

    async def scope(self) -> Scope:
        context, partitions = self.look.context, None
        if context.is_partition_scoped:
            partitions = conflict.partitions_to_check(self._keys(), self.look.destination)
        return self._scope(whole=partitions is None, partitions=partitions)

    def refuse(self, plan: Replacement) -> None:
        scope.refuse_any(self.look.context, plan.deleted)


class Replace(Planner):
    """``replace``: all that is there."""

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


class ReplacePartitions(Replace):
    """``replace_partitions``: what is in the partitions that the job writes to.

    A run that is published again takes in other partitions the files that its earlier publication brought
    there, as far as they are still shown, and leaves all that other jobs brought.
    """

    warns = False

    def __init__(self, look: Look) -> None:
        super().__init__(look)
        self._touched: tuple[str, ...] = ()
        self._earlier: Mapping[str, ManifestFile] = {}

    async def scope(self) -> Scope:
        self._touched = conflict.touched_partitions(self._keys(), self.look.destination)
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
        if options.rerun != "replace" or options.run_id is None or look.seen is None:
            return {}
        store, conditions = look.engine.store, look.record.conditions
        job = await job_of_run_by(store, look.destination, conditions, look.seen[0], options.run_id)
        manifest = None if job is None else await read(store, look.destination, job, conditions)
        if manifest is None:
            return {}
        shown = await look.shown()
        is_outside = partial(_is_outside, self._touched)
        return {one.key: one for one in manifest.files if shown.get(one.key) == one and is_outside(one.key)}


def _is_outside(partitions: tuple[str, ...], key: str) -> bool:
    return not lies_in(key, partitions)


class _Named(Replace):
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
                f"the files of {context.url} that job {context.job} was to {context.options.conflict} were "
                "replaced by other jobs meanwhile; nothing was changed; call again"
            )
        partitions = partitions_of(self._chosen)
        return self._scope(whole=partitions is None, partitions=partitions)

    async def narrow(self, plan: Replacement) -> None:
        doubtful = plan.take_only(as_old(self._chosen))
        bucket = self.look.engine.store.bucket

        async def look(one: OldFile) -> bool:
            try:
                info = await self.look.engine.store.head(one.key)
            except ObjectNotFound:
                return True  # it is deleted only if it is the one that was listed
            if not is_file(info, self._chosen[paths.relative_to(one.key, self.look.destination)]):
                raise CommitDenied(
                    f"{bucket}/{one.key} was written over since it was published; nothing was changed; run "
                    f"magicfs verify {self.look.context.url}, and remove or restore what is altered"
                )
            return True

        await drained(doubtful, look, self.look.engine.concurrency)


_PLANNERS: Final[Mapping[str, Callable[[Look], Planner]]] = MappingProxyType(
    {"append": Planner, "fail": _Fail, "replace": Replace, "replace_partitions": ReplacePartitions}
)


def naming(choice: Choice) -> Callable[[Look], Planner]:
    """The planner of a job that replaces exactly the files of a choice."""
    return partial(_Named, choice)


def planner_of(look: Look) -> Planner:
    """The planner of a job: the one that came with its output, or that of its mode."""
    return (look.output.planner or _PLANNERS[look.context.options.conflict])(look)


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
        versions = found.versions
        old = [OldObject(one.key, one.etag, one.size, versions.get(one.key, "")) for one in gone]
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
        warning = (
            f"{count} replaced by nothing, such as {', '.join(lost[:_SHOWN])}{more}: conflict='replace' "
            "deletes the whole dataset; use conflict='replace_partitions' to replace only the partitions "
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
        await scope.whole(engine, context, plan)
    else:
        await scope.partitions(engine, destination, plan.scope.partitions or (), plan)
    await planner.narrow(plan)
    for one in extensions_of(_needs(around, planner)):
        await one.plan(around, plan)
    if seen is None and plan.older_files:
        own = output.final_keys() if context.renames.at_task_commit else ()
        plan.older_files = await scope.older_files_are_there(
            engine, context, record.conditions, destination, own
        )
    return Plan(planner, plan, around.pointer, listed_all)


def _needs(around: Look, planner: Planner) -> Collection[str]:
    """The extensions that have a say: those that the job asked for, and of a dataset with a past."""
    needs = {*around.context.options.needs()}
    if planner.announces and around.seen is not None and around.seen[0].keeping:
        needs.add(KEEPS)
    return needs


def as_old(files: Mapping[str, ManifestFile]) -> dict[str, OldFile]:
    """Files of manifests as a listing shows them, by relative keys."""
    return {key: OldFile(key, one.etag, one.size) for key, one in files.items()}
