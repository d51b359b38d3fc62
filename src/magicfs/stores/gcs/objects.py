"""Objects as the JSON API of Google Cloud Storage describes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from magicfs.stores.answer_rules import Malformed, number, seconds_of
from magicfs.stores.port import ObjectInfo

__all__ = ["DESCRIPTION", "described", "generation_in", "listed"]

DESCRIPTION: Final = {
    "CacheControl": "cacheControl",
    "ContentDisposition": "contentDisposition",
    "ContentEncoding": "contentEncoding",
    "ContentLanguage": "contentLanguage",
    "ContentType": "contentType",
}
"""What describes the content, and what Google calls it."""


def generation_in(item: Mapping[str, Any]) -> str:
    """The generation of an object; ``Malformed`` for what is none."""
    return str(number(str(item["generation"]), "generation"))


def listed(item: Mapping[str, Any]) -> ObjectInfo:
    """An object as a listing has it."""
    size = number(str(item.get("size", 0)), "size")
    return ObjectInfo(item["name"], size, generation_in(item), seconds_of(item["timeCreated"]))


def described(item: Mapping[str, Any]) -> ObjectInfo:
    """An object with its metadata."""
    info = listed(item)
    metadata = {name.lower(): value for name, value in item.get("metadata", {}).items()}
    description = {name: item[theirs] for name, theirs in DESCRIPTION.items() if theirs in item}
    if not all(isinstance(text, str) for text in (*metadata.values(), *description.values())):
        raise Malformed("the answer has metadata that is no text")
    return ObjectInfo(info.key, info.size, info.etag, info.modified, metadata, description)
