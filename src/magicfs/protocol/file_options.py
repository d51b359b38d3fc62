"""Options that a writer gives with one file, by the names of S3's API, as s3fs takes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from magicfs.errors import UsageError

__all__ = ["CONTENT_TYPE", "DESCRIPTION", "METADATA", "check", "joined_metadata", "of_writer"]

METADATA = "Metadata"
"""The user metadata: names and texts."""
CONTENT_TYPE = "ContentType"

DESCRIPTION = (
    *("CacheControl", "ContentDisposition", "ContentEncoding", "ContentLanguage", CONTENT_TYPE),
    *("Expires", "WebsiteRedirectLocation"),
)
"""What else describes an object's content. A copy has it, too."""

# What fsspec and s3fs take with a file that is read or sent in pieces, and says nothing about the object.
_OF_THE_WAY = frozenset(
    {
        *("block_size", "cache_options", "cache_type", "fill_cache", "size", "version_id"),
        *("chunksize", "max_concurrency", "autocommit", "requester_pays", "preserve_etag"),
    }
)
# Of these, what changes something when it is true, which a delayed upload cannot do.
_REFUSED = frozenset({"requester_pays", "preserve_etag"})


def of_writer(given: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the arguments of a call that are about the object; what is None was not given."""
    kept = {
        name: value
        for name, value in given.items()
        if value is not None and (name not in _OF_THE_WAY or (name in _REFUSED and value))
    }
    acl = kept.pop("acl", None)  # as ``open`` of s3fs spells it; False is none
    return {**kept, "ACL": acl} if acl else kept


def check(options: Mapping[str, Any], known: frozenset[str], path: str, store: str) -> None:
    """Raise UsageError if an upload of the store takes none of that name."""
    if unknown := sorted(set(options) - known):
        raise UsageError(
            f"{path}: {', '.join(unknown)} cannot be given with one file on {store}; nothing was written; "
            f"leave it out, or give it to the filesystem for all files; known are {', '.join(sorted(known))}"
        )


def joined_metadata(given: Mapping[str, str] | None, ours: Mapping[str, str]) -> dict[str, str]:
    """User metadata with names of our own, which count whatever case somebody else wrote them in."""
    reserved = {name.lower() for name in ours}
    return {name: value for name, value in (given or {}).items() if name.lower() not in reserved} | dict(ours)
