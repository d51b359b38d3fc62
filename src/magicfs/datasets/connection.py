"""What every way of looking after a destination needs: its store, an engine, and what is known of a job."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from fsspec.asyn import sync
from fsspec.spec import AbstractFileSystem

from magicfs.engine import Engine
from magicfs.errors import ObjectNotFound, UsageError
from magicfs.job.spec import location_of
from magicfs.manifests.chain import manifest_key
from magicfs.protocol.ids import JobId
from magicfs.protocol.layout import WorkLayout
from magicfs.protocol.paths import Location
from magicfs.stores import resolve
from magicfs.transaction.context import JobContext

__all__ = ["context_of", "on_destination", "was_published"]

_CONCURRENCY = 32


def on_destination(
    work: Callable[..., Coroutine[Any, Any, Any]],
    url: str,
    storage_options: Mapping[str, Any] | None,
    filesystem: AbstractFileSystem | None,
    **how: Any,
) -> Any:
    """Run a coroutine on the store of a destination, with an engine and the location first.

    Raises:
        UsageError: The URL, or how the store is given, cannot be right.
    """
    if filesystem is not None and storage_options:
        raise UsageError("give either filesystem or storage_options, not both")
    location = location_of(url, any_scheme=filesystem is not None)
    wrapped = filesystem or resolve.filesystem(location.scheme, dict(storage_options or {}))
    engine = Engine(resolve.open_store(wrapped, location.bucket), _CONCURRENCY)
    result = sync(resolve.loop_of(wrapped), work, engine, location, **how)
    wrapped.invalidate_cache()
    return result


async def was_published(engine: Engine, location: Location, job: JobId) -> bool:
    """Whether a job has written its manifest: then it has ended, or needs only be cleaned up after."""
    try:
        await engine.store.head(manifest_key(location.key, job))
    except ObjectNotFound:
        return False
    return True


def context_of(location: Location, layout: WorkLayout) -> JobContext:
    """The facts of a job of which no more is known; ``JobContext.of`` adds what its object says."""
    return JobContext(
        url=location.url,
        layout=layout,
        conflict="append",
        unique_names=True,
        tracking="store",
        etag_format="string",
    )
