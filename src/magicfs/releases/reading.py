"""Which publication of a dataset a release means, and whom a reader believes.

A record is input. A reader that names a dataset by its own URL learns from it only a job of that dataset,
which must have been published there with the manifest that the release has seen. A URL of a record is
followed only within the bucket of the release, or into buckets that the caller has named.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from os import PathLike

from magicfs.datasets.connection import Destination, Way, open_destination
from magicfs.engine import Engine
from magicfs.errors import FormatError, ObjectNotFound, UsageError
from magicfs.manifests import chain
from magicfs.manifests.chain import READING
from magicfs.past.asked import is_moment, parse_moment
from magicfs.protocol.paths import Location
from magicfs.releases.holds import manifest_digest
from magicfs.releases.record import Member, Record, Released, key_of, malformed
from magicfs.stores import resolve
from magicfs.stores.register import Entry, Register


@dataclass(frozen=True, slots=True)
class Pinned:
    """A release as it was read: it stays the same, whatever is released later."""

    url: str
    released: Released
    buckets: tuple[str, ...] = ()
    way: Way = field(default_factory=Way, repr=False, hash=False)


async def read_record(engine: Engine, location: Location) -> tuple[Record, Entry | None]:
    """The record of a release, and its version; an empty one and None before the first release.

    Raises FormatError if it cannot be believed.
    """
    entry = await Register(engine.store, key_of(location), READING, lasting=True).read(expected=True)
    if entry is None:
        return Record(), None
    path = f"{engine.store.bucket}/{entry.key}"
    try:
        return Record.from_bytes(path, entry.body), entry
    except FormatError as error:
        raise malformed(path, error) from error


def as_released(location: Location, record: Record, as_of: str | None = None) -> Released:
    """The release that somebody means: by id, number, run, tag or time; by default the newest.

    Raises ObjectNotFound if there is none, UsageError if the name means several.
    """
    found = {one.id for one in record.releases[-1:]} if as_of is None else _meant(record, as_of)
    if len(found) > 1:
        raise UsageError(f"{as_of!r} matches several releases of {location.url}: {', '.join(sorted(found))}")
    if not found:
        what = "nothing was released" if as_of is None else f"there is no release {as_of!r}"
        raise ObjectNotFound(
            "read",
            f"{location.bucket}/{key_of(location)}",
            f"{what} at {location.url}",
            hint=f"magicfs release {location.url} lists all that are kept",
        )
    return next(one for one in record.releases if one.id in found)


def _meant(record: Record, as_of: str) -> set[str]:
    kind, _, name = as_of.partition(":")
    if kind not in {"tag", "run", "time"}:
        kind, name = "", as_of
    found = {one for what, named, one in _names(record) if named == name and kind in ("", what)}
    is_time = kind == "time" or (kind == "" and is_moment(name))
    return found if found or not is_time else _at(record, parse_moment(name))


def _at(record: Record, moment_ms: int) -> set[str]:
    """The release that readers saw at a moment, by the clock of its driver."""
    return {one.id for one in [one for one in record.releases if one.published_ms <= moment_ms][-1:]}


def _names(record: Record) -> Iterator[tuple[str, str | None, str]]:
    """All names of releases: of what kind, the name, and whose it is."""
    for one in record.releases:
        yield from (("id", one.id, one.id), ("number", str(one.number), one.id), ("run", one.run_id, one.id))
    for tag, release in record.tags.items():
        yield "tag", tag, release


def same_place(one: Location, other: Location) -> bool:
    """Whether two URLs lead to one dataset."""
    return one.key == other.key and resolve.in_one_bucket(one, other)


def refuse_foreign(release: Location, member: Member, buckets: Collection[str]) -> None:
    """Raise UsageError if only the record says that a dataset of another bucket belongs to a release."""
    location = member.location
    if resolve.in_one_bucket(release, location):
        return
    known = {f"{release.scheme}://{one}" if "://" not in one else one.rstrip("/") for one in buckets}
    if not location.bucket or f"{location.scheme}://{location.bucket}" not in known:
        raise UsageError(
            f"release {release.url} names {location.url}, which lies in another bucket; nothing was read "
            f"there; pass buckets=['{location.scheme}://{location.bucket}'] if you expect it there"
        )


def job_in(release: str | PathLike[str] | Pinned, dataset: Destination, way: Way) -> str:
    """The job as of which a release shows a dataset that the caller has named by its URL.

    Raises ObjectNotFound if nothing was released, UsageError if the dataset is not in the release,
    FormatError if the dataset's manifest is not the one that was released.
    """
    if isinstance(release, Pinned):
        url, released = release.url, release.released
    else:
        place = open_destination(release, for_reading=True, **_way_to(release, dataset, way))
        url = place.location.url
        released = as_released(place.location, place.run(read_record)[0])
    location = dataset.location
    found = [one for one in released.members if same_place(one.location, location)]
    if not found:
        names = ", ".join(one.url for one in released.members) or "no dataset"
        raise UsageError(f"{location.url} is not in release {released.number} of {url}, which has {names}")
    for one in found:
        dataset.run(_check, one.job_id, one.manifest, url)
    return found[0].job_id


def _way_to(release: str | PathLike[str], dataset: Destination, way: Way) -> Way:
    """The dataset's own way to its store, if the release lies in a store of the same kind."""
    spelled, _ = resolve.split(release)
    scheme = resolve.location_of(spelled, any_scheme=True).scheme
    alike = resolve.in_one_bucket(Location(scheme, "", ""), Location(dataset.location.scheme, "", ""))
    return way if alike else {}


async def _check(engine: Engine, location: Location, job: str, digest: str, release: str) -> None:
    if await manifest_digest(engine, location, job) != digest:
        raise FormatError(
            f"{engine.store.bucket}/{chain.manifest_key(location.key, job)}",
            "",
            f"another manifest than the one that was released as part of {release}; find out who wrote it",
        )
