"""The local files of one task of ``magicfs job``: found or made, then uploaded by one attempt."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from magicfs.errors import UsageError

if TYPE_CHECKING:
    from magicfs.job.task import Task

_STDERR: Final = 2
_AT_ONCE: Final = 8
"""Files that are uploaded at once, each with a part or two in memory."""


def from_command(task: Task, job: str, command: Sequence[str]) -> int:
    """Run a command that writes below ``$MAGICFS_OUTPUT``, upload what it wrote, and commit the task.

    Returns the command's exit status, negative if a signal ended it; unless it is 0, nothing was uploaded.
    What the command prints goes to stderr. Raises UsageError if there is no such command.
    """
    with _terminable(), tempfile.TemporaryDirectory(prefix="magicfs-task-") as directory:
        environment = {**os.environ, "MAGICFS_OUTPUT": directory, "MAGICFS_TASK": task.id, "MAGICFS_JOB": job}
        try:
            done = subprocess.run(command, env=environment, stdout=_STDERR, check=False)  # noqa: S603 - as asked
        except OSError as error:
            raise UsageError(f"{command[0]!a} cannot be run: {error}; nothing was changed") from error
        if done.returncode == 0:
            _upload(task, _below(Path(directory)))
        return done.returncode


def from_paths(task: Task, paths: Sequence[str]) -> None:
    """Upload files by their names, and what lies below directories by its relative names; commit the task.

    Raises UsageError if a path does not exist, two have one name, or a link lies below a directory.
    """
    files: dict[str, Path] = {}
    for path in map(Path, paths):
        if not path.exists():
            raise UsageError(f"{str(path)!a} does not exist; nothing was changed")
        found = _below(path) if path.is_dir() else {path.name: path}
        if both := sorted(files.keys() & found.keys()):
            raise UsageError(f"two of the paths hold a file {both[0]!a}; nothing was changed")
        files.update(found)
    with _terminable():
        _upload(task, files)


def _below(directory: Path) -> Mapping[str, Path]:
    """The files below a directory by relative names.

    Raises UsageError for a link or anything else that is no file: leaving it out would lose data, and a link
    may lead to what nobody meant to publish.
    """
    found: dict[str, Path] = {}
    for path in sorted(directory.rglob("*")):
        mode = path.lstat().st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            kind = "a symbolic link" if stat.S_ISLNK(mode) else "no file"
            raise UsageError(
                f"{str(path)!a} is {kind} and cannot be published; nothing was changed; replace it by a "
                "copy, or give its target as a PATH"
            )
        if stat.S_ISREG(mode):
            found[path.relative_to(directory).as_posix()] = path
    return found


def _upload(task: Task, files: Mapping[str, Path]) -> None:
    with task:
        names = [f"{task.path}/{name}" for name in files]
        if names:
            task.filesystem.put([str(path) for path in files.values()], names, batch_size=_AT_ONCE)


@contextmanager
def _terminable() -> Iterator[None]:
    """Let SIGTERM, by which schedulers stop tasks, leave as Ctrl-C does: with the attempt aborted."""

    def leave(number: int, _frame: object) -> NoReturn:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
