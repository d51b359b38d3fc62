"""Where there is no POSIX, as on Windows: what works there, and what says that it cannot."""

from __future__ import annotations

import os
import subprocess
import sys

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
    *("O_CLOEXEC", "O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK"),
):
    delattr(os, name)
del signal.SIGHUP
"""

_JOB = """
import magicfs

with magicfs.Job("memory://bucket/sales", conflict="append", **options) as job:
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


def without_posix(code: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-c", _WITHOUT_POSIX + code]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)


@pytest.mark.process
@pytest.mark.parametrize("options", [{}, {"tracking": "memory"}, {"committer": "file"}], ids=str)
def test_job_on_memory_needs_no_posix(options: dict[str, str]) -> None:
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
except magicfs.UsageError as error:
    print(error, default_world().buckets())
"""
    done = without_posix(code)
    assert done.stderr == ""
    for words in ("no module fcntl", "committer='magic'", "Linux or macOS", "nothing was changed", "[]"):
        assert words in done.stdout


@pytest.mark.process
def test_every_room_can_be_imported_without_posix() -> None:
    assert without_posix(_MODULES).stderr == ""


def test_local_files_need_posix(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch, pytest.raises(UsageError, match="s3:// or memory://"):
        patch.setattr(os, "name", "nt")
        LocalStore("/tmp")
