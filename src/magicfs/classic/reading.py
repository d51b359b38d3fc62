"""Reading what the stocator committer has published: the files of winners, whatever else a listing shows."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from os import PathLike
from typing import Any

from fsspec.spec import AbstractFileSystem

from magicfs.classic.records import WINNERS_FIELD, Winners, attempts_named, is_unfinished
from magicfs.datasets.connection import on_destination
from magicfs.engine import Engine
from magicfs.errors import FormatError, ObjectNotFound, UsageError
from magicfs.formats.limits import SUCCESS_SIZE_LIMIT
from magicfs.formats.success import SUCCESS_FILE, SuccessData
from magicfs.protocol import paths
from magicfs.protocol.final_names import UUID
from magicfs.protocol.ids import JobId
from magicfs.protocol.modes import is_data
from magicfs.protocol.paths import Location


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
        filesystem: That filesystem itself, instead of options.

    Raises:
        ObjectNotFound: There is no ``_SUCCESS``: no job was published.
        UsageError: Another committer wrote it; list the destination instead. Or the URL is malformed.
        FormatError: It is malformed or inconsistent, or files that it names are gone.
        StoreError: The store refused, or did not answer.
    """
    return on_destination(_winners, url, storage_options, filesystem)


async def _winners(engine: Engine, location: Location) -> tuple[str, ...]:
    winners = await _listed(engine, location)
    owned = _Owned(winners)
    async for info in engine.store.list(paths.prefix_of(location.key)):
        owned.add(info.key, is_data=is_data(info.key, location.key))
    keys = list[str]()
    for job, attempts in winners.jobs.items():
        for attempt, listed in attempts.items():
            if (there := owned.counts[job, attempt]) != listed:
                raise FormatError(
                    f"{engine.store.bucket}/{paths.join(location.key, SUCCESS_FILE)}",
                    WINNERS_FIELD,
                    f"{listed} files of attempt {attempt} of job {job} are listed, but {there} exist: "
                    "some were added or removed",
                )
            keys += sorted(owned.keys[job, attempt])
    return tuple(Location(location.scheme, location.bucket, key).url for key in keys)


class _Owned:
    """The files of winning attempts, by job and attempt, as their names say."""

    def __init__(self, winners: Winners) -> None:
        self.keys: dict[tuple[str, str], list[str]] = defaultdict(list)  # of files that readers see
        self.counts: Counter[tuple[str, str]] = Counter()  # of all files
        self._attempts = winners.jobs
        self._jobs: dict[str, list[str]] = defaultdict(list)  # by the UUIDs in their ids
        for job in winners.jobs:
            for uuid in UUID.findall(job):
                self._jobs[uuid].append(job)

    def add(self, key: str, *, is_data: bool) -> None:
        name = key.rpartition("/")[2]
        if is_unfinished(name):
            return
        for job in {job for uuid in UUID.findall(name) for job in self._jobs.get(uuid, ())}:
            named = attempts_named(name, JobId(job))
            attempt = next((one for one in named if one in self._attempts[job]), None)
            if attempt is not None:
                self.counts[job, attempt] += 1
                if is_data:
                    self.keys[job, attempt].append(key)


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
            "destination, or read it with magicfs.Dataset if it has manifests"
        )
    return winners
