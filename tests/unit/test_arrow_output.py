"""What the tasks of Dask, Ray and Daft write; the engines themselves are in ``tox run -e engines``."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.dataset
import pytest

import magicfs
from magicfs.engines.arrow_output import ArrowOutput
from magicfs.engines.arrow_sink import ArrowSink
from magicfs.errors import ProtocolViolation, UsageError
from magicfs.formats.task_commit import TaskCommit
from magicfs.job import late_tasks
from magicfs.job.late_tasks import sweep_again
from magicfs.protocol.ids import task_id
from magicfs.protocol.modes import WriteMode
from magicfs.testing.store_faults import Fault, Kind
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
    found = magicfs.Dataset(scene.url, filesystem=scene.filesystem).to_arrow()
    read = found.to_table()
    assert sorted(zip(read["row"].to_pylist(), read["day"].to_pylist(), strict=True)) == sorted(
        zip(TABLE["row"].to_pylist(), TABLE["day"].to_pylist(), strict=True)
    )
    footers = [fragment.metadata for fragment in found.get_fragments()]
    assert {one.row_group(0).column(0).compression for one in footers} == {"ZSTD"}, "as by every front door"


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
        magicfs.Dataset(scene.url, filesystem=scene.filesystem).to_arrow()


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


class Sink(ArrowSink):
    """A sink of an engine that runs its tasks in this process."""

    def write(self, number: int, tables: Any) -> TaskCommit:
        return self._commit(task_id(number), tables)


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Pauses that the driver makes, which take no time. Other threads of the process sleep as ever."""
    pauses: list[float] = []
    monkeypatch.setattr(late_tasks, "time", SimpleNamespace(sleep=pauses.append))
    return pauses


def test_sink_publishes_what_its_tasks_returned(scene: JobScene) -> None:
    sink = Sink(scene.url, filesystem=scene.filesystem, partition_by="day")
    report = sink.publish(lambda: sink.job.commit([sink.write(n, [TABLE]) for n in range(2)]))
    assert (report.files, report.rows, scene.uploads(), scene.work()) == (10, 20, [], [])


WRONG: list[tuple[pa.Table, str]] = [
    (
        TABLE.set_column(0, "row", TABLE["row"].cast(pa.string())),
        "'row' is int64 in the existing files, and string in the new rows",
    ),
    (TABLE.rename_columns(["n", "day"]), "column 'row' is missing in the new rows"),
]


@pytest.mark.parametrize("mode", ["append", "overwrite_partitions"])
@pytest.mark.parametrize(("table", "says"), WRONG)
def test_rows_that_do_not_fit_are_refused_by_driver_and_tasks(
    scene: JobScene, no_pauses: list[float], table: pa.Table, says: str, mode: WriteMode
) -> None:
    how: dict[str, Any] = {"filesystem": scene.filesystem, "partition_by": "day", "mode": mode}
    first = Sink(scene.url, **how)
    first.publish(lambda: first.job.commit([first.write(0, [TABLE])]), TABLE.schema)
    before = scene.data()
    ran: list[int] = []

    def run(sink: Sink) -> None:
        ran.append(1)
        sink.job.commit([pickle.loads(pickle.dumps(sink._output)).commit(sink.job.task(0), [table])])

    for known in (table.schema, None):
        sink = Sink(scene.url, **how)
        with pytest.raises(UsageError, match=says):
            sink.publish(partial(run, sink), known)
        assert (len(ran), scene.uploads(), scene.work()) == (known is None, [], [])
    assert scene.data() == before
    assert len(no_pauses) == 4
    last = Sink(scene.url, **how, check_schema=False)
    assert last.publish(lambda: last.job.commit([last.write(0, [table])]), table.schema).published


def test_a_day_as_a_moment_and_then_as_text_is_refused(scene: JobScene) -> None:
    moments = TABLE.set_column(1, "day", pa.array([0] * 10, pa.timestamp("us")))
    magicfs.write(moments, scene.url, filesystem=scene.filesystem, partition_by="day")
    with pytest.raises(UsageError, match="cast the column to a timestamp"), scene.job(mode="append") as job:
        output = ArrowOutput.of("day", "parquet").beside_rows_of(job.spec)
        days = TABLE.set_column(1, "day", pa.array(["1970-01-01"] * 10))
        output.commit(job.task(0), [days])
    assert len(scene.data()) == 1


