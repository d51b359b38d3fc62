"""Options that a writer gives with one file, by the names of S3's API, or as gcsfs and adlfs call them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from magicfs.errors import UsageError

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
        *("consistency", "timeout"),
    }
)
# Of these, what changes something when it is true, which a delayed upload cannot do.
_REFUSED = frozenset({"requester_pays", "preserve_etag"})


_OTHER_NAMES = {
    "cache_control": "CacheControl",
    "content_disposition": "ContentDisposition",
    "content_encoding": "ContentEncoding",
    "content_language": "ContentLanguage",
    "content_type": CONTENT_TYPE,
    "metadata": METADATA,
}
"""What gcsfs and adlfs call what S3's API has, too."""
_GROUPS = ("fixed_key_metadata", "content_settings")
"""Their arguments that hold several of these: a dictionary, or an object of Azure's SDK."""


def of_writer(given: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the arguments of a call that are about the object; what is None was not given.

    Raises UsageError if two names of one option have different values.
    """
    if not given:
        return {}
    kept = {
        name: value
        for name, value in _ungrouped(given).items()
        if value is not None and (name not in _OF_THE_WAY or (name in _REFUSED and value))
    }
    if kept.get("overwrite") is True:  # as adlfs spells the default
        del kept["overwrite"]
    acl = kept.pop("acl", None)  # as ``open`` of s3fs spells it; False is none
    if acl:
        kept["ACL"] = acl
    for other, name in _OTHER_NAMES.items():
        if other in kept and kept.setdefault(name, value := kept.pop(other)) != value:
            raise UsageError(
                f"{other}={value!r} and {name}={kept[name]!r} are the same option with two values; nothing "
                "was written; give one of them"
            )
    return kept


def _ungrouped(given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments, with what a group of options holds among them."""
    found = {name: value for name, value in given.items() if name not in _GROUPS}
    for group in _GROUPS:
        held = given.get(group) or {}
        for name, value in (held if isinstance(held, Mapping) else vars(held)).items():
            if value is not None:
                found.setdefault(name, value)
    return found


def check(options: Mapping[str, Any], known: frozenset[str], path: str, store: str) -> None:
    """Raise UsageError if an upload of the store takes none of that name."""
    if unknown := sorted(set(options) - known):
        raise UsageError(
            f"{path}: {', '.join(unknown)} cannot be given with one file on {store}; nothing was written; "
            "leave it out, or give it to the filesystem for all files; possible are "
            f"{', '.join(sorted(known))}"
        )


def joined_metadata(given: Mapping[str, str] | None, ours: Mapping[str, str]) -> dict[str, str]:
    """User metadata with names of our own, which count whatever case somebody else wrote them in."""
    reserved = {name.lower() for name in ours}
    return {name: value for name, value in (given or {}).items() if name.lower() not in reserved} | dict(ours)
