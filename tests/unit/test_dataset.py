"""``magicfs.Dataset``: each verb once from end to end, its twin, and what kind of value it is."""

from __future__ import annotations

import asyncio
import inspect
import pickle
import sys
from datetime import date
from pathlib import Path
from typing import Any
from uuid import uuid4

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import magicfs
from magicfs.catalogs import SymlinkManifest
from magicfs.errors import ObjectNotFound, StoreError, UsageError
from magicfs.past.file_facts import PublishedFile
from magicfs.stores.memory.filesystem import MemoryFileSystem
from magicfs.stores.memory.store import World
from proofs.sides.interrupts import URL, CtrlC, Files, with_old

VERBS = sorted(
    name
    for name, one in vars(magicfs.Dataset).items()
    if inspect.isfunction(one) and not name.startswith("_") and not inspect.iscoroutinefunction(one)
)


def days(*names: str, amount: int = 1) -> pa.Table:
    return pa.table({"day": names, "amount": [amount] * len(names)})


def write(dataset: magicfs.Dataset, table: pa.Table, **how: Any) -> magicfs.JobReport:
    how = {"mode": "overwrite_partitions", "keep": "7d", "options": {"footers": True}, **how}
    return magicfs.write(table, str(dataset.url), partition_by="day", **how)


@pytest.fixture
def sales() -> magicfs.Dataset:
    return magicfs.Dataset(f"memory://bucket/{uuid4().hex}")


@pytest.fixture
def runs(sales: magicfs.Dataset) -> list[magicfs.JobReport]:
    return [
        write(sales, days("mon", "tue"), run_id="good"),
        write(sales, days("tue", amount=-1), run_id="bad"),
    ]


def amounts(dataset: magicfs.Dataset, **how: Any) -> list[int]:
    return sorted(dataset.to_arrow(**how).to_table()["amount"].to_pylist())


@pytest.mark.parametrize("said", ["day == 'tue'", [("day", "=", "tue")], True, ""])
def test_a_filter_that_is_no_expression_is_refused_with_how_to_write_it(
    sales: magicfs.Dataset, runs: list[magicfs.JobReport], said: Any
) -> None:
    with pytest.raises(UsageError, match=r'write it like filter=pyarrow\.compute\.field\("day"\) == '):
        sales.to_pandas(filter=said)
    with pytest.raises(UsageError, match=r"filters= was given.* write it like filter=pyarrow"):
        sales.to_pandas(filters=said)


@pytest.mark.parametrize("said", [0, 1, 1.5, ["a"], date(2026, 1, 1), ""])
def test_what_names_no_publication_is_refused(
    sales: magicfs.Dataset, runs: list[magicfs.JobReport], said: Any
) -> None:
    for verb in (lambda as_of: sales.to_arrow(as_of=as_of), sales.rollback, sales.diff, sales.cherry_pick):
        with pytest.raises(UsageError, match="names no publication; give a time"):
            verb(said)


# -- reading ---------------------------------------------------------------------------------------------


def test_it_is_read_as_it_is_and_as_it_was(sales: magicfs.Dataset, runs: list[magicfs.JobReport]) -> None:
    assert amounts(sales) == [-1, 1]
    assert amounts(sales, last=True) == [-1]
    assert amounts(sales, as_of="good") == amounts(sales, as_of=runs[0].job_id) == [1, 1]
    assert sorted(sales.to_pandas(as_of="run:good")["amount"]) == [1, 1]
    assert list(sales.to_pandas(columns=["amount"], filter=pc.field("day") == "tue")["amount"]) == [-1]


def test_files_are_named_with_what_is_known(sales: magicfs.Dataset, runs: list[magicfs.JobReport]) -> None:
    monday, tuesday = sales.files()
    assert isinstance(monday, PublishedFile)
    assert (monday.url, monday.rows) == (f"{sales.url}/{monday.key}", 1)
    assert (monday.partition, tuesday.partition) == ({"day": "mon"}, {"day": "tue"})
    assert monday.size == len(MemoryFileSystem().cat_file(monday.url.removeprefix("memory://")))
    assert sales.files(last=True) == sales.files(job=runs[1].job_id) == [tuesday]
    assert [one.partition["day"] for one in sales.files(job=runs[0].job_id)] == ["mon", "tue"]
    assert sales.files(job="good") == sales.files(job=runs[0].job_id)
    with pytest.raises(ObjectNotFound, match="no job or run nothing was published"):
        sales.files(job="nothing")
    with pytest.raises(UsageError):
        sales.files(job="../x")
    assert tuesday not in sales.files(as_of="good")
    assert list(sales.footers()) == [monday.key, tuesday.key]
    assert [one and one.rows for one in sales.footers(last=True).values()] == [1]


