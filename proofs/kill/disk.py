"""A directory of this machine in place of a server: what lies there, and what a job did when it was cut.

There is no proxy between a process and a disk: every change is held up in the process itself, and what the
process was doing is told by what lies on the disk once it is dead.
"""

from __future__ import annotations

import functools
import json
import os
import re
import tempfile
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Final, Self

from proofs.doubles.bucket_view import is_hidden
from proofs.kill.phases import Phase, newest_version

__all__ = ["PAUSE_S", "PAUSE_VARIABLE", "REQUIRED_ON_DISK", "Disk", "DiskWatch", "hold_up_changes"]

PAUSE_VARIABLE: Final = "MAGICFS_PROOF_PAUSE_S"
"""Tells a process how long each change to a disk takes, in seconds."""

REQUIRED_ON_DISK: Final = (Phase.OPEN, Phase.TASK_COMMIT, Phase.COMPLETE, Phase.DELETE, Phase.CLEANUP)
"""The phases that can be told by what lies on a disk, and that a job cannot do without."""

PAUSE_S: Final = 0.008
"""How long a change is held up, so that each stretch of a job lasts; a rename, by which files become visible,
is held up longer."""

_CHANGES: Final[Mapping[str, int]] = {
    "rename": 4,
    "replace": 1,
    "link": 1,
    "unlink": 2,
    "mkdir": 1,
    "rmdir": 1,
}
_JOB: Final = re.compile(r"__magic_job-([^/]+)/")
_TEMPORARY: Final = re.compile(r"/\.magicfs-[^/]*\.tmp$")
_UPLOAD: Final = re.compile(r".*/\.magicfs-uploads/[^/]+/")
_OF_STATES: Final[Mapping[str, Phase]] = {
    "prepared": Phase.FACTS,
    "committing": Phase.COMPLETE,
    "aborting": Phase.CLEANUP,
    "reverting": Phase.CLEANUP,
}


class Disk:
    """An empty directory, asked as a server is; it is gone when the context ends.

    Attributes:
        scheme: Of the URLs of what lies there.
    """

    scheme: ClassVar[str] = "file"

    def __enter__(self) -> Self:
        self._directory = tempfile.TemporaryDirectory(prefix="magicfs-kill-disk-")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._directory.cleanup()

    def create_bucket(self, name: str) -> str:
        """Make a directory, and return its path."""
        made = Path(self._directory.name, name)
        made.mkdir()
        return str(made)

    def storage_options(self) -> dict[str, Any]:
        """None are needed."""
        return {}

    def all_keys(self, bucket: str, prefix: str = "") -> list[str]:
        """Every file whose path begins with ``prefix``, and every empty directory that readers skip."""
        found = self._all(bucket, prefix)
        return [key for key in found if not _is_residue(key, found)]

    def residue(self, bucket: str) -> list[str]:
        """What the store leaves where a process dies within one of its steps, as docs/stores.md says."""
        found = self._all(bucket, "")
        return [key for key in found if _is_residue(key, found)]

    def _all(self, bucket: str, prefix: str) -> list[str]:
        # From the last directory that the prefix names whole: others' are not looked through.
        top = Path(bucket, prefix.rpartition("/")[0])
        found: list[str] = []
        for directory, below, files in os.walk(top):
            relative = Path(directory).relative_to(bucket).as_posix()
            found += [f"{relative}/{name}" for name in files]
            if not below and not files and any(map(is_hidden, relative.split("/"))):
                found.append(f"{relative}/")
        return sorted(key for key in found if key.startswith(prefix))

    def visible_keys(self, bucket: str, prefix: str = "") -> list[str]:
        """As ``BucketView.visible_keys``."""
        keys = self.all_keys(bucket, prefix)
        return [key for key in keys if not any(map(is_hidden, key[len(prefix) :].split("/")))]

    def uploads(self, bucket: str, prefix: str = "") -> set[tuple[str, str]]:
        """Keys and ids of delayed uploads: a job of renames has none, whatever it was doing."""
        found = (key for key in self.all_keys(bucket, prefix) if "/.magicfs-uploads/" in key)
        return {(key, key.rpartition("/")[2]) for key in found}

    def read(self, bucket: str, key: str) -> bytes | None:
        """What a file holds; None if there is none."""
        try:
            return Path(bucket, key).read_bytes()
        except FileNotFoundError:
            return None


