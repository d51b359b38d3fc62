"""Adds the files at a destination to its dataset, and repairs its chain of manifests.

A lost pointer is made again from the manifests. If a manifest is lost, a new one hides the chain. It lists
what the manifests above the lost one show, and all other files except those that a job certainly replaced.
A broken log is left: the next compaction makes another one from the manifests. Nothing is deleted.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Unpack
from uuid import uuid4

from magicfs.datasets.connection import Way, open_destination, record
from magicfs.engine import Engine
from magicfs.errors import CommitDenied, FormatError, ObjectExists, PreconditionFailed, UsageError
from magicfs.formats.manifest import Manifest, ManifestFile
from magicfs.formats.pointer import Pointer
from magicfs.manifests import chain, log
from magicfs.manifests.chain import ADOPT, READING, View
from magicfs.manifests.kept import kept_by, kept_of
from magicfs.manifests.log_files import read_set
from magicfs.operate.lost_pointer import LostPointer, lost_pointer, point_to, problem_of, restore
from magicfs.operate.old_pointer import Unlinked, is_of, sort_out, unlinked
from magicfs.protocol import paths
from magicfs.protocol.modes import MANIFESTS, is_data, table_format_of
from magicfs.protocol.paths import Location
from magicfs.report import Report
from magicfs.stores import object_settings
from magicfs.stores.conditions import Conditions, conditions_of
from magicfs.stores.port import Store
from magicfs.stores.register import Register
from magicfs.transaction.others import find_unfinished_jobs, is_kept_by_magicfs

_LOGGER = logging.getLogger("magicfs")


@dataclass(frozen=True, slots=True)
class AdoptReport(Report):
    """The result of ``adopt``.

    Attributes:
        url: The destination.
        problem: What was wrong with the pointer, a manifest or the log of publications; empty if nothing was.
        manifest: URL of the manifest that was published; None if none was needed, or with ``dry_run``.
        files: How many files the dataset has.
        bytes: Their size.
        linked: Published jobs that a lost or older pointer did not lead to, and that readers see again.
        adopted: Files that were in no manifest, as far as manifests can be read.
        kept: Adopted files that a job has replaced and keeps: readers see them again.
        lost: What could not be recovered.
    """

    url: str
    problem: str = ""
    manifest: str | None = None
    files: int = 0
    bytes: int = 0
    linked: tuple[str, ...] = ()
    adopted: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()

    @property
    def job_id(self) -> str | None:
        """The job that the pointer names now; None if nothing was changed."""
        name = None if self.manifest is None else self.manifest.rpartition("/")[2].removesuffix(".json")
        return name or next(reversed(self.linked), None)


def adopt(url: str | PathLike[str], *, dry_run: bool = False, **way: Unpack[Way]) -> AdoptReport:
    """See ``magicfs.Dataset.adopt``."""
    destination = open_destination(url, for_reading=True, **way)
    report = destination.run(adopt_files, dry_run=dry_run)
    record(destination, "adopt", {"dry_run": dry_run}, report)
    for one in report.lost:
        _LOGGER.warning("%s: adopt could not recover %s", report.url, one)
    return report


async def adopt_files(engine: Engine, location: Location, *, dry_run: bool = False) -> AdoptReport:
    """``adopt``, on the store's loop."""
    store, destination = engine.store, location.key
    found = await _pointer(engine, location, dry_run=dry_run)
    # Listed first: what a job published meanwhile is then known by its manifest.
    found.files = await listed_files(store, location)
    found.listed = dict(found.files)
    await refuse_unfinished(engine, location)
    await _link(engine, location, found, dry_run=dry_run)
    await _read_chain(store, destination, found)
    await _read_log(store, destination, found)
    if found.is_mended:
        await _look_for_kept(store, destination, found)
    else:
        await _look_at_others(engine, location, found)
        _refuse_doubtful(location, found)
    if found.files or found.copies:
        # A job that has ended since the first listing may have taken back or replaced what that has shown.
        found.leave_changed(await listed_files(store, location))
    job = None
    if not dry_run and (found.needs_manifest or found.log_problem):
        job = await _publish(engine, location, found)
    return found.report(location, job)


