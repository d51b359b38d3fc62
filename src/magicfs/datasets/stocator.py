"""Reading what the stocator committer has published: the files of winners, whatever else a listing shows."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from os import PathLike
from typing import Any

from fsspec.spec import AbstractFileSystem

from magicfs.datasets.connection import on_destination
from magicfs.engine import Engine
from magicfs.errors import FormatError, ObjectNotFound, UsageError
from magicfs.formats.success import SUCCESS_FILE, SUCCESS_SIZE_LIMIT, WINNERS_FIELD, SuccessData, Winners
from magicfs.protocol import paths
from magicfs.protocol.conflict import is_data
from magicfs.protocol.final_names import attempts_named, is_unfinished, uuids_in
from magicfs.protocol.ids import JobId
from magicfs.protocol.paths import Location

__all__ = ["stocator_files"]


def stocator_files(
    url: str | PathLike[str],
    *,
    storage_options: Mapping[str, Any] | None = None,
    filesystem: AbstractFileSystem | None = None,
) -> tuple[str, ...]:
    """URLs of the visible files of all winning attempts, as ``_SUCCESS`` lists them.

    In the order of jobs, as they were published, then tasks, then keys. Files of losers and zombies, of jobs
    that did not commit, and of other writers are left out. One GET, and one LIST a page. Nothing is changed.

    Args:
        url: The destination, such as ``s3://bucket/sales``.
        storage_options: Options of the store's fsspec filesystem.
        filesystem: That filesystem itself, in place of options.

    Raises:
        ObjectNotFound: There is no ``_SUCCESS``: no job was published.
        UsageError: Another committer wrote it; list the destination instead. Or the URL is malformed.
        FormatError: It is malformed or inconsistent, or files that it names are gone.
        StoreError: The store refused, or did not answer.
    """
    return on_destination(_winners, url, storage_options, filesystem)


async def _winners(engine: Engine, location: Location) -> tuple[str, ...]:
    winners = await _listed(engine, location)
    jobs_by_uuid: dict[str, list[str]] = defaultdict(list)
    for job in winners.jobs:
        for uuid in uuids_in(job):
            jobs_by_uuid[uuid].append(job)
    keys: dict[tuple[str, str], list[str]] = defaultdict(list)
    counts: Counter[tuple[str, str]] = Counter()
    async for info in engine.store.list(paths.prefix_of(location.key)):
        name = info.key.rpartition("/")[2]
        if is_unfinished(name):
            continue
        jobs = {job for uuid in uuids_in(name) for job in jobs_by_uuid.get(uuid, ())}
        for job in jobs:
            owner = next((one for one in attempts_named(name, JobId(job)) if one in winners.jobs[job]), None)
            if owner is not None:
                counts[job, owner] += 1
                if is_data(info.key, location.key):
                    keys[job, owner].append(info.key)
    ordered = [(job, attempt) for job, attempts in winners.jobs.items() for attempt in attempts]
    for job, attempt in ordered:
        if (there := counts[job, attempt]) != (listed := winners.jobs[job][attempt]):
            raise FormatError(
                f"{engine.store.bucket}/{paths.join(location.key, SUCCESS_FILE)}",
                WINNERS_FIELD,
                f"{listed} files of attempt {attempt} of job {job} are listed, and {there} are "
                "there: some were removed or added",
            )
    return tuple(
        Location(location.scheme, location.bucket, key).url for one in ordered for key in sorted(keys[one])
    )


async def _listed(engine: Engine, location: Location) -> Winners:
    key = paths.join(location.key, SUCCESS_FILE)
    path = f"{engine.store.bucket}/{key}"
    try:
        raw = await engine.store.get(key, size_max=SUCCESS_SIZE_LIMIT + 1)
    except ObjectNotFound as error:
        raise ObjectNotFound(
            "stocator_files", path, f"no job was published to {location.url}", hint="check the URL"
        ) from error
    success = SuccessData.from_bytes(path, raw)
    winners = Winners.of(path, success)
    if winners is None:
        raise UsageError(
            f"{path} lists no winners: committer {success.committer or 'unknown'!r} wrote it; list the "
            "destination, or read it with magicfs.dataset if it has manifests"
        )
    return winners