def test_published_run_of_other_rows_is_not_compared(scene: JobScene) -> None:
    how: dict[str, Any] = {"filesystem": scene.filesystem, "mode": "append"}
    first = Sink(scene.url, **how, run_id="monday")
    first.publish(lambda: first.job.commit([first.write(0, [TABLE])]))
    second = Sink(scene.url, **how)
    wider = TABLE.append_column("new", TABLE["row"])
    second.publish(lambda: second.job.commit([second.write(0, [wider])]), wider.schema)
    again = Sink(scene.url, **how, run_id="monday")
    again._set_up()
    assert again._output.there is None
    assert again.publish(lambda: pytest.fail("nothing is run"), TABLE.schema).published_before


@pytest.mark.parametrize("ends_at", ["before it writes", "while it writes", "after it has returned"])
def test_task_that_runs_on_after_its_engine_has_failed_leaves_nothing(
    scene: JobScene, no_pauses: list[float], ends_at: str
) -> None:
    sink = Sink(scene.url, filesystem=scene.filesystem)
    commits: list[TaskCommit] = []

    def rows() -> Iterator[Any]:
        yield TABLE
        if ends_at == "while it writes":
            sink.job.abort()
        yield TABLE

    def run() -> None:
        if ends_at == "before it writes":
            sink.job.abort()
        if ends_at == "after it has returned":
            commits.append(sink.write(0, rows()))
        else:
            with pytest.raises(ProtocolViolation, match="ended"):
                sink.write(0, rows())
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        sink.publish(run)
    assert (scene.uploads(), scene.work(), scene.data()) == ([], [], {})
    assert len(commits) == (ends_at == "after it has returned")


def test_driver_looks_again_for_what_tasks_leave_that_are_killed_later(
    scene: JobScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each time that the driver waits one more task dies with its upload open."""
    sink = Sink(scene.url, filesystem=scene.filesystem)
    died: list[float] = []

    def dies(pause_s: float) -> None:
        if len(died) < 3:
            task = magicfs.Task(sink.job.spec, task_id(7)).setup()
            with task.filesystem.open(f"{task.path}/part.bin", "wb") as file:
                file.write(b"7")
            assert scene.uploads()
        died.append(pause_s)

    monkeypatch.setattr(late_tasks, "time", SimpleNamespace(sleep=dies))

    def run() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        sink.publish(run)
    assert len(died) > 3
    assert (scene.uploads(), scene.work()) == ([], [])


def test_late_task_of_a_published_job_discards_its_own_files_alone(scene: JobScene) -> None:
    sink = Sink(scene.url, filesystem=scene.filesystem)
    sink.publish(lambda: sink.job.commit([sink.write(0, [TABLE])]))
    before = scene.data()
    late = magicfs.Task(sink.job.spec, task_id(0)).setup()
    sink._output.write(late, [TABLE])
    late._is_elsewhere = True
    with pytest.raises(ProtocolViolation, match="ended while"):
        late.commit()
    assert late.committed is None
    assert (scene.data(), scene.uploads(), scene.work()) == (before, [], [])


def test_job_of_unknown_end_is_left_alone(scene: JobScene, no_pauses: list[float]) -> None:
    sink = Sink(scene.url, filesystem=scene.filesystem)

    def run() -> None:
        commits = [sink.write(0, [TABLE])]
        assert scene.commit(sink.job, commits, Fault(Kind.CRASH_BEFORE, operation="complete_upload")) is None
        raise ZeroDivisionError

    sink.job.setup()
    with pytest.raises(ZeroDivisionError):
        run()
    uploads = scene.uploads()
    assert uploads
    sweep_again(sink.job.spec)
    assert no_pauses
    assert (scene.uploads(), scene.state(sink.job)) == (uploads, "committing")
