"""What blobs bear beside their content: Azure takes other names of metadata than S3 does.

There a name is an identifier of C#: letters, digits and underscores, and no digit comes first. What is not
allowed is written as an underscore and the two digits of its code: ``magicfs-write-id`` is
``magicfs_2dwrite_2did``. Names that others gave stay as they are, but for the few that look so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from magicfs.errors import UsageError
from magicfs.protocol.file_options import METADATA

DESCRIPTION: Final = {
    "CacheControl": "cache_control",
    "ContentDisposition": "content_disposition",
    "ContentEncoding": "content_encoding",
    "ContentLanguage": "content_language",
    "ContentType": "content_type",
}
"""What describes the content, and what the SDK calls it."""

_SEPARATORS = "!#$%&'*+-.^`|~"
_FOREIGN = re.compile(rf"[{re.escape(_SEPARATORS)}]|^[0-9]|_(?=[0-9a-f]{{2}})")
_CODES = "|".join(f"{ord(one):02x}" for one in f"{_SEPARATORS}_")
_ESCAPED = re.compile(rf"^_(3[0-9])|_({_CODES})")
_IDENTIFIER = re.compile(r"[a-z_][a-z0-9_]*")
_TEXT = re.compile(r"[\x20-\x7e]*")


def encoded(metadata: Mapping[str, str], path: str) -> dict[str, str]:
    """User metadata by the names that Azure takes. Raises UsageError for a name or text that it does not."""
    found = {}
    for name, text in metadata.items():
        made = _FOREIGN.sub(lambda match: f"_{ord(match[0]):02x}", name.lower())
        if not _IDENTIFIER.fullmatch(made) or not _TEXT.fullmatch(text):
            raise UsageError(
                f"{path}: the metadata {name!r} cannot be stored on Azure; nothing was written; use ASCII "
                "letters, digits and -, and printable ASCII text"
            )
        found[made] = text
    return found


def decoded(metadata: Mapping[str, str] | None) -> dict[str, str]:
    """The metadata of a blob by the names that were given."""
    return {
        _ESCAPED.sub(lambda match: chr(int(match[1] or match[2], 16)), name.lower()): text
        for name, text in (metadata or {}).items()
    }


def is_directory(metadata: Mapping[str, str] | None) -> bool:
    """Whether a blob stands for a directory of an account with a hierarchical namespace."""
    return {name.lower(): text for name, text in (metadata or {}).items()}.get("hdi_isfolder") == "true"


def settings_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """The SDK's arguments of the options of an upload, but for its metadata."""
    from azure.storage.blob import ContentSettings

    given = {DESCRIPTION[name]: value for name, value in options.items() if name != METADATA}
    return {"content_settings": ContentSettings(**given)} if given else {}


def described(settings: Any) -> dict[str, Any]:
    """What describes the content, by the names of S3."""
    found = {name: getattr(settings, of_sdk) for name, of_sdk in DESCRIPTION.items()}
    return {name: value for name, value in found.items() if value}
