"""Finding checkpoints: by the manifests of the jobs that published them, never by a listing."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fsspec.spec import AbstractFileSystem

from magicfs.datasets.connection import Destination, open_destination
from magicfs.engine import Engine
from magicfs.errors import FormatError, ObjectNotFound, UsageError
from magicfs.formats.manifest import Manifest, ManifestFile
from magicfs.manifests import chain
from magicfs.manifests.chain import COMPACT, READING
from magicfs.protocol import ids, paths
from magicfs.protocol.final_names import copied_by, copied_key
from magicfs.protocol.modes import is_reserved
from magicfs.protocol.paths import Location
from magicfs.reading.named_reads import NamedReads
from magicfs.reading.published_file import open_published

METADATA: Final = ".metadata"
"""What torch calls the file that says what is in the others: the last one of a checkpoint."""
_METADATA: Final = re.compile(r"\.metadata((-[0-9a-f]{16})?-([0-9]{6,}|copied)-[0-9a-f-]{36})?")


@dataclass(frozen=True, slots=True)
class Found:
    """A checkpoint that was published."""

    name: str
    metadata: str  # what its ``.metadata`` was called when it was published, in the checkpoint's directory
    files: Mapping[str, ManifestFile]  # as they lie there now, by the keys under which they were published

    def open(self, destination: Destination, key: str) -> Any:
        """Open the file that was published under a key, by its version if it has one.

        torch's own record of a checkpoint has these keys, and a rollback may have copied it to others.
        """
        file = self.files.get(key)
        if file is None:
            raise FileNotFoundError(f"{destination.location.url}/{key}")
        reads = NamedReads(destination.filesystem, destination.location)
        return open_published(destination.filesystem, f"{destination.location.path}/{file.key}", file, reads)


_Now = Callable[[ManifestFile], ManifestFile | None]
"""What a file that was published is now; None if it is shown no more."""


def latest(
    url: str,
    *,
    storage_options: Mapping[str, Any] | None = None,
    filesystem: AbstractFileSystem | None = None,
) -> str | None:
    """Return the name of the newest complete checkpoint; None if there is none.

    It reads the manifests, so it never returns a checkpoint that is being written or whose ranks died. It
    skips deleted checkpoints.

    Args:
        url: The URL of the ``StorageWriter``, such as ``s3://bucket/run-7``.
        storage_options: Options of the store's fsspec filesystem.
        filesystem: The filesystem itself, instead of options.

    Returns:
        The ``checkpoint_id`` that it was saved with, for ``dcp.load``.

    Raises:
        FormatError: The chain of manifests is broken, or a newer magicfs wrote it.
        StoreError: The store refused, or did not answer.
    """
    destination = open_destination(url, storage_options, filesystem, for_reading=True)
    found = destination.run(_find, None)
    return None if found is None else found.name


def find(destination: Destination, name: str | None, start: str | None = None) -> Found:
    """The newest checkpoint of a name, or of all; ObjectNotFound if there is none.

    ``start``: the job after which no other counts; by default the newest.
    """
    found = destination.run(_find, name, start)
    if found is None:
        location = destination.location
        raise ObjectNotFound(
            "find a checkpoint",
            location.path if name is None else f"{location.path}/{name}",
            "there is no complete checkpoint",
            hint="magicfs.torch.latest(url) returns the newest complete one",
        )
    return found


def check_name(name: str) -> str:
    """A name that a checkpoint may have, without slashes at its ends; else UsageError."""
    found = name.strip("/")
    if "://" in name or not paths.can_be_a_file(found) or is_reserved(found):
        raise UsageError(
            f"checkpoint_id={name!r} is not the name of a checkpoint: the writer has the URL of the "
            "directory, and checkpoint_id is a name in it, such as 'step-100'"
        )
    return found


async def _find(
    engine: Engine, location: Location, name: str | None, start: str | None = None
) -> Found | None:
    return await _newest(engine, location, name, start, lambda file: file)


async def _newest(
    engine: Engine, location: Location, name: str | None, start: str | None, now: _Now
) -> Found | None:
    """The newest of the publications from one on down the chain, by default from the last one."""
    is_replaced = False
    async for manifest in chain.chain(engine.store, location.key, READING, start=start, hidden="none"):
        if (found := await _newest_in(engine, location, manifest, name, now)) is not None:
            return found
        if manifest.mode == COMPACT and not is_replaced:
            break  # it stands for all below
        is_replaced = is_replaced or manifest.replaced is not None
    return None


async def _newest_in(
    engine: Engine, location: Location, manifest: Manifest, name: str | None, now: _Now
) -> Found | None:
    if manifest.restores is not None:
        # Copies are all as old as the rollback: the publications of then know their order.
        try:
            return await _shown_again(engine, location, manifest, manifest.files, name, now)
        except FormatError:
            pass  # nothing is known of that time any more; what was not copied is found all the same
    there: list[tuple[float, ManifestFile]] = []
    for file in manifest.files:
        directory, _, last = file.key.rpartition("/")
        shown = now(file)
        if not _METADATA.fullmatch(last) or name not in (None, directory) or shown is None:
            continue
        try:  # somebody may have deleted it; and a sum of manifests has several, in the order of their names
            head = await engine.store.head(paths.join(location.key, shown.key))
        except ObjectNotFound:
            continue
        there.append((head.modified or 0, file))
    for _, file in sorted(there, key=lambda one: one[0], reverse=True):
        if (rollback := await _rollback_of(engine, location, file)) is None:
            return _found(manifest, file, now)
        if found := await _shown_again(engine, location, rollback, manifest.files, name, now):
            return found
    return None


async def _rollback_of(engine: Engine, location: Location, file: ManifestFile) -> Manifest | None:
    """What published a copy, of which a sum of manifests has only the name."""
    job = copied_by(file.key)
    manifest = (
        None if job is None else await chain.read(engine.store, location.key, job, READING, files=False)
    )
    return manifest if manifest is not None and manifest.restores is not None else None


async def _shown_again(
    engine: Engine,
    location: Location,
    rollback: Manifest,
    files: Sequence[ManifestFile],
    name: str | None,
    now: _Now,
) -> Found | None:
    """The newest of then among the files that a rollback has shown again, where they were or as copies."""
    shown = {file.key: file for file in files}

    def now_of(then: ManifestFile) -> ManifestFile | None:
        copy = shown.get(copied_key("", then.key, ids.job_id(rollback.job_id)))
        found = copy or shown.get(then.key)
        return None if found is None else now(found)

    return await _newest(engine, location, name, rollback.restores, now_of)


def _found(manifest: Manifest, metadata: ManifestFile, now: _Now) -> Found:
    directory, _, last = metadata.key.rpartition("/")
    below = ((file.key, now(file)) for file in manifest.files if file.key.startswith(f"{directory}/"))
    return Found(directory, last, {key: file for key, file in below if file is not None})
