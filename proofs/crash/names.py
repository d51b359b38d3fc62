"""Names that jobs have trouble with: of partitions, of jobs, of files that are rewritten; and hidden ones."""

from __future__ import annotations

import random
from collections.abc import Coroutine
from typing import Any, Final

from magicfs.protocol import ids
from magicfs.protocol.ids import TaskId
from magicfs.protocol.paths import KEY_BYTES_MAX
from proofs.crash.drawing import DrawnJob
from proofs.crash.snapshots import SnapshotWorld
from proofs.crash.store_models import plain_store
from proofs.crash.writing import DESTINATION

__all__ = ["FORMS", "draw_names", "lay_names"]

_STRANGER: Final = "00000000-0000-4000-8000-00000000000c"
_DIRECTORIES: Final = ("p={n}", "_p={n}", "load={job}", "%2F+#&ü=é {n}", "{job}", "_p=_x={n}")
_FILES: Final = (
    *("part-{n}.bin", "_a={n}.bin", "part-{job}-{n}.bin", "{job}.{n}", "%+#é {n}.tar.gz", "..{n}"),
    *("part-0-000000-{other}.{n}.bin", "part-0-000001-{other}.{n}.bin", "part-{n}-000000-{job}.bin"),
    *("part-0-0123456789abcdef-000000-{other}.{n}", "_metadata{n}", ".part-{n}.crc", "{long}{n}"),
)
FORMS: Final = (*_DIRECTORIES, *_FILES)
"""What directories and files are called, before a job and its number are put in."""

_NAME_BYTES_MAX: Final = 150


def draw_names(source: random.Random, jobs: list[DrawnJob]) -> None:
    """Give the files of jobs other names, as many as before, each in one partition."""
    for job in jobs:
        if not job.facts.unique:
            continue  # names that are equal to old ones are what is tried there
        others = [_STRANGER, *(one.context.job for one in jobs if one is not job)]
        for task, files in job.files.items():
            job.files[task] = tuple(
                _drawn(source, job, source.choice(others), task, number) for number in range(len(files))
            )


def _drawn(source: random.Random, job: DrawnJob, other: str, task: TaskId, number: int) -> str:
    known = {"n": number, "job": job.context.job, "other": other}
    directory = source.choice(_DIRECTORIES).format(**known)
    room = _NAME_BYTES_MAX
    if not job.setting.staged:
        work = job.context.layout.work_directory(ids.attempt_id(task, "0000"))
        room = KEY_BYTES_MAX - len(f"{work}/{directory}/{number}.pending".encode())
    # A task whose only file is left out publishes nothing, and could not be told from one that is lost.
    names = [
        name for name in _FILES if number or not job.setting.staged or name[0] not in "_." or "=" in name
    ]
    return f"{directory}/{source.choice(names).format(**known, long='x' * room)}"


def lay_names(world: SnapshotWorld, jobs: list[DrawnJob]) -> None:
    """Lay uploads of strangers beside the jobs, whose ids their names hold; and data to be replaced."""
    store = plain_store(world, jobs[0].setting.store)
    for job in jobs:
        own = job.context.job
        for name in (f"part-0-000000-{own}-000000-{_STRANGER}.bin", f"part-{own}-x.bin", f"{own}/part-0.bin"):
            _now(store.create_upload(f"{DESTINATION}/p=0/{name}", metadata={}))
    if all(job.setting.past != "none" for job in jobs):
        _now(store.put(f"{DESTINATION}/_p=9/old.bin", b"old"))


def _now(coroutine: Coroutine[Any, Any, object]) -> None:
    try:
        coroutine.send(None)
    except StopIteration:
        return
    raise AssertionError("it waited")
