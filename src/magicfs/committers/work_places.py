"""Where a task attempt writes: a path, a filesystem for it, and a URL for those who take only that."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fsspec.implementations.local import LocalFileSystem
from fsspec.spec import AbstractFileSystem

__all__ = ["WorkPlace", "local_directory", "local_extra", "local_filesystem"]


@dataclass(frozen=True, slots=True)
class WorkPlace:
    """A directory whose relative paths become the destination's.

    Attributes:
        path: Without a scheme, as ``filesystem`` takes it.
        prefix: What stands before ``path`` in a URL, such as ``magic::s3://``.
        filesystem: Makes the filesystem; the same instance for all attempts of a process where it can be.
        storage_options: What fsspec needs beside the URL; None if no URL leads here.
        prepare: Makes the directory, where it must be there before somebody writes.
    """

    path: str
    prefix: str
    filesystem: Callable[[], AbstractFileSystem]
    storage_options: dict[str, Any] | None
    prepare: Callable[[], None] = lambda: None

    def url(self, name: str = "") -> str:
        """The URL of a file of a relative name, or of the directory."""
        return f"{self.prefix}{self.path}" + (f"/{name}" if name else "")


def local_directory(work_directory: str | None, job: str, attempt: str) -> str:
    """Where an attempt of a staging committer writes on its machine.

    One directory for each attempt, whose name no other job has: two attempts on one machine do not meet.
    """
    parent = Path(work_directory) if work_directory else Path(tempfile.gettempdir()) / "magicfs"
    return str(parent.absolute() / f"{job}-{attempt}")


def local_extra(directory: str, number: int) -> str:
    """Where in it an attempt writes for one of the job's extra destinations, by its number from 0."""
    return f"{directory}/__to={number}"


def local_filesystem() -> AbstractFileSystem:
    """The files of this machine; directories come into being with what is written in them."""
    return LocalFileSystem(auto_mkdir=True)
