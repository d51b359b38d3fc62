"""Datasets of others that a job may delete: checking what the caller gave."""

from __future__ import annotations

from collections.abc import Sequence

from magicfs.errors import UsageError
from magicfs.protocol import magic, paths
from magicfs.protocol.conflict import Conflict
from magicfs.protocol.paths import Location
from magicfs.stores.urls import in_one_bucket, location_of

__all__ = ["other_keys_of"]


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
