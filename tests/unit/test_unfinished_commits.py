"""Jobs whose files are visible and whose manifest, pointer or ``_SUCCESS`` could not be written."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import magicfs
from magicfs.errors import CommitUnfinished, MagicError, ProtocolViolation
from magicfs.stores.memory.filesystem import MemoryFileSystem
from magicfs.stores.memory.store import World
from magicfs.stores.port import Store
from magicfs.testing.faulty_store import Traffic, faulty
from magicfs.testing.store_faults import Actor, Fault, Kind, Request

URL = "memory://bucket/sales"
UNFINISHED = "the files are published but the job could not be finished: .*; nothing is lost; fix the ca"
WHERE = ["_magicfs/", "_magicfs/current.json", "_SUCCESS"]


class Ground(MemoryFileSystem):
    """A bucket in which writing below a name fails once a job is published, while ``refused`` is set."""

    def __init__(self) -> None:
        super().__init__(world=World())
        self.world.create_bucket("bucket")
        self.refused, self.operation = "", "put"

    def store(self, bucket: str) -> Store:
        return faulty(super().store(bucket), Traffic(choose=self._fault), Actor("process"))

    def _fault(self, request: Request) -> Fault | None:
        is_refused = self.refused and request.operation == self.operation
        is_refused = is_refused and request.key.startswith(self.refused)
        return Fault(Kind.ERROR_BEFORE) if is_refused else None

    @property
    def rows(self) -> list[int]:
        """What readers of manifests see."""
        return sorted(magicfs.Dataset(URL, filesystem=self).to_arrow().to_table()["n"].to_pylist())

    def files(self) -> list[str]:
        return [one for one in self.find("bucket/sales") if one.endswith(".parquet")]


@pytest.fixture
def ground() -> Ground:
    filesystem = Ground()
    write(filesystem, 1)
    return filesystem


def write(filesystem: Ground, n: int, **options: Any) -> magicfs.JobReport:
    options = {"mode": "append", **options}
    return magicfs.write(pa.table({"n": [n]}), URL, filesystem=filesystem, **options)


def refuse(ground: Ground, where: str = "_magicfs/") -> None:
    ground.refused = f"sales/{where}"


def job_with_a_file(ground: Ground) -> magicfs.Job:
    job = magicfs.Job(URL, mode="append", filesystem=ground).setup()
    with job.task(0) as task:
        task.filesystem.pipe_file(f"{task.path}/a.bin", b"1")
    return job


@pytest.mark.parametrize("where", WHERE)
def test_a_with_block_raises_at_its_end_what_could_not_be_finished(ground: Ground, where: str) -> None:
    with pytest.raises(CommitUnfinished, match=UNFINISHED) as caught:  # noqa: SIM117
        with magicfs.Job(URL, mode="append", filesystem=ground) as job:
            with job.task(0) as task:
                task.filesystem.pipe_file(f"{task.path}/a.bin", b"1")
            refuse(ground, where)
    assert isinstance(caught.value.__cause__, MagicError)
    assert (job.report, job.report.files) == (caught.value.report, 1)
    assert job.report.task_figures
    assert "unfinished" in repr(job)
    ground.refused = ""
    [one] = magicfs.Dataset(URL, filesystem=ground).recover().jobs
    assert (one.job_id, one.found, one.action, one.warnings) == (job.id, "completed", "finished", ())


def test_what_the_block_itself_raised_goes_first(ground: Ground) -> None:
    with pytest.raises(ZeroDivisionError), job_with_a_file(ground):
        refuse(ground)
        _ = 1 / 0
    job = job_with_a_file(ground)
    with pytest.raises(KeyError), job:
        try:
            job.commit(job.commits)
        except CommitUnfinished as error:
            raise KeyError("x") from error
    assert job.report.files == 1


def test_the_same_job_is_finished_by_a_second_commit_and_not_aborted(ground: Ground) -> None:
    job = job_with_a_file(ground)
    refuse(ground)
    with pytest.raises(CommitUnfinished):
        job.commit(job.commits)
    with pytest.raises(ProtocolViolation, match="is published and can no longer be aborted"):
        job.abort()
    with pytest.raises(CommitUnfinished):
        job.commit(job.commits)
    ground.refused = ""
    assert job.commit(job.commits).files == 1
    assert magicfs.Dataset(URL, filesystem=ground).recover().jobs == ()
    assert len(magicfs.Dataset(URL, filesystem=ground).history()) == 2


def first(ground: Ground) -> str:
    return magicfs.Dataset(URL, filesystem=ground).history()[-1].job_id


CALLS: dict[str, Callable[[Ground], object]] = {
    "write": lambda ground: write(ground, 2),
    "overwrite": lambda ground: write(ground, 2, mode="overwrite"),
    "drop": lambda ground: magicfs.Dataset(URL, filesystem=ground).drop(jobs=[first(ground)], keep=None),
    "rewrite": lambda ground: magicfs.Dataset(URL, filesystem=ground).rewrite(),
    "rollback": lambda ground: magicfs.Dataset(URL, filesystem=ground).rollback(to=first(ground), keep=None),
}


@pytest.mark.parametrize("call", CALLS)
def test_every_call_that_publishes_raises(ground: Ground, call: str) -> None:
    if call in {"drop", "rewrite", "rollback"}:
        write(ground, 3)
    refuse(ground)
    with pytest.raises(CommitUnfinished, match=UNFINISHED) as caught:
        CALLS[call](ground)
    ground.refused = ""
    [one] = magicfs.Dataset(URL, filesystem=ground).recover().jobs
    assert (one.job_id, one.action) == (caught.value.report.job_id, "finished")


def test_a_rerun_finds_the_run_and_publishes_it_exactly_once(ground: Ground) -> None:
    refuse(ground)
    with pytest.raises(CommitUnfinished) as first:
        write(ground, 2, run_id="night")
    assert ground.rows == [1]
    with pytest.raises(CommitUnfinished, match="the run 'night' was already published, so noth") as again:
        write(ground, 2, run_id="night")
    assert again.value.report.published_before
    assert again.value.report.job_id == first.value.report.job_id
    ground.refused = ""
    report = write(ground, 2, run_id="night")
    assert (report.published_before, report.job_id) == (True, first.value.report.job_id)
    assert ground.rows == [1, 2]
    assert len(ground.files()) == 2
    assert magicfs.Dataset(URL, filesystem=ground).recover().jobs == ()


def test_what_is_only_not_cleaned_up_stays_a_warning(ground: Ground) -> None:
    job = job_with_a_file(ground)
    ground.operation, ground.refused = "delete", "sales/__magic"
    report = job.commit(job.commits)
    assert any("the files are published but cleaning up failed" in one for one in report.warnings)


def test_the_error_pickles_with_its_report(ground: Ground) -> None:
    refuse(ground)
    with pytest.raises(CommitUnfinished) as caught:
        write(ground, 2)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.report, str(again)) == (caught.value.report, str(caught.value))
