"""The first line of everybody: pyarrow and pandas write into a task, with every committer."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from uuid import uuid4

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from magicfs.committers.registry import committers
from magicfs.errors import ProtocolViolation, StoreError, UsageError
from magicfs.job.job import Job
from magicfs.job.task import Task
from magicfs.protocol import paths

TABLE = pa.table({"v": [1, 2]})


def by_writer(task: Task) -> None:
    with pq.ParquetWriter(f"{task.path}/b.parquet", TABLE.schema, filesystem=task.filesystem) as writer:
        writer.write_table(TABLE)


WAYS: dict[str, Callable[[Task], None]] = {
    "write_table": lambda task: pq.write_table(TABLE, f"{task.path}/a.parquet", filesystem=task.filesystem),
    "ParquetWriter": by_writer,
    "to_parquet": lambda task: TABLE.to_pandas().to_parquet(
        f"{task.path}/c.parquet", filesystem=task.filesystem
    ),
    "to_parquet by URL": lambda task: TABLE.to_pandas().to_parquet(
        task.url("d.parquet"), storage_options=task.storage_options
    ),
    "to_csv by URL": lambda task: pd.DataFrame({"v": [1, 2]}).to_csv(
        task.url("p=1/e.csv"), storage_options=task.storage_options, index=False
    ),
}
NO_URL = {"direct", "stocator"}
"""Committers whose tasks write where no URL leads."""


@pytest.fixture(params=["file", "memory"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"file://{tmp_path}/sales" if request.param == "file" else f"memory://b-{uuid4().hex}/sales"


def rows(job: Job) -> list[int]:
    """Those of the one file that is visible."""
    files, top = job.spec.wrapped(), job.spec.location.path
    [name] = [one for one in files.find(top) if paths.is_visible(one, top)]
    body = BytesIO(files.cat_file(name))
    frame = pd.read_csv(body) if name.endswith(".csv") else pq.read_table(body).to_pandas()
    found: list[int] = frame["v"].tolist()
    return found


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("committer", ["auto", *committers()])
def test_file_that_pyarrow_or_pandas_writes_into_a_task_is_published(
    committer: str, way: str, url: str
) -> None:
    if committer == "manifest" and url.startswith("memory"):
        with pytest.raises(UsageError, match="renames by copying every byte"):
            Job(url, committer=committer)
        return
    with Job(url, committer=committer) as job, job.task(0) as task:
        if committer in NO_URL and "URL" in way:
            with pytest.raises(UsageError, match=r"has no URL.*write through task\.filesystem"):
                WAYS[way](task)
            WAYS["write_table"](task)
        else:
            WAYS[way](task)
    assert job.report.files == 1
    assert rows(job) == [1, 2]


@pytest.mark.parametrize("committer", ["manifest", "file"])
class TestDirectoryOfAnAttempt:
    def test_it_goes_with_an_attempt_that_writes_nothing(self, committer: str, tmp_path: Path) -> None:
        job = Job(f"{tmp_path}/sales", committer=committer).setup()
        task = job.task(0).setup()
        assert Path(task.path).is_dir()
        assert not task.needs_commit()
        task.abort()
        assert not Path(task.path).exists()
        with job.task(1):
            pass
        assert job.commit().files == 0
        assert [one.name for one in tmp_path.rglob("*") if "_temporary" in str(one)] == []

    def test_a_task_that_comes_after_the_end_of_its_job_makes_none(
        self, committer: str, tmp_path: Path
    ) -> None:
        job = Job(f"{tmp_path}/sales", committer=committer).setup()
        late = Task(job.spec, job.task(0).id)
        elsewhere = pickle.loads(pickle.dumps(late))
        job.abort()
        late.setup()
        late.abort()
        with pytest.raises(ProtocolViolation, match="was not started"):
            elsewhere.setup()
        assert not (tmp_path / "sales" / "_temporary").exists()

    def test_a_link_in_its_place_is_not_followed(self, committer: str, tmp_path: Path) -> None:
        (tmp_path / "elsewhere").mkdir()
        job = Job(f"{tmp_path}/sales", committer=committer).setup()
        tasks = Path(f"/{job.spec.context.temporary.tasks_directory}")
        tasks.symlink_to(tmp_path / "elsewhere")
        with pytest.raises(StoreError, match=r"there is a symbolic link .*remove it, then try again"):
            job.task(0).setup()
        assert list((tmp_path / "elsewhere").iterdir()) == []
        tasks.unlink()
        job.abort()