@dataclass(slots=True)
class _Found:
    """What a destination has, and what is wrong with its chain."""

    lost: LostPointer | None
    pointer: Pointer | None
    """None before the first job, and where no manifest shows what it was."""
    files: dict[str, ManifestFile] = field(default_factory=dict)
    """Those that lie there, and that no manifest names."""
    shown: Mapping[str, ManifestFile] = field(default_factory=dict)
    """Those that readers see, as far as manifests can be read."""
    older_files: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)
    """The settings of the newest job, whose files the adopted ones join."""
    end: str | None = None
    """The job at whose manifest, which is gone, the chain ends."""
    is_cut: bool = False
    """Whether the chain cannot be read to its end, or to where all is hidden."""
    problem: str = ""
    """Why readers do not know which files there are."""
    log_problem: str = ""
    unread: list[FormatError] = field(default_factory=list)
    """What is wrong with lists of kept files."""
    kept: set[str] = field(default_factory=set)
    unlinked: Unlinked = field(default_factory=Unlinked)
    """What the pointer does not lead to; where it is lost, nothing."""
    copies: list[Manifest] = field(default_factory=list)
    """Of jobs to which the pointer does not lead, with the files that are taken in; the oldest first."""
    again: list[str] = field(default_factory=list)
    """Which files are left out, for their runs were published again."""
    listed: Mapping[str, ManifestFile] = field(default_factory=dict)
    """All files that lie there."""
    hidden: set[str] = field(default_factory=set)
    """The keys of files that readers see, and that a job to which the pointer does not lead has replaced."""

    @property
    def is_undecided(self) -> bool:
        """Whether no manifest shows what a lost pointer was."""
        return self.lost is not None and self.pointer is None

    @property
    def head(self) -> Pointer | None:
        """The pointer, or what the manifests say of one that is lost."""
        if self.pointer is None and self.lost is not None:
            return self.lost.naming("lost")
        return self.pointer

    @property
    def is_mended(self) -> bool:
        """Whether a manifest must hide the chain."""
        return self.is_undecided or bool(self.problem) or (self.is_cut and bool(self.log_problem))

    @property
    def needs_manifest(self) -> bool:
        return self.needs_one_of_its_own or bool(self.copies)

    @property
    def needs_one_of_its_own(self) -> bool:
        """Whether a manifest is needed next to those of the copies."""
        return self.is_mended or self.older_files or bool(self.files or self.hidden)

    @property
    def taken(self) -> dict[str, ManifestFile]:
        """All files that join the dataset."""
        return {**self.files, **{file.key: file for one in self.copies for file in one.files}}

    def leave_changed(self, there: Mapping[str, ManifestFile]) -> None:
        """Leave out what another listing does not show as the first did."""
        same = {key for key, file in self.listed.items() if there.get(key) == file}
        self.files = {key: file for key, file in self.files.items() if key in same}
        left = (tuple(file for file in one.files if file.key in same) for one in self.copies)
        self.copies = [
            replace(one, files=files) for one, files in zip(self.copies, left, strict=True) if files
        ]

    def mended(self, pointer: Pointer) -> Pointer:
        """The pointer without a log that cannot be read."""
        if not self.log_problem:
            return pointer
        return replace(pointer, log=None, nonce=uuid4().hex).unsure()

    def manifest(self, location: Location, settings: Mapping[str, str]) -> Manifest:
        """What makes them part of the dataset."""
        files = {**self.files, **(self.shown if self.is_mended else {})}
        return Manifest(
            job_id=f"adopted-{uuid4()}",
            bucket=location.bucket,
            destination=location.key,
            mode=ADOPT,
            committed_ms=int(time.time() * 1000),
            hides="all" if self.is_mended else "keys" if self.hidden else "nothing",
            replaced=self.pointer.job_id if self.is_mended and self.pointer is not None else None,
            deleted=() if self.is_mended else tuple(sorted(self.hidden)),
            files=tuple(files[key] for key in sorted(files)),
            object_settings=settings,
        )

    def losses(self) -> Iterator[str]:
        """What cannot be recovered."""
        yield from self.again
        if self.is_mended:
            upto = f" up to job {self.end}" if self.end else ""
            yield f"the order of the publications{upto}: magicfs log and rollbacks end there"
            yield "run ids that are no longer recorded: running such a run again publishes it again"
        if self.log_problem:
            yield "publications that only the log named, because their manifests are gone"
        if self.unread:
            yield f"which files were kept: {self.unread[0]}"
        if kept := self.kept & self.files.keys():
            yield (
                f"which of {len(kept)} replaced and kept files a rollback had restored: all of them are now "
                "part of the dataset; remove unwanted ones with magicfs drop"
            )

    def _linked(self) -> tuple[str, ...]:
        newest = () if self.lost is None or self.lost.newest is None else (self.lost.newest,)
        return tuple(one.job_id for one in self.unlinked.line) or newest

    def report(self, location: Location, job: str | None) -> AdoptReport:
        key = "" if job is None else chain.manifest_key(location.key, job)
        taken = self.taken
        files = {**self.shown, **taken}
        lost = self.lost.problem if self.lost is not None else self.unlinked.problem
        problems = [lost, self.problem, self.log_problem]
        return AdoptReport(
            location.url,
            "; ".join(one for one in problems if one),
            Location(location.scheme, location.bucket, key).url if job is not None else None,
            len(files),
            sum(one.size for one in files.values()),
            self._linked(),
            tuple(sorted(taken)),
            tuple(sorted(self.kept & taken.keys())),
            tuple(self.losses()),
        )


