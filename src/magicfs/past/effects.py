"""What a rollback or a drop changes, found before anything is changed."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

from magicfs.engine import Engine
from magicfs.errors import UsageError
from magicfs.formats.log import LoggedJob
from magicfs.formats.manifest import ManifestFile
from magicfs.manifests import chain
from magicfs.manifests.chain import READING
from magicfs.manifests.comparison import compare
from magicfs.manifests.kept import places_aside
from magicfs.past.extension import Rollback, files_gone, restored_files, versions_of
from magicfs.past.history import Publication, as_publication, publications
from magicfs.protocol import paths
from magicfs.protocol.final_names import job_named
from magicfs.protocol.modes import is_data, lies_in
from magicfs.protocol.paths import Location
from magicfs.protocol.period import period_text
from magicfs.report import human_bytes
from magicfs.runtime.parallel import gathered
from magicfs.transaction.context import JobContext
from magicfs.transaction.output import JobOutput
from magicfs.transaction.planning import Choice, Look, look, naming
from magicfs.transaction.record import JobRecord


def partition_names(partitions: str | Sequence[str] | None) -> tuple[str, ...] | None:
    """The directories, without slashes at their ends, sorted and none twice; None for none given.

    Raises UsageError for what is no partition, and for an empty list, which nobody may have meant.
    """
    if partitions is None:
        return None
    named = [partitions] if isinstance(partitions, str) else partitions
    if not named:
        raise UsageError("partitions=[] is empty; nothing was changed; name at least one, or leave it out")
    return tuple(sorted({_partition(one) for one in named}))


def _partition(text: str) -> str:
    found = text.strip("/")
    if not found or any(one in {"", ".", ".."} for one in found.split("/")) or not is_data(f"{found}/x", ""):
        raise UsageError(
            f"{text!r} is not a partition; nothing was changed; give a directory relative to the "
            "destination, such as 'day=2026-01-01'"
        )
    return found


_LOGGER = logging.getLogger("magicfs")
_NAMED_MAX: Final = 100
_SAID_MAX: Final = 3
_RUNS_SAID_MAX: Final = 20
_AT_ONCE: Final = 8


@dataclass(frozen=True, slots=True)
class Files:
    """Some files of a dataset.

    Attributes:
        files: How many.
        bytes: Their size.
        keys: The first 100 of them, relative to the destination.
    """

    files: int = 0
    bytes: int = 0
    keys: tuple[str, ...] = ()

    @classmethod
    def of(cls, sizes: Mapping[str, int]) -> Files:
        """The files of these keys and sizes."""
        return cls(len(sizes), sum(sizes.values()), tuple(sorted(sizes)[:_NAMED_MAX]))

    def __str__(self) -> str:
        if not self.files:
            return ""
        count = "1 file" if self.files == 1 else f"{self.files:,} files"
        return f"{count} ({human_bytes(self.bytes)}), such as {', '.join(self.keys[:_SAID_MAX])}"

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {"files": self.files, "bytes": self.bytes, "keys": list(self.keys)}


NO_FILES: Final = Files()


@dataclass(frozen=True, slots=True)
class Effects:
    """The planned changes of a rollback or a drop.

    Attributes:
        publications: The newest 100 publications that a rollback takes back, or whose files a drop removes.
        gone: The files that are no longer part of the dataset.
        back: The files that become part of it again.
        lost: The files that are deleted for good.
        kept_ms: For how many milliseconds the others stay that are replaced; None if no file is kept.
    """

    publications: tuple[Publication, ...] = ()
    gone: Files = NO_FILES
    back: Files = NO_FILES
    lost: Files = NO_FILES
    kept_ms: int | None = None

    @property
    def said_publications(self) -> str:
        """The newest publications by name, for people."""
        return _named(self.publications)

    def lines(self) -> list[tuple[str, str]]:
        """The same for people: names and values, of which some may be empty."""
        return [
            ("takes back", self.said_publications),
            ("files gone", str(self.gone)),
            ("files back", str(self.back)),
            ("deleted", f"for good: {self.lost}" if self.lost.files else ""),
            ("kept", f"for {period_text(self.kept_ms)}" if self.kept_ms and self.gone.files else ""),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "publications": [one.to_dict() for one in self.publications],
            "gone": self.gone.to_dict(),
            "back": self.back.to_dict(),
            "lost": self.lost.to_dict(),
            "kept_ms": self.kept_ms,
        }


async def of_rollback(engine: Engine, location: Location, context: JobContext) -> Effects:
    """What a rollback changes.

    Raises ObjectNotFound if files of then are gone, or being deleted; UsageError if it cannot be known what
    readers saw then, or a partition is neither there now nor was then.
    """
    then = await restored_files(engine, context, READING)
    now = await _shown(engine, context)
    _refuse_unknown_partitions(context, then, now)
    await _refuse_gone(engine, context, then)
    gone = {key: one for key, one in now.items() if key not in then}
    back = {key: one.size for key, one in then.items() if key not in now}
    lost = await _lost(engine, context, JobOutput(restored=then, planner=Rollback), now)
    taken_back, kept_ms = await _taken_back(engine, location, context), context.options.keep.ms
    return Effects(taken_back, _files(gone), Files.of(back), lost, kept_ms)


async def of_drop(engine: Engine, location: Location, context: JobContext, choice: Choice) -> Effects:
    """What a drop changes, as a choice from the files that are shown."""
    now = await _shown(engine, context)
    gone = choice(now)
    lost = await _lost(engine, context, JobOutput(planner=naming(choice)), now) if gone else Files()
    brought, kept_ms = await _brought(engine, location, gone), context.options.keep.ms
    return Effects(brought, _files(gone), lost=lost, kept_ms=kept_ms)


def log_effects(effects: Effects, url: str, verb: str, *, advice: str = "") -> None:
    """Log what is about to be done; as a warning if there is advice."""
    said = [f"{name} {value}" for name, value in effects.lines() if value] or ["no file changes"]
    level = logging.WARNING if advice else logging.INFO
    _LOGGER.log(level, "%s %s: %s", verb, url, "; ".join([*said, *filter(None, [advice])]))


def _named(found: Sequence[Publication]) -> str:
    names = [f"{one.run_id} (job {one.job_id})" if one.run_id else f"job {one.job_id}" for one in found]
    more = f" and {len(names) - _RUNS_SAID_MAX} more" if len(names) > _RUNS_SAID_MAX else ""
    return ", ".join(names[:_RUNS_SAID_MAX]) + more


def _files(files: Mapping[str, ManifestFile]) -> Files:
    return Files.of({key: one.size for key, one in files.items()})


async def _shown(engine: Engine, context: JobContext) -> dict[str, ManifestFile]:
    """What readers of manifests see now, of a rollback of partitions in these."""
    destination = context.layout.destination
    seen = await chain.read_pointer(engine.store, destination, READING)
    record = JobRecord(engine.store, context.layout, READING)
    shown = await Look(engine, context, record, JobOutput(), seen).shown()
    where = context.options.rollback.partitions
    return {key: one for key, one in shown.items() if where is None or lies_in(key, where)}


def _refuse_unknown_partitions(
    context: JobContext, then: Mapping[str, ManifestFile], now: Mapping[str, ManifestFile]
) -> None:
    keys = [*then, *now]
    for one in context.options.rollback.partitions or ():
        if not any(key.startswith(f"{one}/") for key in keys):
            raise UsageError(
                f"{context.url} has no partition {one!r}, neither now nor when job "
                f"{context.options.rollback.job} was published; nothing was changed; write it "
                "as in the keys of files, such as 'day=2026-01-01'"
            )


async def _refuse_gone(engine: Engine, context: JobContext, then: Mapping[str, ManifestFile]) -> None:
    """Refuse files of then that neither are there nor are kept by a version, or aside."""
    found = await compare(engine, context.layout.destination, then)
    versions = engine.store.capabilities.versions
    gone = [key for key in (*found.missing, *found.altered) if not (versions and then[key].version)]
    places = await places_aside(engine.store, context.layout.destination, READING, then) if gone else {}
    gone = [key for key in gone if key not in places]
    if gone:
        raise files_gone(engine, context, gone)


async def _lost(
    engine: Engine, context: JobContext, output: JobOutput, shown: Mapping[str, ManifestFile]
) -> Files:
    """What is deleted, and kept neither by a promise nor by a version."""
    if context.options.keep.ms is not None:
        return Files()
    record = JobRecord(engine.store, context.layout, READING)
    found = (await look(engine, context, record, output)).replacement
    versions = versions_of(context, found, shown) if engine.store.capabilities.versions else {}
    destination = context.layout.destination
    lost = (one for one in found.deleted if one.key not in versions)
    return Files.of({paths.relative_to(one.key, destination): one.size for one in lost})


async def _taken_back(engine: Engine, location: Location, context: JobContext) -> tuple[Publication, ...]:
    """The publications in effect now that were not then; with partitions, those that changed them."""
    found = await _not_in_effect_at(engine, location, context.options.rollback.job)
    if (where := context.options.rollback.partitions) is not None:

        async def touches(job: str) -> bool:
            one = await chain.read(engine.store, location.key, job, READING)
            if one is None or one.hides == "all":
                return True
            return any(lies_in(key, where) for key in (*(file.key for file in one.files), *one.deleted))

        touched = await gathered([one.job_id for one in found], touches, _AT_ONCE)
        found = [one for one, is_touched in zip(found, touched, strict=True) if is_touched]
    return tuple(as_publication(one) for one in found[:_NAMED_MAX])


async def _not_in_effect_at(engine: Engine, location: Location, job: str | None) -> list[LoggedJob]:
    """The publications in effect now that were not in effect when a job was published."""
    found, now, then = list[LoggedJob](), _Line(), _Line(job)
    async with aclosing(publications(engine, location)) as jobs:
        async for one in jobs:
            is_now, was_then = now.has(one), then.has(one)
            if is_now and was_then:
                break
            found += [one] * is_now
    return found


async def _brought(engine: Engine, location: Location, keys: Iterable[str]) -> tuple[Publication, ...]:
    """The publications that files are named after."""
    wanted = {job_named(key.rpartition("/")[2]) for key in keys} - {None}
    found: list[Publication] = []
    async with aclosing(publications(engine, location)) as jobs:
        async for one in jobs:
            if not wanted or len(found) == _NAMED_MAX:
                break
            if one.job_id in wanted:
                wanted.remove(one.job_id)
                found.append(as_publication(one))
    return tuple(found)


class _Line:
    """The publications that were in effect at one of them: those that no rollback of everything took back."""

    def __init__(self, newest: str | None = None) -> None:
        self._next = newest  # None for whichever comes

    def has(self, one: LoggedJob) -> bool:
        """Whether the next older publication belongs to it."""
        if self._next not in {None, one.job_id}:
            return False
        self._next = one.restores if one.mode == "overwrite" else None
        return True
