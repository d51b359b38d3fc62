"""A dataset of local files with an ended job, a dead job and open uploads, and what is laid in its places."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import re
import shutil
import socket
import stat
import tempfile
import threading
import time
import traceback
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final
from unittest import mock

import magicfs
from magicfs.cli import main as cli
from magicfs.errors import MagicError, StoreError
from magicfs.stores.local.store import LocalStore
from proofs.scenes.arranged import arranged

__all__ = [
    "CANARY",
    "CHANGING",
    "KINDS",
    "READING",
    "STRANGER",
    "UPLOAD",
    "Command",
    "Kind",
    "World",
    "command_line",
    "dies_when_it_publishes",
    "lay",
    "leaks",
    "outside_of",
    "places",
    "problem_of",
    "snapshot",
    "world",
    "write",
]

CANARY: Final = b"CANARY-of-a-private-file"
_QUICK_S: Final = 10.0
"""Most seconds of one command; none takes half a second."""
STRANGER: Final = 65534
_ID = re.compile(
    r"[0-9a-f]{8}-[0-9a-f-]{27}|attempt-[0-9a-f-]+|\d\.\d\.[0-9a-f.-]+|[0-9a-f]{16}|[0-9a-f]{12}"
)
_RAM: Final = Path("/dev/shm")  # noqa: S108 - only faster: a directory of our own is made in it
UPLOAD: Final = "1.1.aa-bb.0123456789abcdef"

Kind = str
KINDS: Final = (
    "moved away and linked",
    "link to a private file",
    "link to a private directory",
    "link to itself",
    "named pipe",
    "socket",
    "directory",
    "somebody else's",
)


@dataclass(frozen=True)
class World:
    """A dataset of local files below a directory that others can write to, and what lies around it."""

    base: Path
    url: str
    dead: str  # the job that stands half-way

    @property
    def destination(self) -> Path:
        """The directory of the dataset."""
        return self.base / "team" / "sales"

    @property
    def private(self) -> Path:
        """What nobody else may read, change or delete."""
        return self.base / "private"


# -- building ------------------------------------------------------------------------------------------------


def write(task: magicfs.Task, **bodies: bytes) -> None:
    """Write files of a task, by names without their suffix; ``__`` stands for a slash."""
    for name, body in bodies.items():
        with task.filesystem.open(f"{task.path}/{name.replace('__', '/')}.csv", "wb") as file:
            file.write(body)


@contextlib.contextmanager
def dies_when_it_publishes() -> Iterator[None]:
    """The process is as dead from the first file on that it would publish: no request arrives any more."""
    dead: list[bool] = []
    brief, long = LocalStore._briefly, LocalStore._run  # noqa: SLF001 - below every request

    async def refused(*_: object, **__: object) -> None:
        dead.append(True)
        raise StoreError("complete_upload", "", "the process has died")

    def mortal(plain: Callable[..., Awaitable[object]]) -> Callable[..., Awaitable[object]]:
        async def call(*arguments: object) -> object:
            if dead:
                await refused()
            return await plain(*arguments)

        return call

    with mock.patch.multiple(LocalStore, complete_upload=refused, _briefly=mortal(brief), _run=mortal(long)):
        yield


@contextlib.contextmanager
def world() -> Iterator[World]:
    """Make one, and remove it."""
    base = Path(tempfile.mkdtemp(prefix="hostile-", dir=_RAM if _RAM.is_dir() else None))
    base.chmod(0o755)
    destination, private = base / "team" / "sales", base / "private"
    destination.mkdir(parents=True)
    (base / "tmp").mkdir()
    for directory in (base / "team", destination, base / "tmp"):
        directory.chmod(0o1777)
    private.mkdir(mode=0o700)
    for name in ("id_rsa", "data", "upload.json", "job.json", "stride", "current.json", "00001.claim"):
        (private / name).write_bytes(CANARY)
        (private / name).chmod(0o600)
    url = f"file://{destination}"
    try:
        with (
            mock.patch.object(tempfile, "tempdir", str(base / "tmp")),
            # A job that replaces waits for the dead one to end.
            mock.patch("magicfs.transaction.prepare._PAUSE_S", 0.0),
        ):
            yield World(base, url, _populate(url))
    finally:
        shutil.rmtree(base, ignore_errors=True)


def _populate(url: str) -> str:
    """Publish a job, tag it, and leave a dead job and open uploads."""
    with magicfs.Job(url, mode="append", run_id="first") as job, job.task(0) as task:
        write(task, p=b"a\n1\n")
    magicfs.Dataset(url).tag("gold")
    dead = magicfs.Job(url, committer="magic", mode="overwrite", run_id="second").setup()
    with dead.task(0) as task:
        write(task, p__x=b"a\n2\n", large=b"b" * 70_000)
    unfinished = dead.task(1).setup()
    write(unfinished, open=b"a\n3\n")
    renaming = magicfs.Job(url, committer="manifest", mode="append", run_id="third").setup()
    with renaming.task(0) as task:
        write(task, r=b"a\n4\n")
    with dies_when_it_publishes(), contextlib.suppress(MagicError):
        dead.commit(dead.commits)
    return dead.id


def places(found: World) -> list[str]:
    """The places where magicfs looks, each kind of file once, relative to the directory above the
    destination.
    """
    top = found.destination.parent
    there = [path.relative_to(top).as_posix() for path in sorted(found.destination.rglob("*"))]
    there.sort(key=lambda one: found.dead not in one)
    roles = {_ID.sub("*", one): one for one in reversed(there) if "/." in one or "/_" in one}
    ours = [*reversed(roles.values())]
    new = [
        ".magicfs-uploads",
        f"sales/.magicfs-uploads/{UPLOAD}",
        "sales/.magicfs-uploads/0123456789abcdef.new",
        "sales/.magicfs-0123456789abcdef.tmp",
        "sales/_magicfs/.catalogs",
        "sales/_magicfs/.catalogs/symlink.json",
        "sales/_delta_log",
        "sales/_symlink_format_manifest",
        "sales/__magic",
        "sales/__magic_job-0",
        f"../tmp/magicfs-{os.geteuid()}",
    ]
    return [*ours, *(one for one in new if one not in ours)]


def lay(found: World, place: str, kind: Kind) -> None:
    """Put something of a kind in a place, whatever was there."""
    path = found.destination.parent / place
    path.parent.mkdir(parents=True, exist_ok=True)
    away = found.private / "away"
    if os.path.lexists(path):
        path.rename(away)
    elif kind == "moved away and linked":
        away.mkdir()
        (away / "data").write_bytes(CANARY)
    if kind == "moved away and linked":
        path.symlink_to(away)
    elif kind == "link to a private file":
        path.symlink_to(found.private / "id_rsa")
    elif kind == "link to a private directory":
        path.symlink_to(found.private)
    elif kind == "link to itself":
        path.symlink_to(path)
    elif kind == "named pipe":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(_short(path))
    elif kind == "directory":
        path.mkdir()
    else:
        _lay_strangers(path, away)


def _short(path: Path) -> str:
    """A path for a socket, which takes no long one."""
    short = Path(tempfile.gettempdir()) / "s"
    with contextlib.suppress(FileNotFoundError):
        short.unlink()
    short.symlink_to(path.parent)
    return f"{short}/{path.name}"


def _lay_strangers(path: Path, away: Path) -> None:
    """The same bytes, or a directory like an upload's, of another user if we may give away."""
    if away.is_dir():
        shutil.copytree(away, path, symlinks=True)
    elif away.is_file():
        shutil.copy(away, path)
    else:
        path.mkdir()
        (path / "data").write_bytes(b"theirs")
        hours_ago = time.time() - 7200
        os.utime(path, (hours_ago, hours_ago))
    if os.geteuid() == 0:
        for one in (path, *path.rglob("*")):
            os.chown(one, STRANGER, STRANGER, follow_symlinks=False)


