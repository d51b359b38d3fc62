"""Where a job's URLs lead, what else they may name, and which committer is best there."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

from magicfs.committers import registry
from magicfs.committers.registry import committer_info
from magicfs.errors import UsageError
from magicfs.job.checks import check_filesystem
from magicfs.protocol import conflict, magic, paths
from magicfs.protocol.conflict import Conflict
from magicfs.protocol.paths import Location
from magicfs.stores import resolve
from magicfs.stores.urls import in_one_bucket, location_of, split

if TYPE_CHECKING:
    from fsspec.spec import AbstractFileSystem

__all__ = ["choose_committer", "destination_of", "keys_of", "other_keys_of", "place_in"]


def other_keys_of(urls: Sequence[str], location: Location, conflict: Conflict) -> tuple[str, ...]:
    """The directories that URLs (``s3://bucket/sales/old``) name, as keys of the destination's bucket.

    Raises UsageError if a URL cannot be right, or the job deletes nothing.
    """
    if not urls:
        return ()
    if isinstance(urls, str):
        raise UsageError("also_replace is one text; give a list of URLs")
    if not conflict.startswith("replace"):
        raise UsageError(
            f"also_replace names datasets that the job may delete, and conflict={conflict!r} deletes none; "
            "leave it out, or use conflict='replace' or 'replace_partitions'"
        )
    keys = []
    for url in urls:
        place = location_of(url, any_scheme=True)
        if not in_one_bucket(place, location):
            raise UsageError(
                f"also_replace names {url!r}, which lies outside {location.scheme}://{location.bucket}; "
                "the job deletes nothing there; leave it out"
            )
        if magic.locate(place.path) is not None or not (
            paths.is_under(place.key, location.key) or paths.is_under(location.key, place.key)
        ):
            raise UsageError(
                f"also_replace names {url!r}, which lies neither below the destination {location.url} nor "
                "above it; name only datasets whose files the job would delete"
            )
        keys.append(place.key)
    return tuple(dict.fromkeys(keys))


def keys_of(
    urls: Sequence[str], location: Location, committer: str, *, uploads_found_by_name: bool
) -> tuple[str, ...]:
    """The directories that URLs (``s3://bucket/other``) name, as keys of the destination's bucket.

    ``uploads_found_by_name``: whether every upload of the job can be recognized by its name. Raises
    UsageError if a URL cannot be right, or the job cannot have any.
    """
    if not urls:
        return ()
    if isinstance(urls, str):
        raise UsageError("extra_destinations is one text; give a list of URLs")
    info = committer_info(committer)
    if not info.driven or info.writes == "work files":
        raise UsageError(
            f"extra_destinations need delayed uploads, which committer={committer!r} has not; use magic, "
            "directory or partitioned, or one job for each destination"
        )
    if not uploads_found_by_name:
        raise UsageError(
            "extra_destinations need unique_names=True and a job id that holds a UUID: nothing that is there "
            "is ever replaced, and uploads there are told by their names"
        )
    keys: list[str] = []
    for url in urls:
        place = location_of(url, any_scheme=True)
        if not in_one_bucket(place, location):
            raise UsageError(
                f"extra destination {url!r} lies outside {location.scheme}://{location.bucket}; uploads of "
                "one job lie in one bucket; use a job for each bucket"
            )
        if not place.key or conflict.is_reserved(place.key):
            raise UsageError(
                f"extra destination {url!r} must be a directory in the bucket, and none where jobs keep "
                "their work or manifests"
            )
        for other in (location.key, *keys):
            if _overlap(place.key, other):
                raise UsageError(
                    f"extra destination {url!r} overlaps {location.bucket}/{other}; name only directories "
                    "that lie beside the destination and beside each other"
                )
        keys.append(place.key)
    return tuple(keys)


def place_in(url: str, location: Location, extra: Sequence[str]) -> tuple[int, str]:
    """Which extra destination a directory lies in, and where in it: a relative path, possibly empty. Raises
    UsageError if it lies in none of them.
    """
    place = location_of(url, any_scheme=True)
    if in_one_bucket(place, location):
        for number, one in enumerate(extra):
            if place.key == one:
                return number, ""
            if paths.is_under(place.key, one):
                return number, paths.relative_to(place.key, one)
    known = ", ".join(f"{location.scheme}://{location.bucket}/{one}" for one in extra) or "none"
    raise UsageError(f"{url!r} lies in no extra destination of the job; it was set up with {known}")


def _overlap(first: str, second: str) -> bool:
    return first == second or paths.is_under(first, second) or paths.is_under(second, first)


def choose_committer(
    name: str,
    location: paths.Location,
    storage_options: Mapping[str, Any],
    filesystem: AbstractFileSystem | None,
) -> tuple[str, str]:
    """The committer that was asked for; for ``auto`` the best that the store can carry, and why."""
    if name != "auto":
        return name, ""
    check_filesystem(storage_options, filesystem)
    wrapped = filesystem or resolve.filesystem(location.scheme, storage_options)
    best, reason = registry.best_for(resolve.open_store(wrapped, location.bucket))
    logging.getLogger("magicfs").info("%s: committer %s, because %s", location.url, best, reason)
    return best, reason


def destination_of(
    url: str | PathLike[str],
    storage_options: Mapping[str, Any] | None,
    filesystem: AbstractFileSystem | None,
) -> tuple[paths.Location, dict[str, Any]]:
    """Where a job's URL leads, and the options of the filesystem, with those that the URL itself names."""
    plain, named = split(url, storage_options)
    location = location_of(plain, any_scheme=filesystem is not None)
    if filesystem is None:
        return location, named
    resolve.check_leads(location, filesystem)
    return location, dict(storage_options or {})
