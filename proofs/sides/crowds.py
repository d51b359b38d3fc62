"""Directories of local files with more names than are looked at in a short listing, and dead writers' files.

The models of stores have no directories, so this is played with files, whatever store is asked for.
"""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import magicfs
from magicfs.errors import MagicError
from magicfs.protocol.modes import WriteMode
from magicfs.stores.local.listing import FEW
from proofs.scenes.instead import instead
from proofs.scenes.trouble import Trouble, require

__all__ = ["crowded"]

_ODD: Final = ("é", " ", "%2F", "+", "'\"", "#?", "日")
_FILES: Final[Mapping[WriteMode, int]] = {"append": FEW + 3, "overwrite": 3, "overwrite_partitions": 3}


def crowded(store: str = "s3") -> Iterator[int]:  # noqa: ARG001 - as every check
    """What dead writers have left hides no file of a job, and no old file from the next job."""
    for mode, files in _FILES.items():
        with tempfile.TemporaryDirectory() as top, instead("magicfs.transaction.prepare._PAUSE_S", 0):
            try:
                _play(Path(top) / "día 50% #1", mode, files)
            except MagicError as error:
                raise Trouble(f"{mode} is refused, and nobody else is there: {error}") from error
        yield 1


def _play(destination: Path, mode: WriteMode, files: int) -> None:
    old = _write(destination, "append", {"p=kept": 1, "p=1": 2})
    _leave(destination)
    new = _write(destination, mode, {"p=1": files})
    kept = {one for one in old if mode == "append" or (mode != "overwrite" and one.startswith("p=kept/"))}
    wrong = _data(destination) ^ (kept | new)
    require(not wrong, f"of {mode} {len(wrong)} files are missing or were left: {sorted(wrong)[:3]}")
    report = magicfs.Dataset(destination).verify()
    require(report.files == len(kept | new), f"verify counts {report.files} of {len(kept | new)} files")
    require(report.ok, f"verify says {report}")


def _write(destination: Path, mode: WriteMode, partitions: Mapping[str, int]) -> set[str]:
    """Publish so many files of partitions; writers die beside them before their task commits."""
    before = _data(destination)
    with magicfs.Job(destination, mode=mode, options={"tracking": "store"}) as job, job.task(0) as task:
        for partition, count in partitions.items():
            for number in range(count):
                name = f"{partition}/{_ODD[number % len(_ODD)]} {number}.bin"
                task.filesystem.pipe_file(f"{task.path}/{name}", f"{job.id} {number}".encode())
        _leave(destination)
    wanted = sum(partitions.values())
    require(job.report.files == wanted, f"{job.report.files} of {wanted} files were published")
    found = _data(destination) - before
    require(len(found) == wanted, f"{len(found)} of {wanted} files are there")
    return found


def _leave(destination: Path) -> None:
    """Let writers have died in every directory."""
    for directory in [destination, *(one for one in destination.rglob("*") if one.is_dir())]:
        for _ in range(FEW + 1):
            (directory / f".magicfs-{secrets.token_hex(8)}.tmp").write_bytes(b"half")


def _data(destination: Path) -> set[str]:
    """The files that readers see, past magicfs."""
    names = (path.relative_to(destination) for path in destination.rglob("*.bin"))
    return {str(name) for name in names if not any(part.startswith(("_", ".")) for part in name.parts)}
