"""Finding checkpoints: by the manifests of the jobs that published them, never by a listing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from fsspec.spec import AbstractFileSystem

from magicfs.datasets.connection import Destination, open_destination
from magicfs.engine import Engine
from magicfs.errors import ObjectNotFound, UsageError
from magicfs.formats.manifest import Manifest
from magicfs.manifests import chain
from magicfs.manifests.chain import COMPACT, READING
from magicfs.protocol import paths
from magicfs.protocol.conflict import is_reserved
from magicfs.protocol.paths import Location

__all__ = ["METADATA", "Found", "check_name", "find", "latest"]

METADATA: Final = ".metadata"
"""What torch calls the file that says what is in the others: the last one of a checkpoint."""
_METADATA: Final = re.compile(r"\.metadata(-[0-9]{6,}-[0-9a-f-]{36})?")


@dataclass(frozen=True, slots=True)
class Found:
    """A checkpoint that was published."""

    name: str
    metadata: str  # what its ``.metadata`` is called, in the checkpoint's directory


def latest(
    url: str,
    *,
    storage_options: Mapping[str, Any] | None = None,
    filesystem: AbstractFileSystem | None = None,
) -> str | None:
    """The name of the newest whole checkpoint; None if there is none.

    The manifests tell which it is, so one that is being written, or whose ranks died, is never found. One
    that somebody deleted is passed over.

    Args:
        url: What the ``StorageWriter`` was given, such as ``s3://bucket/run-7``.
        storage_options: Options of the store's fsspec filesystem.
        filesystem: That filesystem itself, in place of options.

    Returns:
        The ``checkpoint_id`` that it was saved with, for ``dcp.load``.

    Raises:
        FormatError: The chain of manifests is broken, or a newer magicfs wrote it.
        StoreError: The store refused, or did not answer.
    """
    destination = open_destination(url, storage_options, filesystem, for_reading=True)
    found = destination.run(_find, None)
    return None if found is None else found.name


def find(destination: Destination, name: str | None) -> Found:
    """The newest checkpoint of a name, or of all; ObjectNotFound if there is none."""
    found = destination.run(_find, name)
    if found is None:
        location = destination.location
        raise ObjectNotFound(
            "find a checkpoint",
            location.path if name is None else f"{location.path}/{name}",
            "no whole one was published there",
            hint="magicfs.torch.latest(url) names the newest that is",
        )
    return found


def check_name(name: str) -> str:
    """A name that a checkpoint may have, without slashes at its ends; else UsageError."""
    found = name.strip("/")
    if "://" in name or not paths.can_be_a_file(found) or is_reserved(found):
        raise UsageError(
            f"checkpoint_id={name!r} is no name of a checkpoint: the writer has the URL of the directory, "
            "and checkpoint_id is a name in it, such as 'step-100'"
        )
    return found


async def _find(engine: Engine, location: Location, name: str | None) -> Found | None:
    is_replaced = False
    async for manifest in chain.chain(engine.store, location.key, READING, hidden="none"):
        if (found := await _newest_in(engine, location, manifest, name)) is not None:
            return found
        if manifest.conflict == COMPACT and not is_replaced:
            break  # it stands for all below
        is_replaced = is_replaced or manifest.replaced is not None
    return None


async def _newest_in(
    engine: Engine, location: Location, manifest: Manifest, name: str | None
) -> Found | None:
    there: list[tuple[float, Found]] = []
    for file in manifest.files:
        directory, _, last = file.key.rpartition("/")
        if not _METADATA.fullmatch(last) or name not in (None, directory):
            continue
        try:  # somebody may have deleted it; and a sum of manifests has several, in the order of their names
            head = await engine.store.head(paths.join(location.key, file.key))
        except ObjectNotFound:
            continue
        there.append((head.modified or 0, Found(directory, last)))
    return max(there, key=lambda one: one[0])[1] if there else None
