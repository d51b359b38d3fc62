"""By what a file is told from every other one, and which visible files a job may delete.

Equal bytes have equal ETags, so an old file and a new one of the same name may look alike: versions and write
ids tell them apart. An ``overwrite`` deletes the old files of its listing, never one that it has published; a
revert deletes the job's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from magicfs.protocol.ids import TaskId


@dataclass(frozen=True, slots=True)
class CommittedFile:
    """A file that a task has committed."""

    task: TaskId
    key: str
    write_id: str | None  # None for an upload that Hadoop opened


def unpublished(
    committed: Iterable[CommittedFile], published: Mapping[str, str | None]
) -> list[CommittedFile]:
    """The committed files that are not among the published ones: keys, each with its write id.

    The same key with another write id is another attempt's file. Where one of the two is not known, the key
    has to do.
    """
    return [one for one in committed if not _is_published(one, published)]


def _is_published(one: CommittedFile, published: Mapping[str, str | None]) -> bool:
    if one.key not in published:
        return False
    there = published[one.key]
    return there is None or one.write_id is None or there == one.write_id


_BETWEEN = "\t"


def object_id(etag: str, version: str) -> str:
    """Both in one text; empty without an ETag, as of an answer that had none: a HEAD has to tell."""
    return f"{etag}{_BETWEEN}{version}" if etag and version else etag


def etag_and_version(text: str) -> tuple[str, str]:
    """The ETag, and the version; each is empty if it is not known."""
    etag, _, version = text.partition(_BETWEEN)
    return etag, version


class Purpose(Enum):
    """Why a job deletes a visible file."""

    REPLACE = "replace"
    """The file was there before the job, which replaces it."""
    TAKE_BACK = "take back"
    """The job has published the file, and is being reverted."""


def may_delete(purpose: Purpose, key: str, write_id: str | None, own: Mapping[str, str | None]) -> bool:
    """Whether a job may delete the file that lies at a key, if the store finds the expected ETag there too.

    ``write_id``: what that file bears; None if it bears none, or if nobody has looked. ``own``: the write ids
    of the files that the job publishes, by key; None for uploads without one, Hadoop's.
    """
    match purpose:
        case Purpose.REPLACE:
            return key not in own
        case Purpose.TAKE_BACK:
            return write_id is not None and own.get(key) == write_id
