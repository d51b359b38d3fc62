"""What the tasks of Dask, Ray and Daft write; the engines themselves are in ``tox run -e engines``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import pyarrow as pa
import pyarrow.dataset
import pytest

import magicfs
from magicfs.engines.arrow_output import ArrowOutput
from magicfs.errors import UsageError
from proofs.scenes.job_scene import JobScene

DAYS = ["1/2", "a b", "%41", "x=y#+", "ü"]
TABLE = pa.table({"row": range(10), "day": [DAYS[n % 5] for n in range(10)]})


@pytest.fixture
def scene() -> JobScene:
    return JobScene()


def write(scene: JobScene, output: ArrowOutput, tables: Any) -> magicfs.JobReport:
    with scene.job(tracking="memory") as job, job.task(0) as task:
        rows = output.write(task, iter(tables))
    assert (job.report.rows or 0) == rows
    return job.report


def test_tables_become_one_file_a_partition_and_are_read_back(scene: JobScene) -> None:
    report = write(scene, ArrowOutput.of("day", "parquet"), [TABLE.slice(0, 4), TABLE.slice(4, 6)])
    assert (report.files, report.rows, report.tasks) == (5, 10, 1)
    read = magicfs.dataset(scene.url, filesystem=scene.filesystem).to_table()
    assert sorted(zip(read["row"].to_pylist(), read["day"].to_pylist(), strict=True)) == sorted(
        zip(TABLE["row"].to_pylist(), TABLE["day"].to_pylist(), strict=True)
    )


def test_later_tables_are_brought_to_the_schema_of_the_first(scene: JobScene) -> None:
    narrow = pa.table({"row": pa.array([99], pa.int8()), "day": ["z"]})
    assert write(scene, ArrowOutput.of((), "parquet"), [TABLE, narrow]).rows == 11


def test_tables_without_rows_leave_no_file(scene: JobScene) -> None:
    output = ArrowOutput.of((), "parquet")
    with scene.job(tracking="memory") as job:
        with job.task(0) as task:
            assert output.write(task, [TABLE.slice(0, 0), TABLE.slice(0, 0)]) == 0
        with job.task(1) as task:
            assert output.write(task, []) == 0
    assert job.report.files == 0


def test_source_that_raises_leaves_nothing(scene: JobScene) -> None:
    def tables() -> Iterator[Any]:
        yield TABLE
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write(scene, ArrowOutput.of("day", "parquet"), tables())
    with pytest.raises(magicfs.errors.ObjectNotFound):
        magicfs.dataset(scene.url, filesystem=scene.filesystem)


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        (["month"], "partition_by names month, and the data has only row, day"),
        (["day", "row"], "names every column"),
    ],
)
def test_columns_that_cannot_be_are_refused(columns: list[str], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        ArrowOutput.of(columns, "parquet").check(TABLE.schema)


def test_column_named_twice_is_refused() -> None:
    with pytest.raises(UsageError, match="twice"):
        ArrowOutput.of(["day", "day"], "parquet")


@pytest.mark.parametrize("engine", ["dask", "ray", "daft"])
@pytest.mark.parametrize(
    "load", [lambda name: getattr(magicfs, name), lambda name: import_module(f"magicfs.{name}")]
)
def test_engine_that_is_not_there_is_told_how_to_get(
    engine: str, load: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, engine, None)
    monkeypatch.delitem(sys.modules, f"magicfs.{engine}", raising=False)
    with pytest.raises(ImportError, match=rf"pip install 'magicfs\[{engine}\]'"):
        load(engine)
