"""What this room reads back: the files in a task's commit, the winners in ``_SUCCESS``, and names of files.

In names of Stocator's the attempt is the label (``part-00000-attempt_…``; section 3 of its paper, arXiv
1709.01812).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

from magicfs.errors import UsageError
from magicfs.formats.document import parse, render
from magicfs.formats.fields import Fields, check_format
from magicfs.formats.limits import within
from magicfs.formats.rows import SHOWN, Row
from magicfs.formats.success import SuccessData
from magicfs.protocol import ids
from magicfs.protocol.final_names import before_job
from magicfs.protocol.ids import AttemptId, JobId

FILE_LIST_FORMAT: Final = "magicfs.files/1"
FILE_LIST_SIZE_LIMIT: Final = 64 * 1024**2
WINNERS_FIELD: Final = "magicfs.winners"
_ATTEMPT = re.compile(r"(?:^|-)(?=attempt[-_])")
_UNFINISHED = re.compile(r"\.[0-9a-f]{16}-.*\.unfinished\Z", re.DOTALL)

ROWS: Final[Mapping[str, tuple[Row, ...]]] = {
    "winners": (Row("magicfs.winners.*.*", "names of attempts: chooses which files `stocator_files` reads"),),
    "file list": (
        Row("jobId", "the job that reads it", by="classic.final_files.files_of"),
        Row("taskId", "the task of the commit that carries it", by="classic.final_files.files_of"),
        Row("attemptId", "the attempt of the commit that carries it", by="classic.final_files.files_of"),
        Row("files[].key", "a key below the destination, without `.` and `..`"),
        Row("files[].size", SHOWN),
    ),
}
"""What each field is compared with before anything is done by its word."""


@dataclass(frozen=True, slots=True)
class FileList:
    """What an attempt wrote at the destination at once: names and sizes. Format ``magicfs.files/1``.

    It travels in the task's commit, packed, and is stored nowhere.
    """

    job_id: str
    task_id: str
    attempt_id: str
    files: tuple[tuple[str, int], ...] = ()  # key relative to the destination, and size in bytes, of each

    @property
    def size(self) -> int:
        """Size of all files in bytes."""
        return sum(size for _, size in self.files)

    @classmethod
    def from_bytes(cls, path: str, raw: bytes) -> FileList:
        """Read a list. A key twice, or one that leads out of the destination, is a FormatError."""
        fields = Fields(path, parse(path, raw, size_limit=FILE_LIST_SIZE_LIMIT))
        check_format(fields, FILE_LIST_FORMAT)
        files: dict[str, int] = {}
        for one in fields.objects("files"):
            key = one.required_text("key")
            if any(element in {"", ".", ".."} for element in key.split("/")):
                raise one.error("key", "an element that is empty, '.' or '..'")
            if key in files:
                raise one.error("key", "named twice")
            files[key] = one.required_integer("size", minimum=0)
        return cls(
            job_id=fields.required_text("jobId"),
            task_id=fields.required_text("taskId"),
            attempt_id=fields.required_text("attemptId"),
            files=tuple(files.items()),
        )

    def to_bytes(self) -> bytes:
        raw = render(
            {
                "format": FILE_LIST_FORMAT,
                "jobId": self.job_id,
                "taskId": self.task_id,
                "attemptId": self.attempt_id,
                "files": [{"key": key, "size": size} for key, size in self.files],
            }
        )
        return within(
            raw,
            FILE_LIST_SIZE_LIMIT,
            f"the list of {len(self.files):,} files of task {self.task_id}",
            "write fewer or larger files in each task",
        )


@dataclass(frozen=True, slots=True)
class Winners:
    """The attempts whose files count, as the stocator committer lists them in ``_SUCCESS``. A value.

    A field in addition to those of ``SuccessData``, which Hadoop's readers skip::

        "magicfs.winners": {"<job>": {"<attempt>": <number of its files>, …}, …}

    All attempts of all jobs whose files are part of the dataset, in the order in which they were published.
    """

    jobs: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # number of files by attempt, by job

    @classmethod
    def of(cls, path: str, success: SuccessData) -> Winners | None:
        """What a ``_SUCCESS`` lists; None if it lists nothing, for another committer wrote it."""
        fields = Fields(path, dict(success.unknown))
        if not fields.has(WINNERS_FIELD):
            return None
        jobs = {}
        for job, attempts in fields.object_map(WINNERS_FIELD):
            names = attempts.rest()
            for name in names:
                attempts.required_integer(name, minimum=0)
            try:
                ids.job_id(job)
                for name in names:
                    ids.task_of_attempt(ids.check_attempt(name))
            except UsageError as error:
                raise fields.error(WINNERS_FIELD, str(error)) from None
            jobs[job] = {name: attempts.integer(name) for name in names}
        return cls(jobs)

    def added(self, job: str, attempts: Mapping[str, int]) -> Winners:
        """The same with one more job, or with other attempts of a job."""
        return Winners({name: one for name, one in self.jobs.items() if name != job} | {job: attempts})

    def written_into(self, success: SuccessData) -> SuccessData:
        """A ``_SUCCESS`` that lists them."""
        return replace(success, unknown={**success.unknown, WINNERS_FIELD: self.jobs})


def attempts_named(name: str, job: JobId) -> Iterator[AttemptId]:
    """The attempts that a file of the job may be of, by the last element of its key.

    One, unless writers use such words themselves.
    """
    head = before_job(name, job) or ""
    for at in _ATTEMPT.finditer(head):
        with suppress(UsageError):
            ids.task_of_attempt(attempt := ids.check_attempt(head[at.end() :]))
            yield attempt


def unfinished_name(random: str, label: str, job: JobId) -> str:
    """A hidden name for a file that is being written and will be renamed.

    ``random``: 16 hexadecimal digits. ``label``: as for ``unique_name``.
    """
    return f".{random}-{label}-{job}.unfinished"


def is_unfinished(name: str) -> bool:
    """Whether the last element of a key is an ``unfinished_name``."""
    return _UNFINISHED.match(name) is not None