def test_files_need_no_pyarrow_and_the_others_say_so(
    sales: magicfs.Dataset, runs: list[magicfs.JobReport], monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = sales.to_arrow().to_table()
    monkeypatch.setitem(sys.modules, "pyarrow.dataset", None)
    monkeypatch.delitem(sys.modules, "magicfs.tables.arrow_dataset")
    assert len(sales.files()) == len(sales.footers()) == len(runs)
    with pytest.raises(UsageError, match=r"to_arrow needs pyarrow; pip install 'magicfs\[arrow\]'"):
        sales.to_arrow()
    monkeypatch.setattr(magicfs.Dataset, "to_arrow", lambda *_, **__: _WithoutPandas(frame))
    with pytest.raises(UsageError, match="to_pandas needs pandas"):
        sales.to_pandas()


class _WithoutPandas:
    def __init__(self, table: pa.Table) -> None:
        self.num_rows = table.num_rows

    def to_table(self, **_: Any) -> _WithoutPandas:
        return self

    def to_pandas(self) -> None:
        raise ModuleNotFoundError("No module named 'pandas'")


@pytest.mark.parametrize("verb", ["files", "to_arrow", "footers"])
def test_one_job_and_a_moment_are_not_asked_for_at_once(sales: magicfs.Dataset, verb: str) -> None:
    with pytest.raises(UsageError, match="give either as_of or one job"):
        getattr(sales, verb)(last=True, as_of="good")


# -- changing --------------------------------------------------------------------------------------------


def test_it_is_rolled_back_and_forward(sales: magicfs.Dataset, runs: list[magicfs.JobReport]) -> None:
    assert sales.tag("gold", "good") == runs[0].job_id
    assert [one.job_id for one in sales.rollback("gold", dry_run=True).effects.publications] == [
        runs[1].job_id
    ]
    back = sales.rollback("gold", run_id="undo")  # keeps what it replaces, unasked
    assert amounts(sales) == [1, 1]
    assert sales.rollback("gold", keep="1d", run_id="undo").published_before
    sales.rollback(runs[1].job_id, partitions="day=tue", keep="1d")
    assert amounts(sales) == [-1, 1]
    history = sales.history()
    assert [one.restores for one in history] == [runs[1].job_id, runs[0].job_id, None, None]
    assert history[-1].tags == ("gold",)
    assert [one.job_id for one in sales.history(limit=2)][1] == back.job_id
    assert (sales.untag("gold"), sales.untag("gold")) == (True, False)


@pytest.mark.usefixtures("runs")
def test_files_are_dropped_and_kept_ones_expire(sales: magicfs.Dataset) -> None:
    assert sales.drop(where=lambda file: file.rows == 1 and file.url.endswith("x")).files == 0
    assert sales.drop(partitions="day=mon", keep=None).files == 1
    assert amounts(sales) == [-1]
    done = sales.expire()
    assert (done.files, done.keeping) == (0, 1)


def test_it_is_maintained_and_checked(sales: magicfs.Dataset, tmp_path: Path) -> None:
    for number in range(3):
        write(sales, days("mon", amount=number), mode="append", keep=None)
    assert sales.rewrite(dry_run=True).files == 3
    assert sales.rewrite().new_files == 1
    assert sales.rewrite().files == 0
    assert amounts(sales) == [0, 1, 2]
    assert sales.compact().manifests == 4
    assert sales.compact().manifest is None
    assert sales.verify(deep=True).ok
    assert sales.doctor().ok
    assert sales.recover().jobs == ()
    assert sales.adopt().problem == ""
    lake = magicfs.Dataset((tmp_path / "lake").as_uri())
    magicfs.write(days("mon"), str(lake.url), mode="append")
    assert lake.register(SymlinkManifest()).changed
    assert not lake.register(SymlinkManifest()).changed


def test_a_dead_job_is_recovered(sales: magicfs.Dataset) -> None:
    job = magicfs.Job(str(sales.url), mode="append").setup()
    [left] = sales.recover().jobs
    assert (left.job_id, left.action) == (job.id, "left")
    assert sales.recover(job=job.id, abort=True).jobs[0].action == "aborted"


def test_nothing_is_there() -> None:
    nothing = magicfs.Dataset("memory://bucket/nothing was published here")
    assert nothing.history() == []
    for verb in (nothing.files, nothing.to_arrow, nothing.to_pandas, nothing.footers, nothing.verify):
        with pytest.raises(ObjectNotFound):
            verb()


# -- twins -----------------------------------------------------------------------------------------------


def test_each_verb_has_a_twin_of_the_same_arguments() -> None:
    assert len(VERBS) == 20
    for name in VERBS:
        verb, twin = getattr(magicfs.Dataset, name), getattr(magicfs.Dataset, f"a{name}")
        assert inspect.iscoroutinefunction(twin), name
        assert inspect.signature(twin) == inspect.signature(verb)
        assert (twin.__name__, twin.__qualname__) == (f"a{name}", f"Dataset.a{name}")
        assert pickle.loads(pickle.dumps(twin)) is twin


def test_twins_answer_and_raise_alike(sales: magicfs.Dataset, runs: list[magicfs.JobReport]) -> None:
    async def main() -> None:
        assert await sales.ahistory(limit=1) == sales.history(limit=1)
        assert [one.key for one in await sales.afiles()] == [one.key for one in sales.files()]
        assert len(await sales.ato_pandas()) == len(runs)
        both = await asyncio.gather(sales.averify(), sales.atag("x"))
        assert (both[0].ok, both[1]) == (True, runs[1].job_id)
        with pytest.raises(ObjectNotFound):
            await sales.arollback("no such run", keep=None)

    asyncio.run(main())


def test_a_twin_that_is_cancelled_stops_the_verb() -> None:
    hook = CtrlC(1)
    world = with_old()

    async def main() -> None:
        running = asyncio.ensure_future(magicfs.Dataset(URL, filesystem=Files(world, hook)).averify())
        await asyncio.to_thread(hook.reached.wait, 30)
        running.cancel()
        await asyncio.sleep(0.05)
        hook.told.set()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(main())
    assert hook.seen <= 2


# -- a value ---------------------------------------------------------------------------------------------


def test_it_is_a_value_that_opens_nothing() -> None:
    one = magicfs.Dataset("s3://bucket/sales", storage_options={"secret": "shh"})
    assert one == magicfs.Dataset("s3://bucket/sales", storage_options={"secret": "shh"})
    assert one != magicfs.Dataset("s3://bucket/sales")
    assert one != magicfs.Dataset("s3://bucket/other", storage_options={"secret": "shh"})
    assert len({one, pickle.loads(pickle.dumps(one))}) == 1
    assert repr(one) == "Dataset(url='s3://bucket/sales', release=None)"
    with pytest.raises(AttributeError):
        one.url = "s3://bucket/other"  # type: ignore[misc]


def test_wrong_arguments_are_refused_when_it_is_made() -> None:
    with pytest.raises(UsageError, match="not both"):
        magicfs.Dataset("s3://b/d", storage_options={"key": "k"}, filesystem=MemoryFileSystem())
    with pytest.raises(TypeError, match="unexpected keyword"):
        magicfs.Dataset("s3://b/d", options={})  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="positional"):
        magicfs.Dataset("s3://b/d", {"key": "k"})  # type: ignore[misc]


