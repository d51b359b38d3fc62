"""The manifest of a committed task: which files go where. Hadoop's ``TaskManifest``.

Version 1. Paths are URIs, percent-encoded as ``formats.hadoop_uri`` says. They are not checked here:
``transaction.task_manifests``, which knows the job, does that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from magicfs.errors import UsageError
from magicfs.formats.document import parse, render_indented, shown, with_unknown
from magicfs.formats.fields import Fields
from magicfs.formats.limits import TASK_MANIFEST_SIZE_LIMIT, within
from magicfs.formats.statistics import Statistics

__all__ = [
    "TASK_MANIFEST_SIZE_LIMIT",
    "TASK_MANIFEST_SUFFIX",
    "TASK_MANIFEST_TYPE",
    "TASK_MANIFEST_VERSION",
    "DirectoryEntry",
    "EntryStatus",
    "FileEntry",
    "TaskManifest",
]

TASK_MANIFEST_VERSION: Final = 1
TASK_MANIFEST_TYPE: Final = "org.apache.hadoop.mapreduce.lib.output.committer.manifest.files.TaskManifest/1"
TASK_MANIFEST_SUFFIX: Final = "-manifest.json"


class EntryStatus(IntEnum):
    """What lay at the path of a directory when the task committed; its number is written."""

    UNKNOWN = 0
    NOT_FOUND = 1
    FILE = 2
    DIR = 3
    CREATED_DIR = 4

    @classmethod
    def of(cls, number: int) -> EntryStatus:
        """The status of a number; of one that Hadoop does not know, ``UNKNOWN``."""
        return cls(number) if number <= cls.CREATED_DIR else cls.UNKNOWN


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file to be renamed."""

    source: str  # URI of what the attempt wrote
    destination: str  # URI of what it becomes
    size: int  # in bytes
    etag: str | None = None  # as the store gave it; None where it gives none
    unknown: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def from_fields(cls, fields: Fields) -> FileEntry:
        return cls(
            source=fields.required_text("s"),
            destination=fields.required_text("d"),
            size=fields.required_integer("z", minimum=0),
            etag=fields.nullable_text("e"),
            unknown=fields.rest(),
        )

    def to_document(self) -> dict[str, object]:
        """The entry, its ETag left out where there is none."""
        document: dict[str, object] = {"s": self.source, "d": self.destination, "z": self.size}
        if self.etag is not None:
            document["e"] = self.etag
        return with_unknown(document, self.unknown)


@dataclass(frozen=True, slots=True)
class DirectoryEntry:
    """A directory that has to be there before files are renamed into it."""

    path: str  # URI of the directory
    status: int  # number of an ``EntryStatus``, kept as it was written
    level: int  # how deep below the destination, from 1
    unknown: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def from_fields(cls, fields: Fields) -> DirectoryEntry:
        return cls(
            path=fields.required_text("d"),
            status=fields.integer("t", minimum=0),
            level=fields.integer("l", minimum=0),
            unknown=fields.rest(),
        )

    def to_document(self) -> dict[str, object]:
        return with_unknown({"d": self.path, "t": self.status, "l": self.level}, self.unknown)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskManifest:
    """What a task attempt persists so that the job can publish it. A value, as ``Pending`` is."""

    job_id: str
    job_attempt: int = 0
    task_id: str
    attempt_id: str  # that was committed
    attempt_directory: str  # URI of what it wrote in
    files: tuple[FileEntry, ...] = ()  # no two have the same destination; empty for a task that wrote nothing
    directories: tuple[DirectoryEntry, ...] = ()
    """Those below the destination that the files need, parents before children."""
    statistics: Statistics = field(default_factory=Statistics)  # what the task counted
    extra_data: Mapping[str, str] = field(default_factory=dict)  # whatever its writer wants to keep
    unknown: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if (twice := _written_twice(self.files)) is not None:
            raise UsageError(
                f"Destination {self.files[twice[1]].destination!a} is written to by more than one file of "
                f"task {self.task_id}; keep one of them"
            )

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)

    @classmethod
    def from_bytes(cls, path: str, raw: bytes, *, size_limit: int = TASK_MANIFEST_SIZE_LIMIT) -> TaskManifest:
        return cls.from_fields(Fields(path, parse(path, raw, size_limit=size_limit)))

    @classmethod
    def from_fields(cls, fields: Fields) -> TaskManifest:
        """Read the JSON object. A manifest without ``type`` or ``version`` is accepted, as by Hadoop."""
        if fields.has("type") and (found := fields.text("type")) != TASK_MANIFEST_TYPE:
            raise fields.error("type", f"Wrong type: {shown(found)}")
        fields.version(TASK_MANIFEST_VERSION)
        files = tuple(FileEntry.from_fields(child) for child in fields.objects("files"))
        if (twice := _written_twice(files)) is not None:
            first, second = twice
            raise fields.error(
                f"files[{second}].d",
                f"Destination {files[second].destination!a} is written to by more than one file, by "
                f"files[{first}] too",
            )
        directories = fields.optional_objects("directories")
        return cls(
            job_id=fields.text("jobId"),
            job_attempt=fields.integer("jobAttemptNumber", minimum=0),
            task_id=fields.text("taskID"),
            attempt_id=fields.text("taskAttemptID"),
            attempt_directory=fields.text("taskAttemptDir"),
            files=files,
            directories=tuple(DirectoryEntry.from_fields(child) for child in directories),
            statistics=Statistics.from_fields(fields.child("iostatistics")),
            extra_data=fields.text_map("extraData"),
            unknown=fields.rest(),
        )

    def to_bytes(self) -> bytes:
        """The whole file, fields in the order in which Hadoop emits them."""
        document: dict[str, object] = {
            "extraData": self.extra_data,
            "type": TASK_MANIFEST_TYPE,
            "version": TASK_MANIFEST_VERSION,
            "jobId": self.job_id,
            "jobAttemptNumber": self.job_attempt,
            "taskID": self.task_id,
            "taskAttemptID": self.attempt_id,
            "taskAttemptDir": self.attempt_directory,
            "files": [file.to_document() for file in self.files],
            "directories": [directory.to_document() for directory in self.directories],
            "iostatistics": self.statistics.to_document(),
        }
        raw = render_indented(with_unknown(document, self.unknown))
        what = f"the manifest of {len(self.files):,} files of task {self.task_id}"
        advice = "write fewer or larger files in each task"
        return within(raw, TASK_MANIFEST_SIZE_LIMIT, what, advice)


def _written_twice(files: tuple[FileEntry, ...]) -> tuple[int, int] | None:
    """The places of the first two files with one destination."""
    places: dict[str, int] = {}
    for place, file in enumerate(files):
        first = places.setdefault(file.destination, place)
        if first != place:
            return first, place
    return None
