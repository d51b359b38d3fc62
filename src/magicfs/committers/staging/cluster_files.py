"""The files of one job in a filesystem of the cluster: where the staging committers keep pending sets there.

::

    DIR/<user>/<job>/staging-uploads/_temporary/<N>/_temporary/<attempt>/<task>.pendingset    an attempt's set
    DIR/<user>/<job>/staging-uploads/_temporary/<N>/_temporary/<attempt>/<task>               a copy of it
    DIR/<user>/<job>/staging-uploads/_temporary/<N>/<task>                                    a committed task

That is the layout of Hadoop's staging committers, which wrap its ``FileOutputCommitter``; only the attempt's
own set is not there, for its copy is all that they write.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from magicfs.formats.pendingset import PENDINGSET_SIZE_LIMIT
from magicfs.protocol.ids import AttemptId, TaskId
from magicfs.protocol.magic import PENDING_SET
from magicfs.protocol.temporary import TEMPORARY

__all__ = ["ClusterFiles", "ClusterLayout"]


@dataclass(frozen=True, slots=True)
class ClusterLayout:
    """The paths of one job below ``cluster_directory``."""

    user: str
    job: str

    @property
    def job_directory(self) -> str:
        """Everything that the job writes there lies under here."""
        return f"{self.user}/{self.job}"

    @property
    def uploads_directory(self) -> str:
        """Hadoop's ``Paths.getStagingUploadsParentDirectory``."""
        return f"{self.job_directory}/staging-uploads"

    @property
    def attempts_directory(self) -> str:
        """What holds the directories of all job attempts."""
        return f"{self.uploads_directory}/{TEMPORARY}"

    def attempt_directory(self, number: int | str) -> str:
        """A job attempt's directory (``FileOutputCommitter.getJobAttemptPath``)."""
        return f"{self.attempts_directory}/{number}"

    def work(self, number: int | str) -> str:
        """What holds the directories of a job attempt's task attempts."""
        return f"{self.attempt_directory(number)}/{TEMPORARY}"

    def committed(self, number: int, task: TaskId) -> str:
        """A committed task (``FileOutputCommitter.getCommittedTaskPath``)."""
        return f"{self.attempt_directory(number)}/{task}"

    def work_directory(self, number: int, attempt: AttemptId) -> str:
        """What one attempt writes (``FileOutputCommitter.getTaskAttemptPath``)."""
        return f"{self.work(number)}/{attempt}"

    def own_set(self, number: int, attempt: AttemptId, task: TaskId) -> str:
        """An attempt's set, which no other attempt replaces."""
        return f"{self.work_directory(number, attempt)}/{task}{PENDING_SET}"

    def copy(self, number: int, attempt: AttemptId, task: TaskId) -> str:
        """What an attempt renames to the committed task."""
        return f"{self.work_directory(number, attempt)}/{task}"


@dataclass(frozen=True, slots=True)
class ClusterFiles:
    """Files below a directory of any fsspec filesystem; every error is the filesystem's own."""

    fs: Any
    directory: str  # as the filesystem takes it

    def at(self, name: str) -> str:
        """A name as the filesystem takes it."""
        return f"{self.directory.rstrip('/')}/{name}"

    def is_there(self, name: str) -> bool:
        """Whether a file or directory is there; fsspec's own ``exists`` takes every error for a no."""
        try:
            self.fs.info(self.at(name))
        except FileNotFoundError:
            return False
        return True

    def read(self, name: str, size_max: int = PENDINGSET_SIZE_LIMIT + 1) -> bytes:
        """The content of a set, at most so many bytes."""
        raw: bytes = self.fs.cat_file(self.at(name), start=0, end=size_max)
        return raw

    def write(self, name: str, raw: bytes) -> None:
        """Write a file, in a directory that is there."""
        self.fs.pipe_file(self.at(name), raw)

    def move(self, name: str, to: str) -> None:
        """Rename a file."""
        self.fs.mv(self.at(name), self.at(to))

    def names(self, directory: str) -> list[str]:
        """The names in a directory, which need not be there."""
        self.fs.invalidate_cache()
        try:
            listed = self.fs.ls(self.at(directory), detail=False)
        except FileNotFoundError:
            return []
        return sorted(str(path).rstrip("/").rpartition("/")[2] for path in listed)

    def remove_empty(self, *directories: str) -> None:
        """Remove directories, each if it is there; the first that is not empty stays, and all after it."""
        for directory in directories:
            if self.names(directory):
                return  # not for rmdir to tell: pyarrow's filesystems delete what is in it, too
            if self.is_there(directory):
                self.fs.rmdir(self.at(directory))

    def remove(self, directory: str) -> None:
        """Remove a directory with all that is in it; one that is not there counts as removed."""
        self.fs.invalidate_cache()
        with suppress(FileNotFoundError):
            self.fs.rm(self.at(directory), recursive=True)
