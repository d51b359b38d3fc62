"""Entries of pending sets as magicfs writes them, read several times as fast as field by field.

What is unusual is left to ``formats.pending``, which also tells what is wrong with it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from operator import itemgetter
from typing import Any, Final, cast

from magicfs.formats.fields import LONG_MAX, Fields
from magicfs.formats.pending_entry import Body, Source, UploadedPart
from magicfs.formats.statistics import Statistics

__all__ = ["PENDING_VERSION", "read"]

PENDING_VERSION: Final = 2
_SHA256: Final = re.compile(r"[0-9a-f]{64}")

_TEXTS: Final = (
    *("version", "filename", "uri", "uploadId", "bucket", "destinationKey"),
    *("created", "saved", "date", "jobId", "taskId", "text"),
)
_OTHERS: Final = ("etags", "extraData", "length", "iostatistics")
_NAMES: Final = frozenset((*_TEXTS, *_OTHERS, "partCount"))
_NAMES_OF_SMALL: Final = _NAMES - {"uploadId", "etags"} | {"body"}
_NAMES_OF_BODY: Final = frozenset(("bundle", "offset", "sha256"))
_NAMES_OF_RENAMED: Final = frozenset(
    ("version", "bucket", "destinationKey", "jobId", "taskId", "source", "length")
)
_renamed = itemgetter("version", "bucket", "destinationKey", "jobId", "taskId", "source", "length")
_PART_NAMES: Final = frozenset(("etag", "checksumAlgorithm", "checksum"))
_texts = itemgetter(*_TEXTS)
_others = itemgetter(*_OTHERS)
_ONLY_TEXT: Final = frozenset({str})
_EMPTY: Final = Statistics()
_NO_STATISTICS: Final = _EMPTY.to_document()


def read(fields: Fields) -> dict[str, Any] | None:
    """The arguments of ``Pending`` for an object; None if anything about it is unusual."""
    if (plain := fields.plain(_NAMES)) is not None:
        return _plain(plain)
    if (plain := fields.plain(_NAMES_OF_SMALL)) is not None:
        return _plain_small(plain)
    if (plain := fields.plain(_NAMES_OF_RENAMED)) is not None:
        return _plain_renamed(plain)
    return None


def _plain_renamed(members: Mapping[str, Any]) -> dict[str, Any] | None:
    """The same as ``_plain`` of a file that is renamed."""
    version, bucket, key, job, task, source, length = _renamed(members)
    if not (
        type(bucket) is type(key) is type(job) is type(task) is str
        and type(version) is type(length) is int
        and version == PENDING_VERSION
        and key
        and not key.startswith("/")
        and 0 <= length <= LONG_MAX
        and type(source) is dict
        and source.keys() == {"key", "etag"}
        and type(source["key"]) is type(source["etag"]) is str
        and source["key"]
    ):
        return None
    return {
        "bucket": bucket,
        "destination_key": key,
        "job_id": job,
        "task_id": task,
        "source": Source(source["key"], source["etag"]),
        "length": length,
        "statistics": _EMPTY,
    }


def _plain_small(members: Mapping[str, Any]) -> dict[str, Any] | None:
    """The same as ``_plain`` of a file with a body."""
    found = members["body"]
    if type(found) is not dict or found.keys() != _NAMES_OF_BODY:
        return None
    bundle, offset, sha256 = found["bundle"], found["offset"], found["sha256"]
    is_plain = (
        type(bundle) is type(sha256) is str
        and bundle
        and type(offset) is int
        and 0 <= offset <= LONG_MAX
        and _SHA256.fullmatch(sha256)
    )
    upload = {"uploadId": "none", "etags": ["none"]}  # as if it had one
    return _plain({**members, **upload}, Body(bundle, offset, sha256)) if is_plain else None


def _plain(members: Mapping[str, Any], body: Body | None = None) -> dict[str, Any] | None:
    """The upload in an object as magicfs writes it, several times as fast; None if anything is unusual.

    What is unusual is read field by field, which also tells what is wrong with it.
    """
    (version, filename, uri, upload_id, bucket, key, created, saved, date, job, task, text) = _texts(members)
    elements, extra, length, statistics = _others(members)
    if not (
        type(uri) is type(upload_id) is type(bucket) is type(key) is str
        and type(date) is type(job) is type(task) is type(text) is str
        and type(version) is type(created) is type(saved) is type(length) is int
        and (filename is None or type(filename) is str)
        and version == PENDING_VERSION
        and upload_id
        and key
        and not key.startswith("/")
        and 0 <= created <= LONG_MAX
        and 0 <= saved <= LONG_MAX
        and 0 <= length <= LONG_MAX
        and type(extra) is dict
        and set(map(type, extra.values())) <= _ONLY_TEXT
        and statistics == _NO_STATISTICS
        and type(elements) is list
        and elements
    ):
        return None
    parts = [_plain_part(element) for element in elements]
    if None in parts:
        return None
    return {
        "filename": filename,
        "uri": uri,
        "upload_id": upload_id if body is None else "",
        "bucket": bucket,
        "destination_key": key,
        "created_ms": created,
        "saved_ms": saved,
        "date": date,
        "job_id": job,
        "task_id": task,
        "text": text,
        "parts": cast("tuple[UploadedPart, ...]", tuple(parts)) if body is None else (),
        "body": body,
        "extra_data": extra,
        "length": length,
        "statistics": _EMPTY,
    }


def _plain_part(element: object) -> UploadedPart | None:
    if type(element) is str and element:
        return UploadedPart(element)
    if type(element) is not dict or element.keys() != _PART_NAMES:
        return None
    etag, algorithm, checksum = element["etag"], element["checksumAlgorithm"], element["checksum"]
    is_plain = (
        type(etag) is str
        and etag
        and (algorithm is None or type(algorithm) is str)
        and (checksum is None or type(checksum) is str)
    )
    return UploadedPart(etag, algorithm, checksum) if is_plain else None