async def listed_files(store: Store, location: Location) -> dict[str, ManifestFile]:
    """All data at a destination, by relative keys. Raises UsageError for a table of another format, and above
    another dataset.
    """
    files: dict[str, ManifestFile] = {}
    is_registered = False
    async for info in store.list(paths.prefix_of(location.key)):
        if (table := table_format_of(info.key, location.key)) is not None:
            is_registered = is_registered or await is_kept_by_magicfs(store, location.key, info.key)
            if is_registered:
                continue
            raise UsageError(f"{location.url} is a table of {table}, whose own log lists its files; use that")
        key = paths.relative_to(info.key, location.key)
        below, is_record, _ = key.partition(f"/{MANIFESTS}/")
        if is_record:
            raise UsageError(f"{location.url} contains the dataset {below}; adopt each by its own URL")
        if is_data(info.key, location.key):
            files[key] = ManifestFile(key=key, size=info.size, etag=info.etag)
    return files


async def refuse_unfinished(engine: Engine, location: Location) -> None:
    """Raise UsageError if a job has not ended there."""
    found = await find_unfinished_jobs(engine, location.key)
    if found:
        raise UsageError(
            f"job {found[0].job_id} at {location.url} is unfinished, and adopt could take its files; wait "
            f"for it, or run: magicfs recover {location.url}"
        )


async def _pointer(engine: Engine, location: Location, *, dry_run: bool) -> _Found:
    """The pointer, made again if it is lost and the manifests show what it was."""
    store, destination = engine.store, location.key
    with suppress(FormatError):  # one that cannot be mended is raised again
        if (seen := await chain.read_pointer(store, destination, READING)) is not None:
            return _Found(None, seen[0])
    unfinished = [one.job_id for one in await find_unfinished_jobs(engine, destination)]
    lost = await lost_pointer(store, destination, unfinished)
    if lost is None or lost.newest is None:
        return _Found(lost, None)
    if dry_run:
        return _Found(lost, lost.naming(lost.newest))
    try:
        return _Found(lost, await restore(store, destination, lost))
    except (ObjectExists, PreconditionFailed) as error:
        raise _published_meanwhile(location) from error


async def _link(engine: Engine, location: Location, found: _Found, *, dry_run: bool) -> None:
    """Link what was published right above a pointer that is an older copy of itself."""
    if found.lost is not None or found.pointer is None:
        return
    found.unlinked = await unlinked(engine, location)
    if not (line := found.unlinked.line) or dry_run:
        return
    store = object_settings.store_as_recorded(engine.store, line[-1].object_settings)
    conditions = await conditions_of(store, paths.join(location.key, MANIFESTS))
    seen = await chain.read_pointer(store, location.key, READING)
    if seen is None or seen[0].nonce != found.pointer.nonce:
        raise _published_meanwhile(location)
    try:
        found.pointer = await chain.link_again(store, conditions, location.key, line, seen)
    except PreconditionFailed as error:
        raise _published_meanwhile(location) from error


