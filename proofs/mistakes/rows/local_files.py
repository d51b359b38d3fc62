"""What is done on files of this machine, with the committer that is chosen there."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from fsspec.implementations.local import LocalFileSystem

import magicfs
from magicfs import MagicFileSystem
from proofs.mistakes.user import Rows, User

__all__ = ["GROUP", "MISTAKES"]

GROUP = "Files of this machine"
_FILES = 40
_DIES = """
import os, signal, sys
import magicfs

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

os.link = os.rename = os.replace = die
magicfs.Job(sys.argv[1], mode="append").setup()
"""


def _landed(user: User) -> list[str]:
    """Write files into a directory beside the dataset."""
    rows = []
    for number in range(_FILES):
        file = Path(user.bucket, "landing", f"{number % 7}", f"{number}.txt")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"new {number}\n")
        file.chmod(0o600)
        rows.append(f"new {number}")
    return rows


def copied(user: User) -> Rows:
    rows = _landed(user)
    files = MagicFileSystem(fs=LocalFileSystem())
    files.cp(f"{user.bucket}/landing", f"{user.bucket}/sales/by-hand", recursive=True)
    magicfs.Dataset(user.url).adopt()
    return ["old", *rows]


def moved(user: User) -> Rows:
    rows = _landed(user)
    files = MagicFileSystem(fs=LocalFileSystem())
    files.mv(f"{user.bucket}/landing", f"{user.bucket}/sales/by-hand", recursive=True)
    there = Path(user.bucket, "sales", "by-hand").rglob("*.txt")
    assert {file.stat().st_mode & 0o777 for file in there} == {0o600}, "a move is a copy"
    magicfs.Dataset(user.url).adopt()
    return ["old", *rows]


def by_pyarrow(user: User) -> Rows:
    with user.job() as job, job.task(0) as task:
        pq.write_table(pa.table({"v": [1, 2]}), f"{task.path}/new.parquet", filesystem=task.filesystem)
    user.hear(job)
    return ["old", "v=1", "v=2"]


def killed_while_it_is_set_up(user: User) -> Rows:
    died = subprocess.run([sys.executable, "-c", _DIES, user.url], check=False, timeout=120)  # noqa: S603
    assert died.returncode == -signal.SIGKILL
    assert list(Path(user.bucket, "sales").glob("__magic*/**/*")), "it has left something"
    user.told += [f"magicfs recover: {len(magicfs.Dataset(user.url).recover().jobs)} jobs"]
    user.publish({"new.txt": "new"}, "overwrite")
    return ["new"]


MISTAKES = {
    "a directory is copied into the dataset through `MagicFileSystem`, and adopted": copied,
    "a directory is moved into the dataset through `MagicFileSystem`, and adopted": moved,
    "`pq.write_table` into `task.path`, with the committer that is chosen": by_pyarrow,
    "the driver is killed as it writes its job object, and an `overwrite` follows": killed_while_it_is_set_up,
}
