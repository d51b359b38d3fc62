"""What everything in this room needs: the way to a store, and what is known of a job."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, Concatenate, Final, ParamSpec, TypedDict, TypeVar

from fsspec.spec import AbstractFileSystem

from magicfs.engine import Engine
from magicfs.errors import MagicError, PermissionDenied, Unsupported, UsageError
from magicfs.formats.job_options import Hadoop, JobOptions
from magicfs.manifests.chain import READING, manifest_key, newest_job, read
from magicfs.protocol.ids import JobId
from magicfs.protocol.layout import WorkLayout
from magicfs.protocol.paths import Location, prefix_of
from magicfs.runtime import registered
from magicfs.runtime.interrupt import run_on
from magicfs.stores import object_settings, resolve
from magicfs.stores.register import is_there
from magicfs.transaction.context import JobContext

_CONCURRENCY = 32
_P = ParamSpec("_P")
_T = TypeVar("_T")


class Way(TypedDict, total=False):
    """The options that lead to a store, or the filesystem itself."""

    storage_options: Mapping[str, Any] | None
    filesystem: AbstractFileSystem | None


@dataclass(frozen=True, slots=True)
class Destination:
    """A destination, and the filesystem and engine that reach it."""

    location: Location
    filesystem: AbstractFileSystem
    engine: Engine = field(repr=False)

    def run(
        self,
        work: Callable[Concatenate[Engine, Location, _P], Coroutine[Any, Any, _T]],
        *args: _P.args,
        **kwargs: _P.kwargs,
    ) -> _T:
        """Run a coroutine on the loop of the store."""
        loop = resolve.loop_of(self.filesystem)
        result: _T = run_on(loop, work, self.engine, self.location, *args, **kwargs)
        return result


def open_destination(
    url: str | PathLike[str],
    storage_options: Mapping[str, Any] | None = None,
    filesystem: AbstractFileSystem | None = None,
    *,
    for_reading: bool = False,
) -> Destination:
    """The way from a URL to its store. ``for_reading`` shows no listing that the filesystem has cached."""
    if filesystem is not None and storage_options:
        raise UsageError("give either filesystem or storage_options, not both")
    url, options = resolve.split(url, storage_options)
    location = resolve.location_of(url, any_scheme=filesystem is not None)
    if filesystem is None:
        uncached = {"use_listings_cache": False} if for_reading else {}
        filesystem = resolve.filesystem(location.scheme, {**options, **uncached})
    elif for_reading:
        resolve.check(filesystem)
        filesystem.invalidate_cache()  # by path, s3fs keeps what it knows of directories below
    resolve.check_leads(location, filesystem)
    engine = Engine(resolve.open_store(filesystem, location.bucket), _CONCURRENCY)
    return Destination(location, filesystem, engine)


def on_destination(
    work: Callable[..., Coroutine[Any, Any, _T]],
    url: str | PathLike[str],
    storage_options: Mapping[str, Any] | None = None,
    filesystem: AbstractFileSystem | None = None,
    *,
    verb: str = "",
    **how: Any,
) -> _T:
    """Run a coroutine that may change a destination, with an engine and the location first. With a ``verb``
    it carries out a decision, which is recorded under that name.
    """
    destination = open_destination(url, storage_options, filesystem)
    result = destination.run(work, **how)
    destination.filesystem.invalidate_cache()
    if verb:
        record(destination, verb, how, result)
    return result


def record(destination: Destination, verb: str, how: Mapping[str, object], result: object) -> None:
    """Record a decision that was carried out."""
    for name in registered.names(OPERATIONS):
        try:
            registered.load(OPERATIONS, name)(destination, verb, how, result)
        except MagicError as error:  # the work is done
            url = destination.location.url
            logging.getLogger("magicfs").warning("%s: not noted who did it: %s", url, error)


async def is_nothing(engine: Engine, location: Location) -> bool:
    """Whether no object and no upload is below a URL; False of a bucket, and where that cannot be seen."""
    prefix = prefix_of(location.key)
    async for _ in engine.store.list(prefix, limit=1):
        return False
    try:
        async for _ in engine.store.list_uploads(prefix):
            return False
    except (PermissionDenied, Unsupported):
        return False
    return bool(prefix)


OPERATIONS: Final = "magicfs.operations"
"""Entry points of functions that note what was done, given the destination, the verb, its arguments and its
result."""


async def was_published(engine: Engine, location: Location, job: JobId) -> bool:
    """Whether a job has written its manifest: then it has ended, or needs only be cleaned up after."""
    return await is_there(engine.store, manifest_key(location.key, job))


async def told_as_newest(engine: Engine, location: Location) -> Engine:
    """The same engine, which writes as the job published last was told, unless it was told itself."""
    if object_settings.of_store(engine.store):
        return engine
    newest = await newest_job(engine.store, location.key, READING)
    manifest = (
        None if newest is None else await read(engine.store, location.key, newest, READING, files=False)
    )
    return engine if manifest is None else engine.told(manifest.object_settings)


def context_of(location: Location, layout: WorkLayout) -> JobContext:
    """The facts of a job of which no more is known; ``JobContext.of`` adds what its object says."""
    options = JobOptions(committer="magic", mode="append", hadoop=Hadoop(layout=layout.name))
    return JobContext(url=location.url, layout=layout, options=options)