def test_it_is_shown_in_one_screen(sales: magicfs.Dataset, runs: list[magicfs.JobReport]) -> None:
    told, job = str(sales).splitlines(), runs[1].job_id
    assert told[0] == f"dataset     {sales.url}"
    assert told[1].startswith(f"newest      job {job}, run bad, overwrite_partitions, ")
    assert told[2].startswith("files       2 (2 rows, ")
    shown = sales._repr_html_()
    assert shown.startswith("<table>")
    assert f"job {job}, run bad" in shown
    history = sales.history()
    assert str(history).splitlines()[0].split() == ["PUBLISHED", "JOB", "MODE", "FILES", "SIZE", *KEPT]
    assert [line.split()[-1] for line in str(history).splitlines()[1:]] == ["bad", "good"]
    assert history._repr_html_().count("<tr>") == 3
    assert str(pickle.loads(pickle.dumps(history))) == str(history)


KEPT = ["KEEPS", "UNTIL", "TAGS", "RUN"]


@pytest.mark.usefixtures("runs")
def test_what_verbs_return_is_a_table_in_a_notebook(sales: magicfs.Dataset) -> None:
    assert f"url             {sales.url}" in str(sales.verify()).splitlines()
    assert "ok; " in str(sales.doctor())
    shown = sales.compact()._repr_html_()
    assert shown.startswith("<table><tr><th style='text-align:left'>url</th>")
    assert "manifests" in shown
    assert "adopted" not in sales.adopt()._repr_html_(), "nothing was"
    assert "<td style='text-align:left'>True</td>" in sales.verify()._repr_html_()
    assert "versions</th><td style='text-align:left'>ok; magicfs" in sales.doctor()._repr_html_()
    assert "<td style='text-align:left'>bad</td>" in sales.history()[0]._repr_html_()