async def _look_at_others(engine: Engine, location: Location, found: _Found) -> None:
    """Take in what others have published, leave out what they have replaced, and hide it."""
    lying = {key: file.etag for key, file in found.listed.items()}
    # What they have written over what readers see is theirs, too.
    seen = {key for key in lying.keys() & found.shown.keys() if is_of(lying, found.shown[key])}
    foreign = found.files.keys() | (lying.keys() & found.shown.keys() - seen)
    done = await sort_out(engine, location, found.unlinked, lying, foreign, found.shown)
    left = set(done.kept)
    for one, files in done.taken:
        found.copies.append(_copy_of(one, files))
        left |= files.keys()
    for one, keys, job in done.again:
        left |= keys
        found.again.append(
            f"{len(keys)} files of job {one.job_id}, such as {min(keys)}: job {job} has published its run "
            f"{one.run_id} again; readers of manifests do not see them, listings show them; remove them"
        )
        done.replaced |= keys & found.shown.keys()
    found.copies.reverse()
    found.hidden = done.replaced
    found.files = {key: file for key, file in found.files.items() if key not in left}
    found.shown = {key: file for key, file in found.shown.items() if key not in found.hidden}


def _copy_of(manifest: Manifest, files: Mapping[str, ManifestFile]) -> Manifest:
    """What makes files of a job to which the pointer does not lead part of the dataset, and its run known."""
    return Manifest(
        job_id=f"adopted-{uuid4()}",
        run_id=manifest.run_id,
        bucket=manifest.bucket,
        destination=manifest.destination,
        mode=ADOPT,
        committed_ms=int(time.time() * 1000),
        files=tuple(files[key] for key in sorted(files)),
        object_settings=manifest.object_settings,
    )


async def _read_chain(store: Store, destination: str, found: _Found) -> None:
    """Leave out the files that a manifest names, and find what readers see."""
    if found.lost is not None and found.is_undecided:
        found.settings = found.lost.settings
        return
    above = {one.job_id: one for one in found.unlinked.line}
    found.end = None if found.pointer is None else next(reversed(above), found.pointer.job_id)
    start = None if found.lost is None and not above else found.end
    newest = None
    try:
        async for one in chain.chain(
            store, destination, READING, start=start, known=above, hidden="readable"
        ):
            # Hidden ones too: what a job has replaced must not come back.
            for key in (*(file.key for file in one.files), *one.deleted):
                found.files.pop(key, None)
            await _leave_kept(store, destination, one, found)
            newest = newest or one
            found.end = one.previous
    except FormatError as error:
        problem_of(error)
        found.is_cut = True
    found.settings = {} if newest is None else newest.object_settings
    view, found.problem = await _view(store, destination, start, above)
    if view is not None:
        found.shown, found.older_files = view.files, view.older_files


async def _leave_kept(store: Store, destination: str, manifest: Manifest, found: _Found) -> None:
    """Leave out what a job has replaced and keeps."""
    try:
        kept = await kept_of(store, destination, manifest) if found.files else ()
    except FormatError as error:
        problem_of(error)
        found.unread.append(error)
        return
    for one in kept:
        found.files.pop(paths.relative_to(one.key, destination), None)


async def _view(
    store: Store, destination: str, start: str | None, known: Mapping[str, Manifest]
) -> tuple[View | None, str]:
    """What readers see, or would if the chain began above the manifest that is lost; and what is wrong."""
    above: list[Manifest] = []

    async def noted() -> AsyncIterator[Manifest]:
        async for one in chain.chain(store, destination, READING, start=start, known=known, hidden="none"):
            above.append(one)
            yield one

    async def again() -> AsyncIterator[Manifest]:
        for one in above:
            yield one

    try:
        return await chain.view_of(noted()), ""
    except FormatError as error:
        problem = problem_of(error)
    return await chain.view_of(again()), problem


