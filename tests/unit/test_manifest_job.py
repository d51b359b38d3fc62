"""Jobs of the manifest committer through ``Job`` and ``Task``, on files of this machine."""

from __future__ import annotations

import multiprocessing
import pickle
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import magicfs
from magicfs import datasets
from magicfs.committers import registry
from magicfs.errors import CommitDenied, CommitOutcomeUnknown, Unavailable
from magicfs.report import Progress
from magicfs.stores.local.store import LocalStore
from magicfs.stores.local.tree import LocalTree
from proofs.scenes.arranged import arranged
from proofs.scenes.dataset_tasks import ROWS, fail_at_first, write

TASKS = 4
# A fork of a process that has run Arrow's threads would wait for them for ever.
SPAWN = multiprocessing.get_context("spawn")


def read(directory: Path) -> Counter[tuple[int, int]]:
    partitioning = ds.partitioning(pa.schema([("day", pa.int32())]))
    table = ds.dataset(str(directory), format="parquet", partitioning=partitioning).to_table()
    return Counter(zip(table["day"].to_pylist(), table["id"].to_pylist(), strict=True))


EXPECTED = Counter((n % 3, task * ROWS + n) for task in range(TASKS) for n in range(ROWS))


@pytest.mark.process
def test_a_dataset_that_processes_write_with_arrow(tmp_path: Path) -> None:
    destination = tmp_path / "sal es%20"
    seen: list[Progress] = []
    with (
        ProcessPoolExecutor(2, mp_context=SPAWN) as pool,
        magicfs.Job(
            f"file://{destination}",
            committer="manifest",
            progress=seen.append,
            options={"validate_output": True, "summary_report_directory": f"file://{tmp_path}/reports"},
        ) as job,
    ):
        job.map(fail_at_first, range(TASKS), executor=pool)
        assert not [path for path in destination.rglob("*.parquet") if "_temporary" not in path.parts]
    assert read(destination) == EXPECTED
    assert (job.report.tasks, job.report.files) == (TASKS, 3 * TASKS)
    assert sorted(path.name for path in destination.iterdir()) == [
        *("0", "1", "2", "_SUCCESS", "_magicfs"),
    ]
    assert all(f"-{job.id}." in name for name in job.report.filenames)
    assert (seen[-1].files_done, seen[-1].files_total) == (12, 12)
    assert (tmp_path / "reports" / f"summary-{job.id}.json").exists()


def test_it_is_the_best_committer_on_files(tmp_path: Path) -> None:
    assert registry.best_for(LocalStore())[0] == "manifest"
    with magicfs.Job(f"file://{tmp_path}/d", committer="auto") as job:
        assert job.spec.options.committer == "manifest"
        for number in range(2):
            with job.task(number) as task:
                write(task)
    assert sum(read(tmp_path / "d").values()) == 2 * ROWS


def test_a_job_whose_store_failed_is_committed_elsewhere_from_its_pickle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    how: Any = {"committer": "manifest", "unique_names": False}
    job = magicfs.Job(f"file://{tmp_path}/d", **arranged(**how)).setup()
    with job.task(0) as task:
        task.filesystem.pipe({f"{task.path}/{name}": name.encode() for name in "ab"})

    async def silent(*_: object) -> None:
        raise Unavailable("rename", "d", "no answer, as the test wants")

    with monkeypatch.context() as patched:
        patched.setattr(LocalTree, "rename_all", silent)
        with pytest.raises(CommitOutcomeUnknown, match="commit again, or run magicfs recover"):
            job.commit(job.commits)
    elsewhere = pickle.loads(pickle.dumps(job))
    assert elsewhere.commit(elsewhere.commits).files == 2
    assert {name: (tmp_path / "d" / name).read_text() for name in "ab"} == {"a": "a", "b": "b"}


def test_a_task_that_writes_on_when_its_job_has_ended_leaves_nothing(tmp_path: Path) -> None:
    job = magicfs.Job(f"file://{tmp_path}/d", committer="manifest").setup()
    task = job.task(0).setup()
    datasets.abort(f"file://{tmp_path}/d", job=job.id)
    task.filesystem.pipe_file(f"{task.path}/day=1/late.csv", b"late")
    assert list((tmp_path / "d").rglob("late.csv"))
    with pytest.raises(CommitDenied, match="comes too late"):
        task.commit()
    assert not (tmp_path / "d" / "_temporary").exists()


def test_a_task_that_comes_too_late_leaves_the_directories_of_other_jobs(tmp_path: Path) -> None:
    job, other = (magicfs.Job(f"file://{tmp_path}/d", committer="manifest").setup() for _ in range(2))
    task = job.task(0).setup()
    datasets.abort(f"file://{tmp_path}/d", job=job.id)
    task.filesystem.pipe_file(f"{task.path}/late.csv", b"late")
    with pytest.raises(CommitDenied, match="comes too late"):
        task.commit()
    assert [path.name for path in (tmp_path / "d" / "_temporary").iterdir()] == [other.id]
    with other.task(0) as its:
        write(its)
    other.commit()
    assert sum(read(tmp_path / "d").values()) == ROWS
