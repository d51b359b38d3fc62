"""Which of the persisted files this is: for those who have a path and its bytes, and want to look."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from magicfs.errors import FormatError
from magicfs.formats.document import parse
from magicfs.formats.pending import PENDING_SUFFIX, Pending
from magicfs.formats.pendingset import PENDINGSET_SIZE_LIMIT, PENDINGSET_SUFFIX, PendingSet
from magicfs.formats.success import SUCCESS_FILE, SUCCESS_NAME, SuccessData

__all__ = ["KINDS", "Kind", "detect", "load"]


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
    read: Callable[[str, bytes], Pending | PendingSet | SuccessData]


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
)


def detect(path: str, raw: bytes) -> str:
    """Name the kind of a file. What it contains is believed first, what it is called when that says nothing.

    Hadoop's staging committers give their pending sets no suffix, and reports have any name.

    Returns:
        ``pending``, ``pendingset`` or ``success``.

    Raises:
        FormatError: None of these.
    """
    return _kind(path, raw).name


def load(path: str, raw: bytes) -> Pending | PendingSet | SuccessData:
    """Read a file of any kind.

    Raises:
        FormatError: None of these, or it cannot be believed.
    """
    return _kind(path, raw).read(path, raw)


def _kind(path: str, raw: bytes) -> Kind:
    last = path.rpartition("/")[2]
    named = next((kind for kind in KINDS if kind.has_name(last)), None)
    try:
        document = parse(path, raw, size_limit=PENDINGSET_SIZE_LIMIT)
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
    f"(it has commits), or {SUCCESS_FILE} (its name is {SUCCESS_NAME})"
)