async def _read_log(store: Store, destination: str, found: _Found) -> None:
    """Read the whole log of publications, to see whether it can be read."""
    if (head := found.head) is None or head.log is None:
        return
    try:
        past = await log.past_of(store, destination, READING, head)
        if past.log is not None:
            async for _ in log.newest_first(store, destination, past.log):
                pass
            for names in past.log.names:
                await read_set(store, destination, names)
    except FormatError as error:
        found.log_problem = problem_of(error)


def _refuse_doubtful(location: Location, found: _Found) -> None:
    """Raise if files may be some that a job has replaced: then they must not come back."""
    if found.files and found.unread:
        raise found.unread[0]
    if found.files and found.end is not None:
        raise UsageError(
            f"the manifest of job {found.end} is missing. It may have listed {len(found.files)} files of "
            f"{location.url}, such as {min(found.files)}, and a later job replaced the files that it "
            "listed; nothing was changed; remove those files, or publish them by a job"
        )


async def _look_for_kept(store: Store, destination: str, found: _Found) -> None:
    """Leave out what the lost job itself has replaced and keeps, and note what others do.

    Of the others nobody knows whether a rollback, whose manifest is lost, shows their files again.
    """
    if found.pointer is not None and not found.problem:
        found.files.clear()  # readers see all that they ever saw
        return
    for keeping in () if (head := found.head) is None else head.keeping:
        try:
            objects = (await kept_by(store, destination, READING, [keeping]))[keeping.job_id]
        except FormatError as error:
            problem_of(error)
            found.unread.append(error)
            continue
        for one in objects:
            key = paths.relative_to(one.key, destination)
            if key in found.files and found.files[key].etag.strip('"') == one.etag.strip('"'):
                if keeping.job_id == found.end:
                    del found.files[key]
                else:
                    found.kept.add(key)


async def _publish(engine: Engine, location: Location, found: _Found) -> str | None:
    """Publish what was found, if the chain is what it was; returns the job of a manifest."""
    destination, settings = location.key, found.settings or object_settings.of_store(engine.store)
    store = object_settings.store_as_recorded(engine.store, found.settings)
    conditions = await conditions_of(store, paths.join(destination, MANIFESTS))
    if (found.is_mended or found.log_problem) and not conditions.put_if_absent:
        raise UsageError(
            f"the store {store.name!r} ignores conditional writes, so a job that publishes at the same "
            "moment could be lost; nothing was changed; use another store"
        )
    manifests = found.copies
    if found.needs_one_of_its_own:
        manifests = [*manifests, found.manifest(location, settings)]
    try:
        await _move_pointer(store, conditions, destination, found, manifests)
    except (ObjectExists, PreconditionFailed) as error:
        raise _published_meanwhile(location) from error
    return manifests[-1].job_id if manifests else None


async def _move_pointer(
    store: Store, conditions: Conditions, destination: str, found: _Found, manifests: Sequence[Manifest]
) -> None:
    """Let the pointer name the last manifest, if one is needed, or no log that cannot be read."""
    if found.lost is not None and found.is_undecided:
        pointer = found.lost.naming(manifests[-1].job_id, has_log=not found.log_problem)
        await point_to(store, destination, conditions, found.lost.entry, pointer, manifests[-1])
        return
    seen = await chain.read_pointer(store, destination, READING)
    moved = PreconditionFailed("adopt", destination, "the pointer was moved")
    if (seen[0].nonce if seen else None) != (found.pointer.nonce if found.pointer else None):
        raise moved
    mended = None if seen is None else (found.mended(seen[0]), seen[1])
    if manifests:
        if not await chain.link(store, conditions, destination, manifests, mended):
            raise moved
    elif mended is not None:
        head = Register(store, chain.pointer_key(destination), conditions, lasting=True)
        await head.swap(mended[1], mended[0].to_bytes())


def _published_meanwhile(location: Location) -> CommitDenied:
    return CommitDenied(
        f"another job was published to {location.url} meanwhile; nothing was adopted; call adopt again when "
        "no job runs"
    )
