"""What committers that stage keep beside the store: on the disk of the machine, and in the cluster."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterator, Mapping
from typing import Final

from magicfs.protocol.ids import JobId
from proofs.crash.cluster_files import CLUSTER_USER
from proofs.crash.disk import Contents
from proofs.crash.snapshots import SnapshotWorld

__all__ = ["committed", "disturbed", "lay_neighbour", "left"]

_TOP: Final = f"cluster/{CLUSTER_USER}"


def lay_neighbour(world: SnapshotWorld, job: JobId) -> None:
    """Let another job have left things beside the store: a dead attempt's files, and a pending set."""
    name = f"{job}-attempt-000000-00"
    lock = json.dumps({"job": job, "host": platform.node(), "pid": 1}).encode()
    world.local = {f"{name}.lock": lock, name: None, f"{name}/part-0.bin": b"a neighbour's"}
    world.cluster.update({"cluster": None, _TOP: None, f"{_TOP}/{job}": None, f"{_TOP}/{job}/set": b"{}"})


def left(world: SnapshotWorld, job: str) -> Iterator[str]:
    """Everything of a job that lies beside the store."""
    for where, names in (("disk", _local(world.local, job)), ("cluster", _clustered(world.cluster, job))):
        yield from (f"{name} is left on the {where}" for name in sorted(names))


def disturbed(before: SnapshotWorld, now: SnapshotWorld, jobs: list[str]) -> Iterator[str]:
    """Everything that lies beside the store, belongs to nobody of the jobs, and is not as it was."""
    for was, is_, own in (
        (before.local, now.local, {name for job in jobs for name in _local(now.local, job)}),
        (before.cluster, now.cluster, {name for job in jobs for name in _clustered(now.cluster, job)}),
    ):
        for name in was.keys() | (is_.keys() - own):
            # Directories above those of jobs come into being with the first, and stay.
            if was.get(name, b"") != is_.get(name, b"") and name not in {"cluster", _TOP}:
                yield f"{name}, beside the store, was not the job's"


def committed(world: SnapshotWorld, job: str) -> list[str]:
    """The tasks that have committed in the cluster, in the job's first attempt."""
    directory = f"{_TOP}/{job}/staging-uploads/_temporary/0/"
    names = (name[len(directory) :] for name in world.cluster if name.startswith(directory))
    return [name for name in names if "/" not in name and name != "_temporary"]


def _local(contents: Contents, job: str) -> set[str]:
    return {name for name in contents if name.startswith(f"{job}-")}


def _clustered(contents: Mapping[str, bytes | None], job: str) -> set[str]:
    directory = f"{_TOP}/{job}"
    return {name for name in contents if name == directory or name.startswith(f"{directory}/")}
