"""The directory of one task attempt on this machine: made, locked while the attempt lives, removed.

Beside ``<job>-<attempt>/`` lies ``<job>-<attempt>.lock``, on which the process that runs the attempt holds a
lock (``flock``). The kernel lets go of it when the process ends, however it ends: an attempt whose lock can
be taken is dead, and only then does anybody else on its machine remove its directory. Process ids would not
prove that, for they are given again; and other machines that share the directory may not share its locks.
Only POSIX has such locks: elsewhere ``StagingOptions`` refuses the job.

A directory is renamed before it is emptied, so that whoever lists it meanwhile sees all of it or nothing.
"""

from __future__ import annotations

import atexit
import json
import os
import platform
import shutil
import stat
import time
from contextlib import suppress
from pathlib import Path

from magicfs.committers.work_places import local_directory
from magicfs.errors import ProtocolViolation, UsageError
from magicfs.runtime import process_end

_LOCK = ".lock"
_ENDED = ".ended"
_LOCK_SIZE_MAX = 4096
_TRIES = 100
_PAUSE_S = 0.02

_locks: dict[str, int] = {}
"""File descriptors of the locks that this process holds, by directory."""


def _forget_after_fork() -> None:
    # The parent's attempts are not the child's: a child that lives on must not keep them alive.
    for descriptor in _locks.values():
        os.close(descriptor)
    _locks.clear()


def _remove_at_exit() -> None:
    # Attempts that were neither committed nor aborted end with their process.
    for directory in list(_locks):
        with suppress(OSError):
            _remove(directory)


process_end.after_fork_in_child(_forget_after_fork)
atexit.register(_remove_at_exit)


def begin(work_directory: str | None, job: str, attempt: str) -> None:
    """Make the directory of an attempt, empty, for this user alone, and hold its lock.

    Leftovers of dead attempts of the same job on this machine are removed first. ``work_directory`` holds the
    directories of all attempts; None is the default one. Raises ProtocolViolation if the attempt is being run
    on this machine already, UsageError if the directory cannot be made.
    """
    directory = local_directory(work_directory, job, attempt)
    try:
        _make_parent(work_directory, Path(directory).parent)
        remove_dead(work_directory, job)
        descriptor = _lock(f"{directory}{_LOCK}")
        if descriptor is None:
            raise ProtocolViolation(f"attempt {attempt} of job {job} is already running on this machine")
        _locks[directory] = descriptor
        try:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, json.dumps(_owner(job) | {"pid": os.getpid()}).encode(), 0)
            _discard(directory)  # of a process that died with an attempt of the same name
            Path(directory).mkdir(mode=0o700)
        except OSError:
            with suppress(OSError):
                _remove(directory)
            raise
    except OSError as error:
        raise UsageError(
            f"the attempt's local directory {directory} cannot be created: {error}; free space there, or "
            "choose another by options={'work_directory': …}"
        ) from error


def is_own(directory: str) -> bool:
    """Whether an attempt's directory is there. Raises OSError if it is no directory, or not this user's."""
    try:
        found = Path(directory).lstat()
    except FileNotFoundError:
        return False
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise PermissionError(f"{directory} does not belong to this user: somebody else created it")
    return True


def remove(work_directory: str | None, job: str, attempt: str) -> None:
    """Remove the directory of an attempt, whoever runs it, and its lock. A second call does nothing."""
    _remove(local_directory(work_directory, job, attempt))


def _remove(directory: str) -> None:
    _discard(directory)
    with suppress(FileNotFoundError):
        Path(f"{directory}{_LOCK}").unlink()
    if (descriptor := _locks.pop(directory, None)) is not None:
        os.close(descriptor)


def remove_dead(work_directory: str | None, job: str) -> list[OSError]:
    """Remove what attempts of a job have left on this machine whose processes are dead.

    It returns what could not be removed; the next call tries again.
    """
    parent = Path(local_directory(work_directory, job, "")).parent
    problems: list[OSError] = []
    try:
        names = sorted(path.name for path in parent.iterdir())
    except OSError:
        return problems
    for name in names:
        if name.startswith(f"{job}-") and name.endswith(_LOCK):
            try:
                _remove_if_dead(str(parent / name.removesuffix(_LOCK)), job)
            except OSError as error:
                problems.append(error)
    return problems


def _make_parent(work_directory: str | None, parent: Path) -> None:
    if work_directory is not None:
        parent.mkdir(parents=True, exist_ok=True)
        return
    with suppress(FileExistsError):
        parent.mkdir(mode=0o700)
    if is_own(str(parent)):  # raises for somebody else's, in a directory where everybody may make one
        parent.chmod(0o700)


def _lock(path: str) -> int | None:
    """Create and lock a file; None if a living process holds it. A cleaner may hold it for a moment."""
    import fcntl

    for attempt in range(_TRIES):
        if attempt:
            time.sleep(_PAUSE_S)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(descriptor, path):
                return descriptor
        except BlockingIOError:
            pass
        except OSError:
            os.close(descriptor)
            raise
        os.close(descriptor)
    return None


def _remove_if_dead(directory: str, job: str) -> None:
    import fcntl

    lock = f"{directory}{_LOCK}"
    try:
        descriptor = os.open(lock, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError):
        return  # removed meanwhile, or another user's
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # An empty lock is one that is being made. A name alone proves nothing: job "a" is not job "a-b".
        if _is_own_lock(descriptor, lock) and _is_of(os.pread(descriptor, _LOCK_SIZE_MAX, 0), job):
            _discard(directory)
            Path(lock).unlink()
    except BlockingIOError:
        return  # its process is alive
    finally:
        os.close(descriptor)


def _is_own_lock(descriptor: int, path: str) -> bool:
    """Whether an open file is still the one of that name, plain, and this user's."""
    found = os.fstat(descriptor)
    return stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and _is_at(descriptor, path)


def _is_at(descriptor: int, path: str) -> bool:
    """Whether an open file is still the one of that name."""
    try:
        return os.path.samestat(os.fstat(descriptor), Path(path).lstat())
    except FileNotFoundError:
        return False


def _owner(job: str) -> dict[str, object]:
    return {"job": job, "host": platform.node()}


def _is_of(raw: bytes, job: str) -> bool:
    """Whether a lock says that its attempt is one of the job's, on this machine."""
    try:
        found = json.loads(raw)
    except ValueError:
        return False
    return isinstance(found, dict) and found.items() >= _owner(job).items()


def _discard(directory: str) -> None:
    ended = f"{directory}{_ENDED}"
    _remove_tree(ended)
    with suppress(FileNotFoundError):
        Path(directory).rename(ended)
        _remove_tree(ended)


def _remove_tree(path: str) -> None:
    try:
        if stat.S_ISDIR(Path(path).lstat().st_mode):
            shutil.rmtree(path)
        else:
            Path(path).unlink()
    except FileNotFoundError:
        return
