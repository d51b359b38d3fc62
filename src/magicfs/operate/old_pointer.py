"""Publications that the pointer does not lead to, because somebody put an older copy of it back.

A job has its manifest before its pointer, and ends after it. So the manifest of a job that has ended, and
that is not in the chain, was published. Sums and what ``adopt`` writes have no job: on their own, they may be
left of a process that died.

Those right above the newest publication are linked again as they were, in one write. If others were published
there since, nobody knows the order any more: then ``adopt`` takes the files in, and their runs count as
published.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from heapq import nlargest
from itertools import takewhile
from typing import Final

from magicfs.engine import Engine
from magicfs.errors import FormatError
from magicfs.formats.manifest import Manifest, ManifestFile
from magicfs.formats.pointer import Pointer
from magicfs.manifests import chain, log
from magicfs.manifests.chain import ADOPT, COMPACT, READING
from magicfs.manifests.kept import kept_of
from magicfs.protocol import paths
from magicfs.protocol.paths import Location
from magicfs.runtime.parallel import gathered
from magicfs.stores.port import Store
from magicfs.transaction.others import find_unfinished_jobs

_OF_NO_JOB: Final = (ADOPT, COMPACT)
_SHOWN: Final = 3
_YOUNG_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class Unlinked:
    """Manifests of such publications, with their files.

    Attributes:
        line: Those right above the newest publication, the oldest first.
        others: The others, the newest first by the clocks of their drivers.
        pointer: The pointer; None if there is none.
    """

    line: Sequence[Manifest] = ()
    others: Sequence[Manifest] = ()
    pointer: Pointer | None = None

    @property
    def problem(self) -> str:
        """What is wrong with the pointer, in words; empty if nothing is."""
        if not self.line:
            return ""
        jobs = [one.job_id + (f" (run {one.run_id})" if one.run_id else "") for one in self.line]
        more = f" and {len(jobs) - _SHOWN} more" if len(jobs) > _SHOWN else ""
        named = ", ".join(jobs[:_SHOWN]) + more
        return f"the pointer is an older copy of itself: it does not lead to job {named}"


@dataclass(slots=True)
class SortedOut:
    """What becomes of files that readers do not see, by the manifests of publications that are not linked.

    Attributes:
        taken: These publications, the newest first, and their files that readers should see.
        again: Those whose runs were published again since, with the keys of their files, and the later jobs.
        kept: The keys of files that these publications have replaced, and that lie where they were.
        replaced: The keys of files that readers see, and that these publications have replaced.
        jobs: Those that ``adopt`` brings back.
    """

    taken: list[tuple[Manifest, Mapping[str, ManifestFile]]] = field(default_factory=list)
    again: list[tuple[Manifest, frozenset[str], str]] = field(default_factory=list)
    kept: set[str] = field(default_factory=set)
    replaced: set[str] = field(default_factory=set)
    jobs: list[str] = field(default_factory=list)


def is_of(files: Mapping[str, str], file: ManifestFile) -> bool:
    """Whether a file of a manifest is among files by their keys and ETags."""
    return file.key in files and (not file.etag or files[file.key].strip('"') == file.etag.strip('"'))


async def unlinked(engine: Engine, location: Location, *, young: bool = False) -> Unlinked:
    """The manifests of such publications.

    ``young``: look only at manifests that are younger than that of the newest publication, so one listing is
    enough where nothing is wrong. Else the whole chain is read, and every manifest that is not in it.

    Raises FormatError if a newer magicfs wrote one.
    """
    store, destination = engine.store, location.key
    written = await chain.jobs_with_manifests(store, destination)
    # Before the chain: a job that ends meanwhile is then in it.
    unfinished = {one.job_id for one in await find_unfinished_jobs(engine, destination, visitors=True)}
    seen = await chain.read_pointer(store, destination, READING)
    if seen is None or not (walked := await _chain(store, destination, seen[0].job_id, whole=not young)):
        return Unlinked()
    since = written.get(walked[-1].job_id, 0.0) * young
    linked = {one.job_id for one in walked} | unfinished
    unknown = {job: at for job, at in written.items() if at >= since and job not in linked}
    known = _of_jobs(await _read(engine, destination, unknown, whole=not young))
    line = _line(walked, known)
    # What lies below a manifest that cannot be read may be of the chain.
    is_whole = not young and walked[-1].previous is None
    return Unlinked(line, _others(line, known) if is_whole else (), seen[0])


async def _read(
    engine: Engine, destination: str, written: Mapping[str, float], *, whole: bool
) -> Mapping[str, Manifest]:
    """The manifests that can be read, by their jobs; else of the youngest, without files."""
    # Where a dataset was copied, all may be of one time.
    jobs = written if whole else nlargest(_YOUNG_MAX, written, key=written.__getitem__)
    read = partial(chain.readable, engine.store, destination, files=whole)
    found = await gathered(sorted(jobs), read, engine.concurrency)
    return {one.job_id: one for one in found if one is not None}


async def _chain(store: Store, destination: str, newest: str, *, whole: bool) -> list[Manifest]:
    """The manifests of the chain as far as they can be read; else down to the newest publication."""
    walked: list[Manifest] = []
    manifests = chain.chain(store, destination, READING, start=newest, hidden="readable", files=False)
    with suppress(FormatError):
        async with aclosing(manifests) as below:
            async for one in below:
                walked.append(replace(one, files=()))
                if one.mode != COMPACT and not whole:
                    break
    return walked


def _of_jobs(known: Mapping[str, Manifest]) -> Mapping[str, Manifest]:
    """Without those of no job that no other one is above."""
    while True:
        named = {one.previous for one in known.values()}
        left = {job: one for job, one in known.items() if one.mode not in _OF_NO_JOB or job in named}
        if len(left) == len(known):
            return known
        known = left


def _line(walked: Sequence[Manifest], known: Mapping[str, Manifest]) -> list[Manifest]:
    """Those above the newest publication, or above a sum of it; none if they branch."""
    sums = [*takewhile(lambda one: one.mode == COMPACT, walked)]
    at = {one.job_id for one in walked[: len(sums) + 1]}
    line: list[Manifest] = []
    while above := [one for one in known.values() if one.previous in at]:
        if len(above) > 1:
            return []
        line += above
        at = {above[0].job_id}
    return line


def _others(line: Sequence[Manifest], known: Mapping[str, Manifest]) -> list[Manifest]:
    left = known.keys() - {one.job_id for one in line}
    return sorted((known[job] for job in left), key=lambda one: (-one.committed_ms, one.job_id))


async def sort_out(
    engine: Engine,
    location: Location,
    found: Unlinked,
    lying: Mapping[str, str],
    foreign: Collection[str],
    shown: Mapping[str, ManifestFile],
) -> SortedOut:
    """Decide about the files of the others.

    Args:
        engine: Of the destination.
        location: The destination.
        found: What the pointer does not lead to.
        lying: The ETags of all files that lie there, by their relative keys.
        foreign: The keys of those that readers do not see as they lie there.
        shown: What readers see.
    """
    done = SortedOut(jobs=[one.job_id for one in found.line])
    etags, named, runs = {key: lying[key] for key in foreign}, set[str](), dict[str, str]()
    for one in found.others:
        own = _own(one, etags, named | done.kept)
        again = await _published_again(engine, location, found.pointer, one, runs) if own else None
        if again is not None:
            done.again.append((one, frozenset(own), again))
        elif own:
            done.taken.append((one, own))
            done.jobs.append(one.job_id)
        kept = await _kept_in_place(engine, location, one, lying) - named
        done.kept |= kept | ({*one.deleted} & lying.keys() - named)
        done.replaced |= await _replaced_by(engine, location, one, _gone(shown, lying, kept)) - named
        named.update(file.key for file in one.files)
    return done


def _own(manifest: Manifest, etags: Mapping[str, str], left: Collection[str]) -> dict[str, ManifestFile]:
    return {file.key: file for file in manifest.files if file.key not in left and is_of(etags, file)}


def _gone(shown: Mapping[str, ManifestFile], lying: Mapping[str, str], kept: Collection[str]) -> set[str]:
    """The keys of files that readers see, and that do not lie there, or lie there as kept."""
    return {key for key in shown if key not in lying or (key in kept and is_of(lying, shown[key]))}


async def _published_again(
    engine: Engine, location: Location, pointer: Pointer | None, manifest: Manifest, runs: dict[str, str]
) -> str | None:
    """The job that has published the run of a manifest again; None if none has, and then it is noted."""
    if (run := manifest.run_id) is None or pointer is None:
        return None
    again = runs.get(run)
    with suppress(FormatError):  # a log that is broken knows no runs
        again = again or await log.job_of_run_by(engine.store, location.key, READING, pointer, run)
    if again not in (None, manifest.job_id):
        return again
    runs[run] = manifest.job_id
    return None


async def _kept_in_place(
    engine: Engine, location: Location, manifest: Manifest, lying: Mapping[str, str]
) -> set[str]:
    """The keys of files that a publication has replaced and that lie where they were."""
    with suppress(FormatError):  # a list that is lost says nothing
        kept = {
            paths.relative_to(old.key, location.key): old.etag.strip('"')
            for old in await kept_of(engine.store, location.key, manifest)
            if not old.aside
        }
        return {key for key in kept.keys() & lying.keys() if lying[key].strip('"') == kept[key]}
    return set()


async def _replaced_by(engine: Engine, location: Location, manifest: Manifest, gone: set[str]) -> set[str]:
    """Those of some keys of which a publication has replaced the files."""
    if manifest.hides != "all" or manifest.replaced is None or not gone:
        return gone.intersection(manifest.deleted)
    older = chain.chain(engine.store, location.key, READING, start=manifest.replaced, hidden="none")
    with suppress(FormatError):
        view = await chain.view_of(older)
        return set() if view is None else gone & view.files.keys()
    return set()