def test_what_cannot_be_shown_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "newest      nothing was published there" in str(magicfs.Dataset("memory://bucket/empty of all"))
    assert "<td style='text-align:left'>&#x27;&lt;b&gt;&#x27; has no scheme" in (
        magicfs.Dataset("<b>")._repr_html_()
    )

    def refuse(*_: Any, **__: Any) -> None:
        raise StoreError("get", "bucket/sales", "refused")

    monkeypatch.setattr(magicfs.Dataset, "status", refuse)
    there = magicfs.Dataset("memory://bucket/sales", filesystem=MemoryFileSystem(world=World()))
    assert "refused" in there._repr_html_()
    assert "problem" in str(there)


class TestColumns:
    """What readers are shown of columns that names of directories hold, and of those that came later."""

    @pytest.fixture
    def url(self) -> str:
        return f"memory://lake/{uuid4()}"

    def rows(self, url: str) -> list[dict[str, Any]]:
        return sorted(magicfs.Dataset(url).to_arrow().to_table().to_pylist(), key=lambda row: int(row["id"]))

    @pytest.mark.parametrize(
        ("values", "kind"),
        [
            (["02134", "94103"], pa.string()),
            (["7", "-8"], pa.int32()),
            (["3000000000", "0"], pa.int64()),
            (["9" * 19, "1"], pa.string()),
            (["2026-11-25", "2026-11-26"], pa.string()),
            (["a/b #%", None], pa.string()),
            ([None, None], pa.string()),
        ],
    )
    def test_a_number_is_one_only_if_each_value_is_written_so(
        self, url: str, values: list[str | None], kind: pa.DataType
    ) -> None:
        table = pa.table({"id": [0, 1], "p": pa.array(values, pa.string())})
        magicfs.write(table, url, partition_by="p")
        assert magicfs.Dataset(url).to_arrow().schema.field("p").type == kind
        assert [row["p"] if row["p"] is None else str(row["p"]) for row in self.rows(url)] == values

    def test_rows_that_are_read_and_written_back_stay_in_their_partitions(self, url: str) -> None:
        table = pa.table({"id": [0, 1], "zip": ["02134", "94103"]})
        magicfs.write(table, url, partition_by="zip")
        read = magicfs.Dataset(url).to_arrow().to_table()
        magicfs.write(read, url, partition_by="zip", mode="overwrite_partitions")
        assert self.rows(url) == table.to_pylist()

    def test_numbers_beside_text_that_looks_like_them_are_refused(self, url: str) -> None:
        magicfs.write(pa.table({"id": [0], "zip": ["02134"]}), url, partition_by="zip")
        with pytest.raises(UsageError, match="'02134', but the new int64 would be written as a number"):
            magicfs.write(pa.table({"id": [1], "zip": [2134]}), url, partition_by="zip", mode="append")

    def test_an_index_that_both_frames_have_is_compared(self, url: str) -> None:
        frame = pd.DataFrame({"id": [1, 3, 2, 4], "p": list("acbd")})
        magicfs.write(frame[frame["id"] != 2], url, partition_by="p")
        named = frame[frame["id"] == 2].set_axis(["x"])
        with pytest.raises(UsageError, match="'__index_level_0__' is int64 in the existing files"):
            magicfs.write(named, url, partition_by="p", mode="append")

    def test_a_connection_of_duckdb_is_no_data(self, url: str) -> None:
        with duckdb.connect() as connection, pytest.raises(UsageError, match="pass a relation, such as con"):
            magicfs.write(connection, url)

    def test_a_day_that_is_no_run_says_so_first(self, url: str) -> None:
        magicfs.write(pa.table({"id": [0]}), url, run_id="2026-11-25")
        with pytest.raises(UsageError, match="no job, run or tag '2026-11-26' is there, and as a time"):
            magicfs.Dataset(url).to_arrow(as_of="2026-11-26")

    def test_a_directory_of_a_dataset_is_no_dataset(self, url: str) -> None:
        magicfs.write(pa.table({"id": [0], "day": ["mon"]}), url, partition_by="day")
        with pytest.raises(UsageError, match=f"day=mon is not a dataset, but {url} is; use that URL"):
            magicfs.Dataset(f"{url}/day=mon").to_arrow()

    def test_a_directory_above_datasets_is_none_and_is_not_adopted(self, url: str) -> None:
        magicfs.write(pa.table({"id": [0], "day": ["mon"]}), f"{url}/a", partition_by="day")
        above = magicfs.Dataset(url)
        with pytest.raises(UsageError, match=f"{url} is not a dataset, but {url}/a is; use that URL"):
            above.verify()
        for dry_run in (True, False):
            with pytest.raises(UsageError, match="contains the dataset a; adopt each by its own URL"):
                above.adopt(dry_run=dry_run)
        magicfs.write(pa.table({"id": [1]}), f"{url}/a", mode="overwrite")

    @pytest.mark.parametrize("last", [None, "z"])
    def test_a_column_that_came_later_is_read_and_is_null_before(self, url: str, last: str | None) -> None:
        for number, (part, note) in enumerate([("a", None), ("b", "x"), ("0", last)]):
            columns = {"id": [number], "p": [part]} | ({"note": [note]} if number else {})
            magicfs.write(pa.table(columns), url, partition_by="p", mode="append")
        assert [row["note"] for row in self.rows(url)] == [None, "x", last]

    def test_the_index_of_a_frame_that_was_filtered_keeps_nobody_from_writing(self, url: str) -> None:
        frame = pd.DataFrame({"id": [1, 3, 2, 4], "p": list("acbd")})
        magicfs.write(frame[frame["id"] != 2], url, partition_by="p")
        magicfs.write(frame[frame["id"] == 2].reset_index(drop=True), url, partition_by="p", mode="append")
        assert [row["id"] for row in self.rows(url)] == [1, 2, 3, 4]

    @pytest.mark.parametrize("first", [0, 1])
    def test_a_day_and_a_moment_are_not_two_partitions(self, url: str, first: int) -> None:
        kinds = [pa.date32(), pa.timestamp("us")]
        days = [pa.array([date(2026, 11, 25)], pa.date32()).cast(kind) for kind in kinds]
        magicfs.write(pa.table({"id": [0], "day": days[first]}), url, partition_by="day")
        with pytest.raises(UsageError, match=r"cast it to a (date|timestamp)"):
            table = pa.table({"id": [0], "day": days[1 - first]})
            magicfs.write(table, url, partition_by="day", mode="overwrite_partitions")

    @pytest.mark.parametrize("verb", ["rollback", "rewrite"])
    @pytest.mark.parametrize("compacted", [False, True])
    def test_a_column_that_came_later_stays_when_an_older_partition_is_published_last(
        self, url: str, verb: str, compacted: bool
    ) -> None:
        how: Any = {"partition_by": "p", "mode": "overwrite_partitions", "keep": "7d"}
        dataset = magicfs.Dataset(url)
        for number in range(2):
            first = magicfs.write(
                pa.table({"id": [0], "p": ["a"]}), url, **how, options={"label": f"{number}"}
            )
        magicfs.write(pa.table({"id": [1], "p": ["b"]}), url, partition_by="p", mode="append")
        magicfs.write(pa.table({"id": [2], "p": ["b"]}), url, partition_by="p", mode="append")
        magicfs.write(pa.table({"id": [3], "p": ["z"], "note": ["x"]}), url, partition_by="p", mode="append")
        if verb == "rollback":
            dataset.rollback(first.job_id, partitions="p=a", keep="7d")
        else:
            dataset.rewrite(partitions="p=b")
        if compacted:
            dataset.compact()
        assert [row["note"] for row in self.rows(url)] == [None, None, None, "x"]
