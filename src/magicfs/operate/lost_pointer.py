"""The pointer, made again from the manifests, if somebody removed or overwrote it."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

from magicfs.errors import FormatError, MagicError, ObjectExists, ObjectNotFound, PreconditionFailed
from magicfs.formats.limits import SUCCESS_SIZE_LIMIT
from magicfs.formats.manifest import Manifest
from magicfs.formats.pointer import RUNS_KEPT, Keeping, Pointer
from magicfs.formats.success import SUCCESS_FILE, SuccessData
from magicfs.manifests import chain
from magicfs.manifests.kept import kept_of
from magicfs.protocol import paths
from magicfs.protocol.final_names import job_named
from magicfs.protocol.modes import MANIFESTS, is_data
from magicfs.stores import object_settings
from magicfs.stores.conditions import Conditions, conditions_of
from magicfs.stores.port import Store
from magicfs.stores.register import Entry, Register

_KEPT_LIST: Final = re.compile(r"([^/]+)/kept-[0-9]{5,}-[0-9a-f]{16}\.json")


@dataclass(frozen=True, slots=True)
class LostPointer:
    """A pointer that is gone or malformed.

    Attributes:
        problem: What is wrong.
        entry: The malformed pointer; None if it is gone.
        newest: The job that it named; None if the manifests do not tell which.
        known: The manifests that can be read, the newest first: of one chain, or by the clocks of their
            drivers.
    """

    problem: str
    entry: Entry | None
    newest: str | None
    known: Sequence[Manifest]

    @property
    def settings(self) -> Mapping[str, str]:
        """How the newest job wrote its objects."""
        return self.known[0].object_settings if self.known else {}

    def naming(self, job: str, *, has_log: bool = True) -> Pointer:
        """A pointer to a job, that knows the runs and the kept files of the manifests.

        ``has_log``: whether it leaves older runs to a log that can be read.
        """
        runs: list[tuple[str, str]] = []
        keeping: list[Keeping] = []
        follows = set[str]()
        summed, log = False, None
        for one in self.known:
            follows.update(one.follows)
            if not summed and one.run_id is not None:
                runs.append((one.run_id, one.job_id))
            if one.mode == chain.COMPACT and has_log and not summed:
                summed, log = True, one.log
            # Which of them have expired is not known any more; expire finds nothing of those.
            if one.kept is not None:
                lists = tuple(each.sha256 for each in one.kept.lists)
                keeping.append(Keeping(job_id=one.job_id, until_ms=one.kept.until_ms, lists=lists))
        last = dict(runs[:RUNS_KEPT])
        return Pointer(
            job_id=job,
            nonce=uuid4().hex,
            changed_ms=int(time.time() * 1000),
            runs=tuple(reversed(last.items())),
            keeping=tuple(reversed(keeping)),
            log=log,
            follows=tuple(sorted(follows)),
        ).knowing(run for run, _ in runs)


async def lost_pointer(store: Store, destination: str, unfinished: Collection[str]) -> LostPointer | None:
    """What is left of a pointer that is gone or malformed; None if it is sound, or nothing was published.

    ``unfinished`` are jobs that have not ended: they join the chain by themselves.

    Raises FormatError if a newer magicfs wrote the pointer or a manifest.
    """
    key = chain.pointer_key(destination)
    entry = await Register(store, key, chain.READING, lasting=True).read()
    problem = f"{store.bucket}/{key} is gone"
    if entry is not None:
        try:
            chain.pointer_of(store, destination, entry)
        except FormatError as error:
            problem = problem_of(error)
        else:
            return None
    manifests, damaged = await _read_all(store, destination)
    heads = newest_of(manifests, unfinished)
    if entry is None and not heads and damaged <= {*unfinished}:
        return None
    above = await _lost_above(store, destination, manifests, damaged, unfinished)
    if len(heads) != 1:
        problem += f"; the manifests do not show which is the newest (found: {', '.join(heads) or 'none'})"
    elif above:
        problem += f"; the manifest of job {above[0]}, the newest one, is also missing"
    newest = heads[0] if len(heads) == 1 and not above else None
    return LostPointer(problem, entry, newest, await _known(store, destination, newest, manifests))


async def restore(store: Store, destination: str, lost: LostPointer) -> Pointer:
    """Write the pointer as it was. Raises ObjectExists or PreconditionFailed if another one is there now."""
    assert lost.newest is not None
    pointer = lost.naming(lost.newest)
    store = object_settings.store_as_recorded(store, lost.settings)
    conditions = await conditions_of(store, paths.join(destination, MANIFESTS))
    await _put(store, destination, conditions, lost.entry, pointer)
    return pointer


async def point_to(
    store: Store,
    destination: str,
    conditions: Conditions,
    malformed: Entry | None,
    pointer: Pointer,
    manifest: Manifest,
) -> None:
    """Write a manifest, and a pointer to it in the place of the one that is lost.

    Raises PreconditionFailed if another pointer is there now; the manifest is removed again. Unavailable if
    the store did not say whether it was written.
    """
    own = Register(store, chain.manifest_key(destination, manifest.job_id), conditions, lasting=True)
    entry = await own.create(manifest.to_bytes())
    try:
        await _put(store, destination, conditions, malformed, pointer)
    except (ObjectExists, PreconditionFailed) as error:
        with suppress(MagicError):  # nobody else names it
            await own.remove(entry)
        raise PreconditionFailed(
            "adopt", chain.pointer_key(destination), "it was written meanwhile"
        ) from error


async def _put(
    store: Store, destination: str, conditions: Conditions, entry: Entry | None, pointer: Pointer
) -> None:
    head = Register(store, chain.pointer_key(destination), conditions, lasting=True)
    await (head.create(pointer.to_bytes()) if entry is None else head.swap(entry, pointer.to_bytes()))


def problem_of(error: FormatError) -> str:
    """What is wrong with a file. Raises what a newer magicfs wrote, or a seal refuses: not lost."""
    if "newer magicfs" in error.problem or type(error) is not FormatError:
        raise error
    return str(error)


async def _read_all(store: Store, destination: str) -> tuple[dict[str, Manifest], set[str]]:
    """Every manifest that can be read, by job; and the jobs of all others."""
    found: dict[str, Manifest] = {}
    damaged: set[str] = set()
    for job in sorted(await chain.jobs_with_manifests(store, destination)):
        try:
            manifest = await chain.read(store, destination, job, chain.READING)
        except FormatError as error:
            problem_of(error)
            damaged.add(job)
        else:
            found |= {} if manifest is None else {job: manifest}
    return found, damaged


async def _known(
    store: Store, destination: str, newest: str | None, manifests: Mapping[str, Manifest]
) -> list[Manifest]:
    """The chain from a job on down, or all manifests by their times if it is broken."""
    found: list[Manifest] = []
    if newest is not None:
        below = chain.chain(
            store, destination, chain.READING, start=newest, known=manifests, hidden="readable", files=False
        )
        with suppress(FormatError):
            async for one in below:
                found.append(one)  # noqa: PERF401 - what was found before an error counts
            return found
    met = {one.job_id for one in found}
    others = [one for job, one in manifests.items() if job not in met]
    return [*found, *sorted(others, key=lambda one: (one.committed_ms, one.job_id), reverse=True)]


async def _known_keys(store: Store, destination: str, manifests: Iterable[Manifest]) -> set[str]:
    """The keys of all files that manifests name, or that their jobs have replaced."""
    known: set[str] = set()
    for one in manifests:
        known.update(file.key for file in one.files)
        known.update(one.deleted)
        with suppress(FormatError):  # a list that is lost says nothing
            known.update(
                paths.relative_to(old.key, destination) for old in await kept_of(store, destination, one)
            )
    return known


async def _lost_above(
    store: Store,
    destination: str,
    manifests: Mapping[str, Manifest],
    damaged: Iterable[str],
    unfinished: Collection[str],
) -> list[str]:
    """Jobs that have left something, no manifest that can be read, and of which no manifest tells that they
    came before it.
    """
    known = await _known_keys(store, destination, manifests.values())
    # A sum shows what the jobs below it do.
    jobs = {job for job in damaged if not job.startswith(f"{chain.COMPACT}-")}
    jobs.add(await _announced_by_success(store, destination) or "")
    directory = paths.prefix_of(paths.join(destination, MANIFESTS))
    async for info in store.list(paths.prefix_of(destination)):
        if (kept := _KEPT_LIST.fullmatch(info.key.removeprefix(directory))) is not None:
            jobs.add(kept[1])
        elif is_data(info.key, destination) and paths.relative_to(info.key, destination) not in known:
            jobs.add(job_named(info.key.rpartition("/")[2]) or "")
    below = {name for one in manifests.values() for name in (one.previous, one.replaced)}
    return sorted(jobs - manifests.keys() - below - {"", *unfinished})


async def _announced_by_success(store: Store, destination: str) -> str | None:
    """The job of which ``_SUCCESS`` says that its manifest is at a destination; None if it says of none."""
    key = paths.join(destination, SUCCESS_FILE)
    try:
        raw = await store.get(key, size_max=SUCCESS_SIZE_LIMIT + 1)
        found = SuccessData.from_bytes(f"{store.bucket}/{key}", raw)
    except (ObjectNotFound, FormatError):
        return None
    told = found.diagnostics.get("magicfs.manifest")
    return found.job_id if told == chain.manifest_key(destination, found.job_id) else None


def newest_of(manifests: Mapping[str, Manifest], unfinished: Collection[str]) -> list[str]:
    """The jobs above which no other one was published. Sums count for the job below them, for they show the
    same.
    """

    def below(manifest: Manifest) -> str | None:
        job, met = manifest.previous, set[str]()
        while job is not None and job not in met and job in manifests:
            if manifests[job].mode != chain.COMPACT:
                break
            met.add(job)
            job = manifests[job].previous
        return job

    jobs = {job: one for job, one in manifests.items() if one.mode != chain.COMPACT}
    while True:
        named = {below(one) for one in jobs.values()}
        heads = sorted(job for job in jobs if job not in named)
        if not (waiting := set(heads).intersection(unfinished)):
            return heads
        jobs = {job: one for job, one in jobs.items() if job not in waiting}
