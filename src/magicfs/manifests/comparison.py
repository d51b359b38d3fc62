"""Files of manifests against what lies in the bucket: one listing, and a HEAD for each that is in doubt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from magicfs.engine import Engine
from magicfs.formats.manifest import ManifestFile
from magicfs.protocol import paths
from magicfs.protocol.modes import is_data
from magicfs.protocol.readback import WRITE_ID
from magicfs.runtime.parallel import drained
from magicfs.stores.port import ObjectInfo
from magicfs.stores.register import found_at


class Named(Protocol):
    """What is known of a file, such as a ``ManifestFile``."""

    @property
    def size(self) -> int:
        """In bytes."""

    @property
    def version(self) -> str | None:
        """Under which id its bucket keeps it; None if it keeps no versions."""

    @property
    def etag(self) -> str:
        """As the store gave it; empty if nobody saw it."""

    @property
    def write_id(self) -> str | None:
        """In the object's metadata; None if it has none."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What differs. Keys are relative to the destination, sorted."""

    missing: tuple[str, ...]  # files that are not there
    altered: tuple[str, ...]  # of another size, or of another ETag and write id
    foreign: Mapping[str, str]  # visible objects that are none of the files, with their ETags


async def compare(engine: Engine, destination: str, files: Mapping[str, ManifestFile]) -> Comparison:
    """Compare files, by their keys relative to the destination, with what the bucket holds."""
    left = dict(files)
    altered: list[str] = []
    foreign: dict[str, str] = {}
    doubtful: list[tuple[str, ManifestFile]] = []
    async for info in engine.store.list(paths.prefix_of(destination)):
        key = paths.relative_to(info.key, destination) if paths.is_under(info.key, destination) else ""
        file = left.pop(key, None)
        if file is None:
            if is_data(info.key, destination):
                foreign[key] = info.etag
        elif info.size != file.size:
            altered.append(key)
        elif not _same_etag(info, file):
            doubtful.append((info.key, file))
    missing = list(left)

    async def look(one: tuple[str, ManifestFile]) -> None:
        key, file = one
        info = await found_at(engine.store, key)
        if info is None:
            missing.append(file.key)
        elif not is_file(info, file):
            altered.append(file.key)

    await drained(doubtful, look, engine.concurrency)
    return Comparison(tuple(sorted(missing)), tuple(sorted(altered)), dict(sorted(foreign.items())))


def is_file(info: ObjectInfo, file: Named) -> bool:
    """Whether an object is the file that a manifest names, as a HEAD tells: by size, and ETag or write id."""
    if info.size != file.size:
        return False
    is_written_by_it = file.write_id is not None and info.metadata.get(WRITE_ID) == file.write_id
    return is_written_by_it or _same_etag(info, file)


def _same_etag(info: ObjectInfo, file: Named) -> bool:
    return info.etag.strip('"') == file.etag.strip('"') or (not file.etag and file.write_id is None)
