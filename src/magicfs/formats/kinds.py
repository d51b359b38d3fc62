"""Which of the persisted files this is: for those who have a path and its bytes, and want to look."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from magicfs.errors import FormatError
from magicfs.formats import deletions
from magicfs.formats.deletions import DELETIONS_FORMAT, DELETIONS_SIZE_LIMIT, OldObject
from magicfs.formats.document import parse
from magicfs.formats.job_object import JOB_FORMAT, JOB_OBJECT_SIZE_LIMIT, JobObject
from magicfs.formats.manifest import MANIFEST_FORMAT, MANIFEST_SIZE_LIMIT, Manifest
from magicfs.formats.pending import PENDING_SUFFIX, Pending
from magicfs.formats.pendingset import PENDINGSET_SIZE_LIMIT, PENDINGSET_SUFFIX, PendingSet
from magicfs.formats.pointer import POINTER_FORMAT, Pointer
from magicfs.formats.success import SUCCESS_FILE, SUCCESS_NAME, SuccessData
from magicfs.formats.task_manifest import (
    TASK_MANIFEST_SIZE_LIMIT,
    TASK_MANIFEST_SUFFIX,
    TASK_MANIFEST_TYPE,
    TaskManifest,
)

__all__ = ["KINDS", "SIZE_LIMIT", "Content", "Kind", "detect", "load"]

Content = (
    JobObject | Manifest | Pending | PendingSet | Pointer | SuccessData | TaskManifest | tuple[OldObject, ...]
)
"""What a file of any kind reads as."""

SIZE_LIMIT: Final = max(
    MANIFEST_SIZE_LIMIT,
    PENDINGSET_SIZE_LIMIT,
    JOB_OBJECT_SIZE_LIMIT,
    DELETIONS_SIZE_LIMIT,
    TASK_MANIFEST_SIZE_LIMIT,
)
"""Bytes of the largest."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A file format.

    Attributes:
        name: What it is called.
        has_name: Whether the last element of a path is one of this kind.
        has_content: Whether a JSON object is one of this kind, wherever it lies.
        read: Turns path and bytes into the value.
    """

    name: str
    has_name: Callable[[str], bool]
    has_content: Callable[[dict[str, Any]], bool]
    read: Callable[[str, bytes], Content]


KINDS: Final = (
    Kind(
        "pending",
        lambda name: name.endswith(PENDING_SUFFIX),
        lambda document: "uploadId" in document and "destinationKey" in document,
        Pending.from_bytes,
    ),
    Kind(
        "pendingset",
        lambda name: name.endswith(PENDINGSET_SUFFIX),
        lambda document: "commits" in document,
        PendingSet.from_bytes,
    ),
    Kind(
        "success",
        lambda name: name == SUCCESS_FILE,
        lambda document: document.get("name") == SUCCESS_NAME,
        SuccessData.from_bytes,
    ),
    Kind(
        "manifest",
        lambda name: False,  # noqa: ARG005 - any job id
        lambda document: _is_format(document, MANIFEST_FORMAT),
        Manifest.from_bytes,
    ),
    Kind(
        "pointer",
        lambda name: False,  # noqa: ARG005 - any file may be called current.json
        lambda document: _is_format(document, POINTER_FORMAT),
        Pointer.from_bytes,
    ),
    Kind(
        "job",
        lambda name: False,  # noqa: ARG005 - any file may be called job.json
        lambda document: _is_format(document, JOB_FORMAT),
        JobObject.from_bytes,
    ),
    Kind(
        "deletions",
        lambda name: False,  # noqa: ARG005 - the directory tells, not the name
        lambda document: _is_format(document, DELETIONS_FORMAT),
        deletions.read,
    ),
    Kind(
        "task manifest",
        lambda name: name.endswith(TASK_MANIFEST_SUFFIX),
        lambda document: _is_type(document, TASK_MANIFEST_TYPE),
        TaskManifest.from_bytes,
    ),
)


def detect(path: str, raw: bytes) -> str:
    """Name the kind of a file. What it contains is believed first, what it is called when that says nothing.

    Hadoop's staging committers give their pending sets no suffix, and reports have any name.

    Returns:
        ``pending``, ``pendingset``, ``success``, ``manifest``, ``pointer``, ``job``, ``deletions`` or
        ``task manifest``.

    Raises:
        FormatError: None of these.
    """
    return _kind(path, raw).name


def load(path: str, raw: bytes) -> Content:
    """Read a file of any kind.

    Raises:
        FormatError: None of these, or it cannot be believed.
    """
    return _kind(path, raw).read(path, raw)


def _is_format(document: dict[str, Any], ours: str) -> bool:
    """Whether a document is of one of our formats, of whatever version."""
    named = document.get("format")
    return isinstance(named, str) and named.rpartition("/")[0] == ours.rpartition("/")[0]


def _is_type(document: dict[str, Any], hadoops: str) -> bool:
    """The same of one of Hadoop's types."""
    named = document.get("type")
    return isinstance(named, str) and named.rpartition("/")[0] == hadoops.rpartition("/")[0]


def _kind(path: str, raw: bytes) -> Kind:
    last = path.rpartition("/")[2]
    named = next((kind for kind in KINDS if kind.has_name(last)), None)
    try:
        document = parse(path, raw, size_limit=SIZE_LIMIT)
    except FormatError as error:
        if named is not None:
            return named
        raise FormatError(path, error.field, f"{error.problem}; {_EXPECTED}") from None
    found = next((kind for kind in KINDS if kind.has_content(document)), named)
    if found is None:
        raise FormatError(path, "", f"a JSON object of another kind; {_EXPECTED}")
    return found


_EXPECTED: Final = (
    f"expected a {PENDING_SUFFIX} file (it has uploadId and destinationKey), a {PENDINGSET_SUFFIX} file "
    f"(it has commits), {SUCCESS_FILE} (its name is {SUCCESS_NAME}), a task manifest (its type is "
    f"{TASK_MANIFEST_TYPE}), or a manifest, a pointer, a job object "
    f"or a list of deletions (its format is {MANIFEST_FORMAT}, {POINTER_FORMAT}, {JOB_FORMAT} or "
    f"{DELETIONS_FORMAT})"
)
