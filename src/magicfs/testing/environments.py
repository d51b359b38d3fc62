"""Private virtual environments, one for each server, made once and kept.

A server's dependencies must not meet ours (ministack pins botocore, for one), so no test imports a
server: it is installed beside us and run as a process. Indexes, mirrors and certificates come from
pip's own configuration, which is left alone.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["EnvironmentNotMade", "ensure", "home"]

_COMPLETE = ".complete"
_TAIL_LINES = 25


class EnvironmentNotMade(RuntimeError):
    """A server's virtual environment could not be made. The message says what to install or to set."""


def home() -> Path:
    """Where the environments are kept: ``$MAGICFS_SERVERS_HOME``, else the user's cache directory."""
    if chosen := os.environ.get("MAGICFS_SERVERS_HOME"):
        return Path(chosen).expanduser().absolute()
    # The XDG specification tells programs to ignore a relative path.
    cache = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (cache if cache.is_absolute() else Path.home() / ".cache") / "magicfs" / "servers"


def ensure(name: str, requirements: tuple[str, ...]) -> Path:
    """Return a virtual environment in which ``requirements`` are installed by pip; make it if it is missing.

    Safe to call from many processes at once: one makes the environment, the others wait. The same
    name with other requirements or another Python is another environment. One that was left half
    made, or whose Python is gone, is made again.

    Raises:
        EnvironmentNotMade: No virtual environment could be created here, or pip failed.
    """
    directory = home() / f"{name}-{_fingerprint(requirements)}"
    if _is_complete(directory):
        return directory
    directory.parent.mkdir(parents=True, exist_ok=True)
    with _locked(directory.with_name(f"{directory.name}.lock")):
        if not _is_complete(directory):
            if directory.exists():
                shutil.rmtree(directory)
            _create(directory)
            _install(directory, requirements)
            (directory / _COMPLETE).write_text("\n".join(requirements) + "\n", encoding="utf-8")
    return directory


def _fingerprint(requirements: tuple[str, ...]) -> str:
    identity = json.dumps([requirements, platform.python_implementation(), platform.python_version()])
    return hashlib.sha256(identity.encode()).hexdigest()[:12]


def _is_complete(directory: Path) -> bool:
    # bin/python is a link to the Python that made it, which may have been uninstalled since.
    return (directory / _COMPLETE).is_file() and (directory / "bin" / "python").exists()


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    import fcntl  # servers are started on POSIX only

    # The file is never removed: a waiter would then hold a lock on a file that nobody else can see.
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _create(directory: Path) -> None:
    made = _run(sys.executable, "-m", "venv", str(directory))
    if made.returncode == 0:
        return
    if "ensurepip" not in made.stdout:
        raise EnvironmentNotMade(
            f"Could not create a virtual environment in {directory}; check that it is writable and has "
            f"free space, or set MAGICFS_SERVERS_HOME to another directory.\n{_tail(made.stdout)}"
        )
    # Debian ships Python without ensurepip unless python3-venv is installed.
    shutil.rmtree(directory, ignore_errors=True)
    if importlib.util.find_spec("virtualenv") is None:
        raise EnvironmentNotMade(
            f"{sys.executable} has no ensurepip, so it cannot create virtual environments. Install the "
            "system package python3-venv (Debian, Ubuntu), or run: python -m pip install virtualenv"
        )
    made = _run(sys.executable, "-m", "virtualenv", str(directory))
    if made.returncode != 0:
        raise EnvironmentNotMade(
            f"virtualenv could not create {directory}; install the system package python3-venv, or fix "
            f"what virtualenv reports.\n{_tail(made.stdout)}"
        )


def _install(directory: Path, requirements: tuple[str, ...]) -> None:
    # -I, because a PYTHONPATH meant for us would make pip count packages there as installed.
    pip = (str(directory / "bin" / "python"), "-I", "-m", "pip")
    installed = _run(*pip, "install", "--disable-pip-version-check", "--no-input", *requirements)
    if installed.returncode != 0:
        raise EnvironmentNotMade(
            f"pip could not install {' '.join(requirements)} into {directory}; check the network and "
            f"pip's configuration (pip config list), then run again.\n{_tail(installed.stdout)}"
        )


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603  the commands are our own
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )


def _tail(output: str) -> str:
    return "\n".join(output.splitlines()[-_TAIL_LINES:])
