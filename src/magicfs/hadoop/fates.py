"""What has become of uploads that a job's files name: open, published by its driver, or gone.

Hadoop's uploads have no write id. An upload was completed if it is no longer open, and the object at its key
has the ETag that S3 makes from those of the parts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from magicfs.engine import Engine
from magicfs.errors import CommitDenied, CommitFailed, PermissionDenied, Unsupported
from magicfs.filesystem.tracking import shown_of, write_id_of
from magicfs.formats.pending import Pending
from magicfs.protocol import paths
from magicfs.protocol.readback import etag_of_parts
from magicfs.runtime.parallel import drained
from magicfs.stores.register import found_at

_Fate = Literal["open", "published", "doubtful", "gone", "unknown"]
_NAMED = 5


@dataclass(frozen=True, slots=True)
class OpenUploads:
    """Which uploads are open under a destination."""

    ids: frozenset[str] = frozenset()
    is_whole: bool = False  # whether one that is missing is known not to be open


async def open_uploads(engine: Engine, destination: str) -> OpenUploads:
    """List the uploads that are open under a destination, as far as that is allowed."""
    try:
        ids = {one.upload_id async for one in engine.store.list_uploads(paths.prefix_of(destination))}
    except (PermissionDenied, Unsupported):
        return OpenUploads()
    # One page may be all that a server lists, whatever it holds.
    return OpenUploads(frozenset(ids), len(ids) != engine.store.capabilities.list_page_max)


@dataclass(slots=True)
class Fates:
    """Final keys of files by what became of their uploads."""

    open: list[str] = field(default_factory=list)
    published: list[str] = field(default_factory=list)
    doubtful: list[str] = field(default_factory=list)
    """An object of the right length is there, whose ETag does not show whose it is."""
    gone: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    """No object is there, and whether the upload is open could not be seen."""

    @property
    def total(self) -> int:
        """How many files."""
        return len(self.open) + len(self.published) + len(self.doubtful) + len(self.gone) + len(self.unknown)


async def fates_of(engine: Engine, pendings: Iterable[Pending], there: OpenUploads) -> Fates:
    """What became of uploads: one HEAD for each that is not known to be open. Nothing is changed."""
    fates = Fates()

    async def look(pending: Pending) -> bool:
        fate = "open" if pending.upload_id in there.ids else await _fate_of(engine, pending, there)
        getattr(fates, fate).append(pending.destination_key)
        return True

    await drained((one for one in pendings if one.body is None), look, engine.concurrency)
    for keys in (fates.open, fates.published, fates.doubtful, fates.gone, fates.unknown):
        keys.sort()
    return fates


async def _fate_of(engine: Engine, pending: Pending, there: OpenUploads) -> _Fate:
    lost: _Fate = "gone" if there.is_whole else "unknown"
    if (found := await found_at(engine.store, pending.destination_key)) is None:
        return lost
    if (own := write_id_of(pending)) is not None:
        return "published" if shown_of(found, pending) == own else lost
    if found.etag.strip('"') == etag_of_parts(part.etag for part in pending.parts):
        return "published"
    return "doubtful" if found.size == pending.length else lost


def refuse_published(url: str, job: str, fates: Fates) -> None:
    """Raise CommitDenied if a job is published in part: what its driver has shown is never swept."""
    if not fates.published and not fates.doubtful:
        return
    keys, were = fates.published or fates.doubtful, "were" if fates.published else "may or may not have been"
    first = f"{len(keys)} of {fates.total} files of job {job} {were} published by its driver: {_named(keys)}"
    finish = f"finish it with magicfs recover {url} --job {job} --commit --driver-is-dead"
    if fates.gone:
        finish = f"it cannot be finished either, because {len(fates.gone)} of its uploads are gone"
    raise CommitDenied(
        f"{first}; discarding the rest would leave the job half published; nothing was changed; {finish}; "
        "or delete these files yourself if you do not want them, and abort the job again"
    )


def refuse_gone(url: str, job: str, fates: Fates) -> None:
    """Raise CommitFailed if not all files of a job can be published any more: all or nothing."""
    if not fates.gone:
        return
    end = f"run magicfs recover {url} --job {job} --abort --driver-is-dead, then the job again"
    if fates.published:
        end = f"{len(fates.published)} files are published already: delete them, {end}"
    raise CommitFailed(
        f"{len(fates.gone)} of {fates.total} files of job {job} can no longer be published, of "
        f"{_named(fates.gone)}: neither the files nor their uploads exist. A lifecycle rule aborts uploads, "
        "and so does another S3A job that ends there with fs.s3a.committer.abort.pending.uploads=true, "
        f"Hadoop's default; nothing was changed; {end}",
        done=fates.published,
        failed=fates.gone,
    )


def _named(keys: list[str]) -> str:
    more = f" and {len(keys) - _NAMED} more" if len(keys) > _NAMED else ""
    return ", ".join(keys[:_NAMED]) + more