# -- looking -------------------------------------------------------------------------------------------------


def _state(path: Path) -> tuple[object, ...]:
    found = path.lstat()
    kept: object = None
    if stat.S_ISLNK(found.st_mode):
        kept = path.readlink()
    elif stat.S_ISREG(found.st_mode):
        kept = hashlib.sha256(path.read_bytes()).hexdigest(), found.st_size
    return found.st_mode, found.st_uid, kept


def snapshot(top: Path, but: Path | None = None) -> dict[str, tuple[object, ...]]:
    """Mode, owner and content of everything below a directory, but for another one."""
    found = {}
    for directory, _, files in os.walk(top):
        if but is not None and Path(directory).is_relative_to(but):
            continue
        for path in (Path(directory), *(Path(directory, name) for name in files)):
            found[str(path)] = _state(path)
        for name in os.listdir(directory):  # noqa: PTH208 - links to directories are no files of os.walk
            path = Path(directory, name)
            if path.is_symlink():
                found[str(path)] = _state(path)
    return found


def outside_of(found: World, laid: Path, kind: Kind) -> dict[str, tuple[object, ...]]:
    """What no command may change: all around the destination, and what a stranger has put into it."""
    seen = snapshot(found.base, but=found.destination)
    seen = {path: state for path, state in seen.items() if not path.startswith(str(found.base / "tmp"))}
    if kind == "somebody else's" and os.geteuid() == 0 and ".magicfs-uploads" in str(laid):
        seen |= snapshot(laid) if laid.is_dir() else {}
    return seen


