"""Which of the persisted files this is: for those who have a path and its bytes, and want to look."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from magicfs.errors import FormatError
from magicfs.formats import deletions
from magicfs.formats.deletions import DELETIONS_FORMAT
from magicfs.formats.document import parse
from magicfs.formats.footer import FileFooters
from magicfs.formats.job_location import JobLocation
from magicfs.formats.job_object import JobObject
from magicfs.formats.limits import (
    MANIFEST_SIZE_LIMIT,
    MANIFEST_VALUE_LIMIT,
    PENDINGSET_SIZE_LIMIT,
    TASK_MANIFEST_SIZE_LIMIT,
)
from magicfs.formats.log import (
    Log,
    LoggedNames,
    LoggedPart,
)
from magicfs.formats.manifest import Manifest, ManifestFiles
from magicfs.formats.pending import PENDING_SUFFIX, Pending
from magicfs.formats.pendingset import PENDINGSET_SUFFIX, PendingSet
from magicfs.formats.pointer import Pointer
from magicfs.formats.registration import Registration
from magicfs.formats.success import SUCCESS_FILE, SUCCESS_NAME, SuccessData
from magicfs.formats.tag import Tag
from magicfs.formats.task_manifest import TASK_MANIFEST_SUFFIX, TASK_MANIFEST_TYPE, TaskManifest

SIZE_LIMIT: Final = max(MANIFEST_SIZE_LIMIT, PENDINGSET_SIZE_LIMIT, TASK_MANIFEST_SIZE_LIMIT)
"""Bytes of the largest."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A file format."""

    name: str
    has_name: Callable[[str], bool]
    """Whether the last element of a path is one of this kind."""
    has_content: Callable[[dict[str, Any]], bool]
    """Whether a JSON object is one of this kind, wherever it lies."""
    read: Callable[[str, bytes], object]


def _is_version_of(named: object, format_: str) -> bool:
    """Whether a name in a file is that of a format, in whatever version."""
    return isinstance(named, str) and named.rpartition("/")[0] == format_.rpartition("/")[0]


def own(name: str, format_: str, read: Callable[[str, bytes], object]) -> Kind:
    """A format of ours: recognised by what the file says, never by its name."""
    return Kind(name, lambda _: False, lambda document: _is_version_of(document.get("format"), format_), read)


_OWN: Final[dict[str, tuple[str, Callable[[str, bytes], object]]]] = {
    "manifest": (Manifest.FORMAT, Manifest.from_bytes),
    "manifest files": (ManifestFiles.FORMAT, ManifestFiles.from_bytes),
    "pointer": (Pointer.FORMAT, Pointer.from_bytes),
    "job": (JobObject.FORMAT, JobObject.from_bytes),
    "deletions": (DELETIONS_FORMAT, deletions.read),
    "job location": (JobLocation.FORMAT, JobLocation.from_bytes),
    "tag": (Tag.FORMAT, Tag.from_bytes),
    "registration": (Registration.FORMAT, Registration.from_bytes),
    "log": (Log.FORMAT, Log.from_bytes),
    "log part": (LoggedPart.FORMAT, LoggedPart.from_bytes),
    "log names": (LoggedNames.FORMAT, LoggedNames.from_bytes),
    "footers": (FileFooters.FORMAT, FileFooters.from_bytes),
}

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
    *(own(name, format_, read) for name, (format_, read) in _OWN.items()),
    Kind(
        "task manifest",
        lambda name: name.endswith(TASK_MANIFEST_SUFFIX),
        lambda document: _is_version_of(document.get("type"), TASK_MANIFEST_TYPE),
        TaskManifest.from_bytes,
    ),
)


def detect(path: str, raw: bytes, guests: Iterable[Kind] = ()) -> str:
    """The name of a file's kind, one of ``KINDS`` or of guests. Its content decides first, its name if that
    says nothing.

    Hadoop's staging committers give their pending sets no suffix, and reports have any name. Raises
    FormatError if it is none of these.
    """
    return _kind(path, raw, guests).name


def load(path: str, raw: bytes, guests: Iterable[Kind] = ()) -> object:
    """Read a file of any kind. Raises FormatError if it is none of these."""
    return _kind(path, raw, guests).read(path, raw)


def _kind(path: str, raw: bytes, guests: Iterable[Kind]) -> Kind:
    last = path.rpartition("/")[2]
    named = next((kind for kind in KINDS if kind.has_name(last)), None)
    try:
        document = parse(path, raw, size_limit=SIZE_LIMIT, value_limit=MANIFEST_VALUE_LIMIT)
    except FormatError as error:
        if named is not None:
            return named
        raise FormatError(path, error.field, f"{error.problem}; {_EXPECTED}") from None
    found = next((kind for kind in (*KINDS, *guests) if kind.has_content(document)), named)
    if found is None:
        raise FormatError(path, "", f"a JSON object of another kind; {_EXPECTED}")
    return found


_EXPECTED: Final = (
    f"expected a {PENDING_SUFFIX} file (it has uploadId and destinationKey), a {PENDINGSET_SUFFIX} file "
    f"(it has commits), {SUCCESS_FILE} (its name is {SUCCESS_NAME}), a task manifest (its type is "
    f"{TASK_MANIFEST_TYPE}), or a record of magicfs (its format is one such as {Manifest.FORMAT})"
)
