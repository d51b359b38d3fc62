"""Extra destinations of a job: checking what the caller gave, and finding one again."""

from __future__ import annotations

from collections.abc import Sequence

from magicfs.committers.registry import committer_info
from magicfs.errors import UsageError
from magicfs.protocol import conflict, paths
from magicfs.protocol.paths import Location
from magicfs.stores.urls import in_one_bucket, location_of

__all__ = ["keys_of", "place_in"]


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