def leaks(found: World) -> list[str]:
    """Files of the destination that hold what is private, and that others may read."""
    leaking = []
    for directory, _, files in os.walk(found.destination):
        for path in (Path(directory, name) for name in files):
            mode = path.lstat().st_mode
            if stat.S_ISREG(mode) and mode & 0o077 and CANARY in path.read_bytes():
                leaking.append(str(path.relative_to(found.base)))
    return leaking


# -- commands ------------------------------------------------------------------------------------------------


def command_line(*arguments: str) -> None:
    """Run a command of ``magicfs``, which prints to nobody."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        cli.main([*arguments])


def _job(found: World, **options: str) -> None:
    with magicfs.Job(found.url, **arranged(**options)) as job, job.task(0) as task:
        write(task, p__new=b"a\n5\n", new=b"a\n6\n")


Command = tuple[str, Callable[[World], object]]

READING: Final[Sequence[Command]] = (
    ("doctor, only reading", lambda w: magicfs.Dataset(w.url).doctor(read_only=True)),
    ("uploads", lambda w: command_line("uploads", w.url)),
    ("recover --dry-run", lambda w: command_line("recover", "--dry-run", w.url)),
    ("verify", lambda w: command_line("verify", w.url)),
    ("log", lambda w: command_line("log", w.url)),
    ("history", lambda w: list(magicfs.Dataset(w.url).history())),
    ("show _SUCCESS", lambda w: command_line("show", f"{w.destination}/_SUCCESS")),
    ("show the job", lambda w: command_line("show", f"{w.url}/__magic_job-{w.dead}")),
    ("maintain --dry-run", lambda w: command_line("maintain", "--dry-run", w.url)),
)
CHANGING: Final[Sequence[Command]] = (
    ("an appending job", lambda w: _job(w, mode="append")),
    ("a replacing job", partial(_job, committer="magic", mode="overwrite")),
    ("the run again", partial(_job, committer="magic", mode="overwrite", run_id="second")),
    ("recover", lambda w: command_line("recover", w.url)),
    ("a job of the manifest committer", partial(_job, committer="manifest", mode="append")),
    ("recover --rollback", lambda w: command_line("recover", "--rollback", "--job", w.dead, w.url)),
    ("recover --abort", lambda w: command_line("recover", "--abort", "--job", w.dead, w.url)),
    ("a staging job", partial(_job, committer="directory", mode="append")),
    ("doctor", lambda w: magicfs.Dataset(w.url).doctor()),
    ("expire", lambda w: command_line("maintain", "--only", "expire", w.url)),
    ("compact", lambda w: command_line("maintain", "--only", "compact", w.url)),
    ("adopt", lambda w: command_line("adopt", w.url)),
    ("abort", lambda w: command_line("recover", "--abort", w.url, "--job", w.dead, "--driver-is-dead")),
)


def problem_of(found: World, command: Callable[[World], object]) -> str | None:
    """Run one; returns what must not happen: another error than ours, or no end."""
    problem: list[str] = []

    def run() -> None:
        try:
            command(found)
        except MagicError:
            pass
        except BaseException:  # noqa: BLE001 - whatever comes out
            problem.append("raised " + traceback.format_exc(limit=-3).strip().replace("\n", " | "))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(_QUICK_S)
    if thread.is_alive():
        return f"was not over after {_QUICK_S:g} seconds"
    return problem[0] if problem else None
