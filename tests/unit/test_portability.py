"""Windows has no POSIX, and macOS lacks what only Linux has: what works there, and what says that it cannot.

Both are taken away here, on Linux. So these tests show what magicfs does not need; that nothing else is
missing on the other systems, only a run there can show.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from magicfs.errors import UsageError
from magicfs.stores.local.store import LocalStore

# Hides what only POSIX has, before anything of ours is imported.
_WITHOUT_POSIX = """
import asyncio, os, random, signal, subprocess, sys, tempfile, uuid  # the library itself knows where it runs

for module in ("fcntl", "grp", "pwd", "resource", "termios"):
    sys.modules[module] = None
for name in (
    *("register_at_fork", "geteuid", "getuid", "killpg", "pread", "pwrite", "uname", "waitid"),
    *("chown", "chroot", "fchmod", "fchown", "getegid", "getgid", "getpgid", "getsid", "lchown", "mkfifo"),
    *("O_ACCMODE", "O_CLOEXEC", "O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK", "O_SYNC"),
    *("SEEK_DATA", "SEEK_HOLE", "posix_fallocate", "preadv", "pwritev", "statvfs", "sysconf"),
):
    delattr(os, name)
del signal.SIGHUP
"""

# Hides what Linux alone has, in the same way. What the standard library needs of it is imported before.
_WITHOUT_LINUX = """
import asyncio, concurrent.futures.thread, ctypes, multiprocessing, os, platform, shutil
import signal, socket, subprocess, sys, sysconfig, tempfile, time, urllib.request, uuid

sysconfig.get_config_vars()
sys.platform = "darwin"
for name in (
    *("copy_file_range", "eventfd", "getxattr", "listxattr", "memfd_create", "pidfd_open", "posix_fadvise"),
    *("posix_fallocate", "sched_getaffinity", "setxattr", "splice", "waitid"),
    *("O_DIRECT", "O_NOATIME", "O_PATH", "POSIX_FADV_DONTNEED"),
):
    delattr(os, name)
for module, name in (
    *((time, name) for name in ("CLOCK_BOOTTIME", "CLOCK_TAI")),
    *((socket, name) for name in ("TCP_USER_TIMEOUT", "SO_PEERCRED")),
):
    delattr(module, name)


def nowhere(function):
    def asked(path, *arguments, **options):
        if str(path).startswith(("/proc", "/sys/", "/etc/machine-id", "/dev/shm")):
            raise FileNotFoundError(2, "no such file or directory", path)
        return function(path, *arguments, **options)

    return asked


def refuse(event, arguments):
    if event == "open" and str(arguments[0]).startswith(("/proc", "/sys/", "/etc/machine-id", "/dev/shm")):
        raise FileNotFoundError(2, "no such file or directory", arguments[0])


sys.addaudithook(refuse)
os.stat, os.scandir, os.listdir = nowhere(os.stat), nowhere(os.scandir), nowhere(os.listdir)
"""

_JOB = """
import magicfs

with magicfs.Job("memory://bucket/sales", mode="append", **options) as job:
    for number in range(2):
        with job.task(number) as task:
            task.filesystem.pipe_file(f"{task.path}/day=1/part.txt", b"rows")
            assert task.filesystem.exists(f"{task.path}/day=1/part.txt")
print(job.report.files)
"""

_MODULES = """
import magicfs.cli.main, magicfs.committers.staging.committer, magicfs.datasets.recover, magicfs.hadoop.conf
import magicfs.spark.exiting, magicfs.stores.local.store, magicfs.stores.s3.store
import magicfs.testing, magicfs.testing.faulty_store, magicfs.testing.store_exam, proofs.doubles.servers
"""


def ran(code: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-c", code]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)


def without_posix(code: str) -> subprocess.CompletedProcess[str]:
    return ran(_WITHOUT_POSIX + code)


@pytest.mark.process
@pytest.mark.parametrize("options", [{}, {"options": {"tracking": "memory"}}, {"committer": "file"}], ids=str)
def test_job_on_memory_needs_no_posix(options: dict[str, object]) -> None:
    done = without_posix(f"options = {options!r}\n{_JOB}")
    assert (done.stdout.split()[:1], done.stderr) == (["2"], "")


@pytest.mark.process
@pytest.mark.parametrize("committer", ["directory", "partitioned"])
def test_staging_committers_say_what_to_use_before_anything_is_changed(committer: str) -> None:
    code = f"""
import magicfs
from magicfs.stores.memory.store import default_world

try:
    magicfs.Job("memory://bucket/sales", committer={committer!r})
except magicfs.errors.UsageError as error:
    print(error, default_world().buckets())
"""
    done = without_posix(code)
    assert done.stderr == ""
    for words in ("no module fcntl", "committer='magic'", "Linux or macOS", "nothing was changed", "[]"):
        assert words in done.stdout


@pytest.mark.process
def test_every_room_can_be_imported_without_posix() -> None:
    assert without_posix(_MODULES).stderr == ""


_ON_FILES = """
import pathlib

import magicfs

for number, mode in enumerate(("append", "append", "overwrite")):
    with magicfs.Job(url, mode=mode, **options) as job:
        with job.task(0) as task:
            with task.filesystem.open(f"{task.path}/day=1/part.txt", "wb") as file:
                for _ in range(3):
                    file.write(b"rows" * 2**20)
            task.filesystem.pipe_file(f"{task.path}/day=2/part.txt", b"%d" % number)
    print(job.report.files)

dead = magicfs.Job(url, mode="append", **options).setup()
with dead.task(0) as task:
    task.filesystem.pipe_file(f"{task.path}/day=3/part.txt", b"never")
print(magicfs.Dataset(url).recover(abort=True))
found = sorted(str(path.relative_to(root)) for path in pathlib.Path(root).rglob("part*"))
print([name.split("/")[0] for name in found])
"""


@pytest.mark.process
@pytest.mark.parametrize("committer", ["magic", "manifest", "file", "directory"])
def test_job_on_files_needs_no_linux(committer: str, tmp_path: Path) -> None:
    root = tmp_path / "sales"
    given = f"root, url, options = {str(root)!r}, {root.as_uri()!r}, {{'committer': {committer!r}}}\n"
    done = ran(_WITHOUT_LINUX + given + _ON_FILES)
    assert done.stderr == ""
    assert done.stdout.splitlines()[:3] == ["2", "2", "2"]
    assert done.stdout.splitlines()[-1] == "['day=1', 'day=2']"


@pytest.mark.process
def test_every_room_can_be_imported_without_linux() -> None:
    assert ran(_WITHOUT_LINUX + _MODULES).stderr == ""


@pytest.mark.process
def test_what_a_driver_holds_stays_in_memory_where_no_file_can_be_read_at_a_place() -> None:
    code = """
from magicfs.transaction.spool import Spool

spool = Spool(2)
print([spool.read(spool.append(raw)) for raw in (b"one", b"two", b"three")])
"""
    done = without_posix(code)
    assert (done.stdout, done.stderr) == ("[b'one', b'two', b'three']\n", "")


@pytest.mark.process
def test_show_prints_a_local_file_without_posix() -> None:
    text = Path(__file__).parents[1] / "golden" / "magicfs_tag_1.json"
    done = without_posix(f"import magicfs.cli.main\nmagicfs.cli.main.main(['show', {str(text)!r}])")
    assert done.stderr == ""
    assert "quarter-1" in done.stdout


def test_local_files_need_posix(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch, pytest.raises(UsageError, match="s3:// or memory://"):
        patch.setattr(os, "name", "nt")
        LocalStore("/tmp")