class DiskWatch:
    """One destination on a disk while a job runs there; used as ``WatchingProxy`` is.

    Args:
        disk: Where it lies.
        bucket: The directory of all destinations.
        destination: Its name there.
        slow: Whether the processes that are given ``endpoint`` are held up.
    """

    def __init__(self, disk: Disk, bucket: str, destination: str, *, slow: bool) -> None:
        self._disk = disk
        self._bucket = bucket
        self._destination = destination
        self._job: str | None = None
        self._success: bytes | None = None
        self._pointer: bytes | None = None
        self.endpoint = str(PAUSE_S if slow else 0)

    def __enter__(self) -> Self:
        self._success = self._read("_SUCCESS")
        self._pointer = self._read("_magicfs/current.json")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def phase(self, roles: Collection[str]) -> Phase:  # noqa: ARG002 - nobody's name is on a disk
        """What a job was doing that was cut a moment ago."""
        names = self._names()
        job = next((found[1] for name in names if (found := _JOB.match(name))), None)
        self._job = job or self._job
        state = self._state(names)
        if state is None:
            published = self.has_published()
            return Phase.CLEANUP if published else Phase.SETUP if job else Phase.START
        if state == "open":
            return _of_tasks(names)
        if state == "completed":
            return self._of_the_end()
        return _OF_STATES[state]

    def has_published(self) -> bool:
        """Whether ``_SUCCESS`` is another than when the job began: it is written when all else is visible."""
        return self._read("_SUCCESS") not in (None, self._success)

    def job(self) -> str | None:
        """The id of the job, if anything that bears it was there when the job was cut."""
        return self._job

    def settle(self, seconds: float, roles: Collection[str] | None = None) -> bool:  # noqa: ARG002
        """Nothing is on its way to a disk when its sender is dead."""
        return True

    def history(self, key: str) -> list[str]:  # noqa: ARG002
        """A disk remembers no requests."""
        return []

    def _of_the_end(self) -> Phase:
        if self.has_published():
            return Phase.CLEANUP
        return Phase.MANIFEST if self._read("_magicfs/current.json") == self._pointer else Phase.DELETE

    def _state(self, names: list[str]) -> str | None:
        key = next((name for name in names if _JOB.match(name) and name.endswith("/job.json")), None)
        body = None if key is None else self._read(newest_version(key, names))
        return None if body is None else str(json.loads(body)["state"])

    def _names(self) -> list[str]:
        beginning = f"{self._destination}/"
        return [key[len(beginning) :] for key in self._disk.all_keys(self._bucket, beginning)]

    def _read(self, name: str) -> bytes | None:
        return self._disk.read(self._bucket, f"{self._destination}/{name}")


def _is_residue(key: str, found: Collection[str]) -> bool:
    """Whether nobody can take it for anything: a directory that went empty, a file that was being written, an
    upload that was being opened, or of which the data is gone.
    """
    if key.endswith("/") or _TEMPORARY.search(key):
        return True
    upload = _UPLOAD.match(key)
    return upload is not None and (upload[0].endswith(".new/") or f"{upload[0]}data" not in found)


def _of_tasks(names: Collection[str]) -> Phase:
    work = [name for name in names if name.startswith("_temporary/") and not name.endswith("/")]
    if any("/manifests/" in name for name in work):
        return Phase.TASK_COMMIT
    return Phase.OPEN if work else Phase.SETUP


def hold_up_changes(seconds: float) -> None:
    """Let this process, and those that it forks, wait before every change to a disk."""
    if seconds:
        for name, times in _CHANGES.items():
            setattr(os, name, _later(getattr(os, name), seconds * times))


def _later(change: Callable[..., Any], seconds: float) -> Callable[..., Any]:
    @functools.wraps(change)
    def held_up(*arguments: Any, **options: Any) -> Any:
        time.sleep(seconds)
        return change(*arguments, **options)

    return held_up
