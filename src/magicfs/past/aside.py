"""Replaced files that a job moves aside, so that only readers of manifests find them.

After the commit point each is copied to a place below ``_magicfs/kept``, then the manifest and the pointer
name what is kept, and then the old files are deleted as those of any job. So at every moment each is at its
old place, or aside where the pointer says. A second call, from any process, does the same again: what it does
not find any more was moved before. ``docs/design/029-kept-aside.md`` has the reasons.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from magicfs.engine import Engine
from magicfs.errors import ObjectNotFound, PermissionDenied, PreconditionFailed, Unsupported
from magicfs.formats.deletions import OldObject
from magicfs.formats.statistics import MOVED_ASIDE, Statistics
from magicfs.manifests.kept import place_aside
from magicfs.protocol import paths
from magicfs.protocol.layout import WorkLayout
from magicfs.protocol.modes import is_data
from magicfs.protocol.parts import COPY_MAX, COPY_PART
from magicfs.report import human_bytes
from magicfs.runtime.parallel import gathered
from magicfs.stores.port import Store
from magicfs.stores.retrying import checked_again

if TYPE_CHECKING:
    from magicfs.transaction.extension import Settling

_LOGGER = logging.getLogger("magicfs")
_KEY_BYTES_MAX: Final = 1024
"""Of the longest key that S3, Google Cloud Storage and Azure take."""
_LOOKED_AT: Final = 1000
_PROBE: Final = "copied"


def marked(destination: str, job: str, old: Sequence[OldObject]) -> list[OldObject]:
    """What a job keeps, each marked that is moved aside; depends on nothing else.

    Where the bucket keeps versions, what has none stays, and so does a file whose place would have too long a
    name.
    """
    if any(one.version for one in old):
        return list(old)
    stays = staying(destination, job)
    return [one._replace(aside=not stays(one.key)) for one in old]


def staying(destination: str, job: str) -> Callable[[str], bool]:
    """Whether a file stays where it is, by its key, because its place would have too long a name."""
    room = _KEY_BYTES_MAX - len(place_aside(destination, job, "").encode())
    start = len(paths.prefix_of(destination))
    return lambda key: len(key[start:].encode("utf-8", "surrogateescape")) > room


async def copy_all(engine: Engine, destination: str, job: str, kept: Sequence[OldObject]) -> None:
    """Copy the marked files aside, many at once. None of their bytes passes through this process.

    One that is not there was moved by an earlier call, or is gone; another program's file stays as it is.
    """

    async def copy(one: OldObject) -> None:
        place = place_aside(destination, job, paths.relative_to(one.key, destination))
        with suppress(ObjectNotFound, PreconditionFailed):
            await engine.store.copy(one.key, place, etag=one.etag)

    await gathered([one for one in kept if one.aside], copy, engine.concurrency)


async def refusal(engine: Engine, layout: WorkLayout) -> str:
    """Why files cannot be copied within the store; empty if they can. Copies a small one into the work of the
    job, which goes with all of that.
    """
    store, destination = engine.store, layout.destination
    listed = [info async for info in store.list(paths.prefix_of(destination), limit=_LOOKED_AT)]
    for info in sorted(listed, key=lambda one: one.size):
        if is_data(info.key, destination):
            try:
                await store.copy(info.key, paths.join(layout.job_directory, _PROBE), etag=info.etag)
            except (PermissionDenied, Unsupported) as error:
                return str(error)
            except (ObjectNotFound, PreconditionFailed):
                continue
            break
    return ""


async def delete(engine: Engine, kept: Sequence[OldObject], check: Callable[[], Awaitable[None]]) -> None:
    """Delete files that lie aside. A second call does nothing. ``check``: see ``kept_versions.delete``."""
    size, keys = engine.store.capabilities.bulk_delete_max, [one.key for one in kept if one.aside]

    async def delete(batch: Sequence[str]) -> None:
        await check()
        with checked_again(check):
            await engine.store.delete(batch)

    batches = [keys[start : start + size] for start in range(0, len(keys), size)]
    await gathered(batches, delete, engine.concurrency)


class Cost(NamedTuple):
    """What it costs to move files aside."""

    files: int
    bytes: int  # that the store copies
    requests: int  # at most

    @property
    def said(self) -> str:
        """For people."""
        what = f"the store copies {human_bytes(self.bytes)} in at most {self.requests:,} requests"
        return what if self.requests else "each gets a second name, and nothing is copied"


def cost_of(store: Store, sizes: Iterable[int]) -> Cost:
    """The cost of moving files of these sizes aside. Their deletion costs what that of any job costs."""
    found = list(sizes)
    if store.capabilities.prefers_rename:
        return Cost(len(found), 0, 0)
    # A HEAD and a copy, of which Google needs one only; S3 copies large files in parts of an upload.
    parts = sum(1 - size // -COPY_PART for size in found if size > COPY_MAX)
    return Cost(len(found), sum(found), 2 * len(found) + parts)


def count_cost(job: Settling, kept: Sequence[OldObject]) -> None:
    """Log what moving files aside is about to cost, and count it for the report of the job."""
    cost = cost_of(job.engine.store, [one.size for one in kept if one.aside])
    if cost.files:
        name = job.job.job_id
        _LOGGER.info(
            "%s: job %s moves %d replaced files aside: %s", job.context.url, name, cost.files, cost.said
        )
        counted = dict(zip(MOVED_ASIDE, cost, strict=True))
        job.output.statistics += Statistics(counters=counted)
