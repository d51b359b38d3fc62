"""The manifest of a committed task: which files go where. Hadoop's ``TaskManifest``.

Version 1. Paths are URIs, percent-encoded as ``formats.hadoop_uri`` says. They are not checked here:
``transaction.task_manifests``, which knows the job, does that.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from functools import partial
from typing import Final

from magicfs.errors import UsageError
from magicfs.formats.document import parse, render_indented, shown
from magicfs.formats.fields import Fields
from magicfs.formats.limits import TASK_MANIFEST_SIZE_LIMIT, within
from magicfs.formats.record import (
    COUNT,
    TEXT,
    Record,
    each,
    first_twice,
    member,
    record,
    short_record,
)
from magicfs.formats.statistics import Statistics

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


@short_record
class FileEntry(Record):
    """A file to be renamed."""

    source: str = member(TEXT, key="s")  # URI of what the attempt wrote
    destination: str = member(TEXT, key="d")  # URI of what it becomes
    size: int = member(COUNT, key="z")  # in bytes
    etag: str | None = member(Fields.nullable_text, default=None, key="e", rare=True)
    """As the store gave it; None where it gives none."""


_NUMBER: Final = partial(Fields.integer, minimum=0)


@short_record
class DirectoryEntry(Record):
    """A directory that has to be there before files are renamed into it."""

    path: str = member(TEXT, key="d")  # URI of the directory
    status: int = member(_NUMBER, key="t")  # number of an ``EntryStatus``, kept as it was written
    level: int = member(_NUMBER, key="l")  # how deep below the destination, from 1


def _files(fields: Fields, key: str) -> tuple[FileEntry, ...]:
    files = tuple(FileEntry.from_fields(one) for one in fields.objects(key))
    if (twice := first_twice(file.destination for file in files)) is not None:
        first, second = twice
        raise fields.error(
            f"{key}[{second}].d",
            f"Destination {files[second].destination!a} is written to by more than one file, by "
            f"{key}[{first}] too",
        )
    return files


@record
class TaskManifest(Record):
    """What a task attempt persists so that the job can publish it. A value, as ``Pending`` is."""

    extra_data: Mapping[str, str] = member(Fields.text_map, default_factory=dict)
    """Whatever its writer wants to keep."""
    job_id: str = member(Fields.text)
    job_attempt: int = member(_NUMBER, default=0, key="jobAttemptNumber")
    task_id: str = member(Fields.text, key="taskID")
    attempt_id: str = member(Fields.text, key="taskAttemptID")  # that was committed
    attempt_directory: str = member(Fields.text, key="taskAttemptDir")  # URI of what it wrote in
    files: tuple[FileEntry, ...] = member(_files, default=(), required=True)
    """No two have the same destination; empty for a task that wrote nothing."""
    directories: tuple[DirectoryEntry, ...] = member(each(DirectoryEntry), default=())
    """Those below the destination that the files need, parents before children."""
    statistics: Statistics = member(Statistics.at, default_factory=Statistics, key="iostatistics")
    """What the task counted."""

    def __post_init__(self) -> None:
        if (twice := first_twice(file.destination for file in self.files)) is not None:
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
    def check(cls, fields: Fields) -> None:
        """Raise FormatError for another format. One without ``type`` or ``version`` passes, as in Hadoop."""
        if fields.has("type") and (found := fields.text("type")) != TASK_MANIFEST_TYPE:
            raise fields.error("type", f"Wrong type: {shown(found)}")
        fields.version(TASK_MANIFEST_VERSION)

    def to_bytes(self) -> bytes:
        """The whole file, fields in the order in which Hadoop emits them."""
        known = Record.to_document(self)
        head = {"extraData": known.pop("extraData"), "type": TASK_MANIFEST_TYPE}
        raw = render_indented({**head, "version": TASK_MANIFEST_VERSION, **known})
        what = f"the manifest of {len(self.files):,} files of task {self.task_id}"
        advice = "write fewer or larger files in each task"
        return within(raw, TASK_MANIFEST_SIZE_LIMIT, what, advice)
