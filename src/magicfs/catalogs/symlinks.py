"""Symlink manifests: file lists with which Athena, Trino and Hive read exactly the published files.

::

    DEST/_symlink_format_manifest/manifest              of a dataset without partitions
    DEST/_symlink_format_manifest/<partition>/manifest  one for each partition

Each is written by one request, and only if it is still the one that was read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from shlex import quote
from typing import ClassVar, Final

from magicfs.catalogs.hive_names import partition_of
from magicfs.catalogs.port import CatalogMoved, Changes, Files, Published, Table
from magicfs.catalogs.register import Registers
from magicfs.datasets.connection import Destination, told_as_newest
from magicfs.engine import Engine
from magicfs.errors import ObjectExists, ObjectNotFound, PreconditionFailed, UsageError
from magicfs.protocol import paths
from magicfs.protocol.modes import MANIFESTS
from magicfs.protocol.paths import Location
from magicfs.runtime.parallel import gathered
from magicfs.stores.conditions import Conditions, conditions_of, remove_matching
from magicfs.stores.port import ObjectInfo, Store
from magicfs.stores.register import body_at

DIRECTORY: Final = "_symlink_format_manifest"
"""Where Delta Lake writes them, too, and where engines look."""

_NAME: Final = "manifest"


@dataclass(frozen=True, slots=True)
class SymlinkManifest(Registers):
    """Symlink manifests below the destination, for tables of ``SymlinkTextInputFormat``."""

    kind: ClassVar[str] = "symlink"
    table: ClassVar[str] = ""
    atomic: ClassVar[bool] = False

    def options(self) -> Mapping[str, str] | None:
        return {}

    def line(self, url: str) -> str:
        return f"magicfs maintain {quote(url)} --register symlink"

    def open(self, place: Destination) -> Table:
        return _Manifests(place, place.run(_read))


@dataclass(frozen=True, slots=True)
class _Found:
    body: bytes
    etag: str


@dataclass(frozen=True, slots=True)
class _Manifests:
    place: Destination
    found: Mapping[str, _Found]  # by partition

    def shows(self, job_id: str) -> bool:  # noqa: ARG002 - they say nothing but names of files
        return False

    def bring(self, published: Published) -> Changes:
        return self.place.run(_write, self.found, _bodies(self.place.location, published.files))


def reader_url(location: Location, key: str) -> str:
    """How engines write the URL of a file: raw, with ``s3`` for all names of S3.

    Raises UsageError for a name that no line can hold.
    """
    if "\n" in key or "\r" in key:
        raise UsageError(f"{key!r} has a line break in its name, and a manifest has one name per line")
    scheme = "s3" if location.scheme in {"s3", "s3a"} else location.scheme
    return f"{scheme}://{location.path}/{key}"


def _bodies(location: Location, files: Files) -> dict[str, bytes]:
    lines: dict[str, list[str]] = {}
    for key in sorted(files):
        lines.setdefault(partition_of(key), []).append(reader_url(location, key))
    return {partition: "".join(f"{one}\n" for one in found).encode() for partition, found in lines.items()}


async def _read(engine: Engine, location: Location) -> Mapping[str, _Found]:
    prefix = paths.prefix_of(paths.join(location.key, DIRECTORY))
    listed = [info async for info in engine.store.list(prefix)]
    manifests = [one for one in listed if one.key.rpartition("/")[2] == _NAME]

    async def read(info: ObjectInfo) -> _Found | None:
        try:
            return _Found(await engine.store.get(info.key, size_max=info.size + 1), info.etag)
        except ObjectNotFound:
            return None  # another call has just removed it

    found = await gathered(manifests, read, engine.concurrency)
    read_ones = zip(manifests, found, strict=True)
    return {partition_of(info.key.removeprefix(prefix)): one for info, one in read_ones if one is not None}


async def _write(
    engine: Engine, location: Location, found: Mapping[str, _Found], bodies: Mapping[str, bytes]
) -> Changes:
    about = await told_as_newest(engine, location)
    conditions = await conditions_of(about.store, paths.join(location.key, MANIFESTS))
    written: list[str] = []

    async def put(partition: str) -> None:
        key = _key(location, partition)
        await _put(about.store, conditions, key, bodies[partition], found.get(partition))
        written.append(partition)

    differ = [one for one, body in bodies.items() if one not in found or found[one].body != body]
    over = sorted(found.keys() - bodies.keys())
    try:
        await gathered(differ, put, about.concurrency)
    except CatalogMoved as moved:
        raise CatalogMoved(_changes(written, found, bodies)) from moved
    objects = [(_key(location, one), found[one].etag) for one in over]
    if await remove_matching(about.store, conditions, objects, about.concurrency):
        raise CatalogMoved(_changes(written, found, bodies))
    return _changes([*written, *over], found, bodies)


async def _put(store: Store, conditions: Conditions, key: str, body: bytes, old: _Found | None) -> None:
    mode = conditions.create if old is None else conditions.update(old.etag)
    try:
        await store.put(key, body, mode=mode)
    except (ObjectExists, PreconditionFailed) as error:
        # A request that was repeated, for its answer was lost, meets its own object.
        if await body_at(store, key, len(body) + 1) != body:
            raise CatalogMoved from error


def _changes(partitions: Iterable[str], found: Mapping[str, _Found], bodies: Mapping[str, bytes]) -> Changes:
    before, after = set[bytes](), set[bytes]()
    for one in partitions:
        before.update(found[one].body.splitlines() if one in found else ())
        after.update(bodies.get(one, b"").splitlines())
    return Changes(len(after - before), len(before - after))


def _key(location: Location, partition: str) -> str:
    return paths.join(location.key, DIRECTORY, partition, _NAME)
