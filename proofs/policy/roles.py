"""The work of each role, through a way to the store of its own."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq

import magicfs
from magicfs import datasets
from magicfs.cli.main import main
from magicfs.errors import CommitUnfinished, MagicError, PermissionDenied
from magicfs.manifests import chain
from magicfs.operate.checkup import doctor
from magicfs.testing.fault_proxy import FaultProxy
from magicfs.testing.faults import Action, Rule

__all__ = ["WORK", "Ground"]

_FILE: Final = bytes(1000)
Options = Mapping[str, Any]


@dataclass(frozen=True)
class Ground:
    """A dataset, and two ways to it: the owner's, and that of the role."""

    url: str
    owner: Options
    own: Options
    faults: FaultProxy  # what the role's way leads through

    def job(self, way: Options, **how: Any) -> magicfs.Job:
        """A job that is set up."""
        how = {"mode": "append", **how}
        return magicfs.Job(self.url, storage_options=way, progress=None, **how).setup()

    def published(self, way: Options, **how: Any) -> magicfs.Job:
        """A job of one Parquet file, published."""
        job = self.job(way, **how)
        with job.task(0) as task:
            _write(task, "day=1/x.parquet")
        job.commit(job.commits)
        return job

    def dataset(self, way: Options) -> magicfs.Dataset:
        """The dataset."""
        return magicfs.Dataset(self.url, storage_options=way)


def worker(ground: Ground) -> None:
    """Tasks that commit, give up and fail, of jobs that somebody else drives."""
    for how in (
        {},
        {"options": {"tracking": "memory"}},
        {"committer": "partitioned"},
    ):
        job = ground.job(ground.owner, **how)
        spec = replace(job.spec, storage_options=dict(ground.own))
        commits = []
        for number in range(2):
            with magicfs.Task(spec, job.task(number).id) as task:
                _write(task, f"day={number}/x.parquet")
                _send(task, f"day={number}/more.bin")
            assert task.committed is not None
            commits.append(task.committed)
        task = magicfs.Task(spec, job.task(2).id).setup()
        _send(task, "day=2/lost.bin")
        task.filesystem.pipe_file(f"{task.path}/day=2/gone.bin", b"1")
        task.filesystem.rm_file(f"{task.path}/day=2/gone.bin")
        task.abort()
        report = job.commit(commits)
        assert (report.files, report.warnings) == (4, ()), report


def driver(ground: Ground) -> None:
    """Jobs of each mode, with all their tasks; one that is aborted, and one that lost a task."""
    heard: list[object] = []
    above = replace(ground, url=ground.url.rpartition("/")[0])
    above.published(ground.owner, mode="append")
    modes: tuple[Mapping[str, Any], ...] = (
        {"mode": "error", "options": {"after": [heard.append]}},
        {"mode": "overwrite", "keep": "7d", "run_id": "1", "options": {"footers": True}},
        {"mode": "overwrite_partitions", "run_id": "1", "rerun": "overwrite"},
        {"mode": "overwrite", "audit": [lambda _: True]},
        {"mode": "append", "run_id": "1"},
    )
    for how in modes:
        job = ground.published(ground.own, **how)
        assert not job.report.warnings, job.report
    assert len(heard) == 1
    # An answer that is lost: the driver looks what has become of the file.
    unheard = Rule("CompleteMultipartUpload", Action.LOST, times=1, match="parquet")
    ground.faults.add(unheard)
    ground.faults.add(replace(unheard, action=Action.ERROR, status=404, code="NoSuchUpload"))
    ground.published(ground.own)
    ground.faults.clear()
    job = ground.job(ground.own)
    with job.task(0) as task:
        _send(task, "day=1/more.bin")
    job.abort()
    job = ground.job(ground.own)
    lost = magicfs.Task(job.spec, job.task(0).id).setup()
    _send(lost, "day=1/lost.bin")
    with magicfs.Task(job.spec, job.task(1).id) as task:
        _write(task, "day=1/y.parquet")
    report = job.commit()
    assert (report.uploads_aborted, report.warnings) == (1, ()), report


def reader(ground: Ground) -> None:
    """Every look at a dataset."""
    ground.published(ground.owner, mode="overwrite", keep="7d", run_id="1", options={"footers": True})
    first = ground.published(ground.owner, mode="overwrite", keep="7d")
    ground.dataset(ground.owner).tag("v1", first.id)
    dataset = ground.dataset(ground.own)
    assert dataset.to_arrow().to_table().num_rows == 2
    assert len(dataset.files(as_of="run:1")) == 1
    assert len(dataset.history()) == 2
    assert dataset.verify(deep=True).files == 1
    dataset.footers()
    _run("log", ground, ground.own)
    _run("verify", ground, ground.own)


def operator(ground: Ground) -> None:
    """Everything that ends what others left, changes the past, and keeps a dataset in order."""
    first = ground.published(ground.owner, mode="overwrite", keep="1s")
    ground.published(ground.owner, mode="overwrite", keep="1s", run_id="2")
    ground.published(ground.owner, mode="append")
    open_jobs = []
    for number in range(3):
        job = ground.job(ground.owner)
        with job.task(0) as task:
            _write(task, f"day={number}/o.parquet")
            _send(task, f"day={number}/more.bin")
        open_jobs.append(job)
    with patch.object(chain, "publish", side_effect=PermissionDenied("put", "manifest", "died")):
        for _ in range(2):
            with suppress(CommitUnfinished):
                ground.published(ground.owner)
    _run("recover", ground, ground.own, status=1)  # it finishes two, and leaves what is open
    datasets.commit(ground.url, job=open_jobs[0].id, tasks=1, storage_options=ground.own)
    _run("recover", ground, ground.own, "--job", open_jobs[1].id, "--abort")
    _run("uploads", ground, ground.own, status=1)
    doctor(ground.url, storage_options=ground.own)
    datasets.abort(ground.url, job=open_jobs[2].id, storage_options=ground.own)
    dataset = ground.dataset(ground.own)
    dataset.tag("v1", first.id)
    dataset.verify(deep=True)
    dataset.drop(where=None, jobs=open_jobs[0].id, keep="1s")
    dataset.rewrite(keep="1s")
    dataset.rollback(first.id, keep="1s")
    dataset.verify(deep=True)
    time.sleep(1.1)
    for name in ("expire", "compact"):
        _run("maintain", ground, ground.own, "--only", name)
    datasets.recover(ground.url, storage_options=ground.own)


WORK: Final[Mapping[str, Callable[[Ground], None]]] = {
    "worker": worker,
    "driver": driver,
    "reader": reader,
    "operator": operator,
}


def _write(task: magicfs.Task, name: str) -> None:
    task.filesystem.makedirs(f"{task.path}/{name}".rpartition("/")[0], exist_ok=True)
    pq.write_table(pa.table({"n": [1, 2]}), f"{task.path}/{name}", filesystem=task.filesystem)


def _send(task: magicfs.Task, name: str) -> None:
    with task.filesystem.open(f"{task.path}/{name}", "wb") as file:
        file.write(_FILE)


def _run(command: str, ground: Ground, way: Options, *words: str, status: int = 0) -> None:
    """Run a command; the credentials travel in the environment."""
    plain = {name: value for name, value in way.items() if name not in {"key", "secret"}}
    done = main([command, ground.url, *words, "--storage-options", json.dumps(plain)])
    if done != status:
        raise MagicError(f"magicfs {command} ended with status {done}")
