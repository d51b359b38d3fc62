"""Where a task attempt writes: a path, a filesystem for it, and a URL for those who take only that."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fsspec.spec import AbstractFileSystem

    from magicfs.protocol.ids import AttemptId, TaskId
    from magicfs.transaction.context import JobContext


@dataclass(frozen=True, slots=True)
class WorkPlace:
    """A directory whose relative paths become the destination's."""

    path: str  # without a scheme, as ``filesystem`` takes it
    prefix: str  # what stands before ``path`` in a URL, such as ``magic+s3://``
    filesystem: Callable[[], AbstractFileSystem]  # the same for all attempts of a process where it can be
    storage_options: dict[str, Any] | None  # what fsspec needs beside the URL; None if no URL leads here
    prepare: Callable[[], None] = lambda: None  # makes the directory, if it must be there before a write

    is_local: bool = False  # whether its URLs are of files, which programs open that make no directories

    def url(self, name: str = "") -> str:
        """What leads to a file of a relative name, or to the directory, which is made on this machine."""
        if self.is_local and name and ".." not in name.split("/"):
            Path(self.path, name).parent.mkdir(parents=True, exist_ok=True)
        # Every program takes a path, and pandas writes no CSV to a URL of a file.
        prefix = "" if self.is_local and not self.storage_options else self.prefix
        return f"{prefix}{self.path}" + (f"/{name}" if name else "")


MakesPlace = Callable[[str, "AbstractFileSystem", "JobContext", "TaskId", "AttemptId"], WorkPlace]
"""Makes the place of a task attempt. It is given the path of the destination in the store's filesystem."""


def local_directory(work_directory: str | None, job: str, attempt: str) -> str:
    """Where an attempt of a staging committer writes on its machine.

    One directory for each attempt, whose name no other job has: two attempts on one machine do not meet.
    """
    parent = Path(work_directory) if work_directory else _own_directory()
    return str(parent.absolute() / f"{job}-{attempt}")


def _own_directory() -> Path:
    """This user's directory among those that all users of a machine share."""
    user = f"-{os.geteuid()}" if hasattr(os, "geteuid") else ""
    return Path(tempfile.gettempdir()) / f"magicfs{user}"


def local_extra(directory: str, number: int) -> str:
    """Where in it an attempt writes for one of the job's extra destinations, by its number from 0."""
    return f"{directory}/__to={number}"


def make_attempt_directory(key: str) -> None:
    """Make the directory of a task attempt on this machine, for programs that make none.

    If the job has ended, its directory is gone, and none is made. Raises StoreError if it cannot be made.
    """
    from magicfs.stores.local import errors as local_errors
    from magicfs.stores.local import places as local_places

    job_attempt, tasks, attempt = key.rsplit("/", 2)
    with local_errors.translated("make_directory", f"/{key}"), suppress(FileNotFoundError):
        local_places.make_below(Path("/"), job_attempt, (tasks, attempt))


def local_filesystem() -> AbstractFileSystem:
    """The files of this machine; directories come into being with what is written in them."""
    from fsspec.implementations.local import LocalFileSystem

    return LocalFileSystem(auto_mkdir=True)
