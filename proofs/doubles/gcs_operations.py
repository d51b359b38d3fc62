"""The names of operations of Google Cloud Storage, recognised from requests as they travel, and their cost.

Those of the JSON API are Google's own; those of multipart uploads, which the XML API has from S3, are S3's.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from magicfs.testing.s3_operations import s3_operation

__all__ = ["CLASS_A", "CLASS_B", "FREE", "classes", "gcs_operation"]

CLASS_A = frozenset(
    {
        *("objects.insert", "objects.list", "objects.rewrite", "objects.compose", "objects.move"),
        *("CreateMultipartUpload", "UploadPart", "CompleteMultipartUpload", "ListMultipartUploads"),
        *("folders.insert", "folders.list", "folders.rename"),
    }
)
CLASS_B = frozenset(
    {
        *("objects.get", "objects.read", "folders.get", "operations.get"),
        *("buckets.getStorageLayout", "buckets.get"),
    }
)
FREE = frozenset({"objects.delete", "batch", "AbortMultipartUpload", "folders.delete"})
"""A batch is billed by its calls, and ours are deletes."""

_OBJECT = r"/storage/v1/b/[^/]+/o/[^/]+"
_FOLDERS = r"/storage/v1/b/[^/]+/folders"
_JSON = tuple(
    (method, re.compile(pattern), name)
    for method, pattern, name in (
        ("POST", r"/batch/storage/v1", "batch"),
        ("POST", r"/upload/storage/v1/b/[^/]+/o", "objects.insert"),
        ("GET", r"/storage/v1/b/[^/]+/o", "objects.list"),
        ("GET", r"/storage/v1/b/[^/]+/storageLayout", "buckets.getStorageLayout"),
        ("GET", r"/storage/v1/b/[^/]+", "buckets.get"),
        ("GET", rf"(/download)?{_OBJECT}", "objects.get"),
        ("DELETE", _OBJECT, "objects.delete"),
        ("PATCH", _OBJECT, "objects.patch"),
        ("POST", rf"{_OBJECT}/rewriteTo/b/[^/]+/o/[^/]+", "objects.rewrite"),
        ("POST", rf"{_OBJECT}/moveTo/o/[^/]+", "objects.move"),
        ("POST", rf"{_OBJECT}/compose", "objects.compose"),
        ("POST", _FOLDERS, "folders.insert"),
        ("GET", _FOLDERS, "folders.list"),
        ("GET", rf"{_FOLDERS}/[^/]+", "folders.get"),
        ("DELETE", rf"{_FOLDERS}/[^/]+", "folders.delete"),
        ("POST", rf"{_FOLDERS}/[^/]+/renameTo/folders/[^/]+", "folders.rename"),
        ("GET", r"/storage/v1/b/[^/]+/operations/[^/]+", "operations.get"),
    )
)


def gcs_operation(method: str, path: str, query: str, headers: Mapping[str, str]) -> str:
    """Return the name of the operation that a request asks for; that of a download is ``objects.read``."""
    for its_method, pattern, name in _JSON:
        if its_method == method and pattern.fullmatch(path):
            return "objects.read" if name == "objects.get" and "alt=media" in query.split("&") else name
    return s3_operation(method, path, query, headers)


def classes(counts: Mapping[str, int]) -> Counter[str]:
    """Return how many requests of each class Google bills: A, B, free, or unknown."""
    found: Counter[str] = Counter()
    for operation, number in counts.items():
        names = {"A": CLASS_A, "B": CLASS_B, "free": FREE}
        found[next((one for one, known in names.items() if operation in known), "unknown")] += number
    return found
