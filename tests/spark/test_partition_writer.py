from __future__ import annotations

import datetime as dt
import io
import threading
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import magicfs
from magicfs.errors import UsageError
from magicfs.tables import partition_split, partition_writer
from magicfs.tables.output_files import FileName
from magicfs.tables.partition_names import HIVE_DEFAULT_PARTITION
from magicfs.tables.partition_writer import PartitionWriter
from tests.sample import examples

NAME = FileName("part-00003", ".zstd.parquet")


class Files:
    """Files in memory that count how many of them are open."""

    def __init__(self) -> None:
        self.open = 0
        self.open_most = 0
        self.lock = threading.Lock()
        self.closed: dict[str, bytes] = {}
        self.aborted: list[str] = []

    def __call__(self, path: str) -> _File:
        return _File(self, path)

    def table(self, path: str) -> pa.Table:
        return pq.read_table(pa.BufferReader(self.closed[path]), partitioning=None)

    def rows(self, *names: str) -> Counter[tuple[Any, ...]]:
        """Every row with the values in its directory, as text, before its own."""
        found: Counter[tuple[Any, ...]] = Counter()
        for path in self.closed:
            values = [unquote(element.partition("=")[2]) for element in path.split("/")[:-1]]
            for row in self.table(path).select(list(names)).to_pylist():
                found[*values, *row.values()] += 1
        return found


class _File(io.BytesIO):
    def __init__(self, files: Files, path: str) -> None:
        super().__init__()
        assert path not in files.closed
        with files.lock:
            files.open += 1
            files.open_most = max(files.open_most, files.open)
        self._files = files
        self._path = path

    def close(self) -> None:
        if not self.closed:
            with self._files.lock:
                self._files.open -= 1
            self._files.closed[self._path] = self.getvalue()
        super().close()

    def abort(self) -> None:
        if not self.closed:
            with self._files.lock:
                self._files.open -= 1
            self._files.aborted.append(self._path)
            super().close()


@pytest.fixture
def files() -> Files:
    return Files()


def test_rows_without_partition_columns_go_into_one_file(files: Files) -> None:
    with PartitionWriter(files, NAME) as writer:
        for start in range(0, 100, 10):
            writer.write(pa.record_batch({"id": list(range(start, start + 10))}))
    assert list(files.closed) == ["part-00003.zstd.parquet"]
    assert files.table("part-00003.zstd.parquet")["id"].to_pylist() == list(range(100))
    assert pq.ParquetFile(pa.BufferReader(files.closed["part-00003.zstd.parquet"])).num_row_groups == 1


def test_no_rows_make_no_file(files: Files) -> None:
    with PartitionWriter(files, NAME, partition_by=["p"]) as writer:
        writer.write(pa.record_batch({"id": pa.array([], pa.int64()), "p": pa.array([], pa.string())}))
    assert files.closed == {}
    assert files.open_most == 0


def test_each_partition_value_gets_a_file_without_its_column(files: Files) -> None:
    batch = pa.record_batch({"year": [1, 2, 1, 2], "id": [1, 2, 3, 4], "who": ["a/b", None, "a/b", ""]})
    with PartitionWriter(files, NAME, partition_by=["year", "who"]) as writer:
        writer.write(batch)
    one, two = "year=1/who=a%2Fb/part-00003.zstd.parquet", f"year=2/who={HIVE_DEFAULT_PARTITION}"
    assert sorted(files.closed) == [one, f"{two}/part-00003.zstd.parquet"]
    assert files.table(one).to_pydict() == {"id": [1, 3]}
    assert files.table(f"{two}/part-00003.zstd.parquet").to_pydict() == {"id": [2, 4]}


def test_types_and_metadata_are_kept(files: Files) -> None:
    batch = pa.record_batch(
        {
            "moment": pa.array([dt.datetime(2026, 1, 1, tzinfo=dt.UTC)], pa.timestamp("us", "Europe/Berlin")),
            "local": pa.array([dt.datetime(2026, 1, 1)], pa.timestamp("us")),
            "price": pa.array([Decimal("1.50")], pa.decimal128(9, 2)),
            "tags": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int32())),
        }
    )
    with PartitionWriter(files, NAME, metadata={"made.by": "é"}) as writer:
        writer.write(batch)
    table = files.table("part-00003.zstd.parquet")
    assert table.schema.equals(batch.schema)
    assert table.to_pylist() == batch.to_pylist()
    assert table.schema.metadata == {b"made.by": "é".encode()}


@pytest.mark.parametrize(
    ("values", "kind", "directories"),
    [
        ([1, -1], pa.int8(), ["p=-1", "p=1"]),
        ([True, False], pa.bool_(), ["p=false", "p=true"]),
        ([Decimal("1.50"), Decimal(-2)], pa.decimal128(9, 2), ["p=-2.00", "p=1.50"]),
        ([dt.date(2026, 1, 31)], pa.date32(), ["p=2026-01-31"]),
        (
            [dt.datetime(2026, 1, 31, 23, 30, tzinfo=dt.UTC)],
            pa.timestamp("us", "Europe/Berlin"),
            ["p=2026-01-31 23%3A30%3A00Z"],
        ),
        ([dt.datetime(2026, 1, 31, 8)], pa.timestamp("us"), ["p=2026-01-31 08%3A00%3A00"]),
        (["é #+"], pa.large_string(), ["p=é %23+"]),
    ],
)
def test_values_of_every_type_name_directories(
    files: Files, values: list[Any], kind: pa.DataType, directories: list[str]
) -> None:
    with PartitionWriter(files, NAME, partition_by=["p"]) as writer:
        writer.write(pa.record_batch({"p": pa.array(values, kind), "id": list(range(len(values)))}))
    assert sorted(path.rpartition("/")[0] for path in files.closed) == directories


@pytest.mark.parametrize("kind", [pa.float64(), pa.binary(), pa.list_(pa.int8())])
def test_a_type_without_text_is_refused_by_column(files: Files, kind: pa.DataType) -> None:
    batch = pa.record_batch({"p": pa.array([None], kind), "id": [1]})
    with pytest.raises(UsageError, match=r"partition column 'p' has type .* cast it to string"):
        PartitionWriter(files, NAME, partition_by=["p"]).write(batch)


def test_a_missing_column_is_refused_with_those_that_are_there(files: Files) -> None:
    with pytest.raises(UsageError, match="'q' is missing; the columns are p, id"):
        PartitionWriter(files, NAME, partition_by=["q"]).write(pa.record_batch({"p": [1], "id": [1]}))


def test_never_more_files_are_open_than_allowed_and_a_partition_may_have_several(files: Files) -> None:
    with PartitionWriter(files, NAME, partition_by=["p"], files_max=3, buffer_bytes=1) as writer:
        for turn in range(3):
            for p in range(5):
                writer.write(pa.record_batch({"p": [p], "id": [turn]}))
    assert files.open_most == 3
    assert files.open == 0
    assert files.rows("id") == Counter({(str(p), turn): 1 for p in range(5) for turn in range(3)})
    names = sorted(path for path in files.closed if path.startswith("p=0/"))
    assert names == [
        "p=0/part-00003-c001.zstd.parquet",
        "p=0/part-00003-c002.zstd.parquet",
        "p=0/part-00003.zstd.parquet",
    ]


def test_the_file_that_was_written_least_recently_is_the_one_that_goes(files: Files) -> None:
    writer = PartitionWriter(files, NAME, partition_by=["p"], files_max=2, buffer_bytes=1)
    for p in ("a", "b", "a", "c"):
        writer.write(pa.record_batch({"p": [p], "id": [1]}))
    assert list(files.closed) == ["p=b/part-00003.zstd.parquet"]
    writer.close()


def test_memory_is_bounded_by_writing_row_groups_out(files: Files) -> None:
    batch = pa.record_batch({"id": list(range(1000))})
    with PartitionWriter(files, NAME, buffer_bytes=3 * batch.nbytes) as writer:
        for _ in range(8):
            writer.write(batch)
    parquet = pq.ParquetFile(pa.BufferReader(files.closed["part-00003.zstd.parquet"]))
    assert [parquet.metadata.row_group(n).num_rows for n in range(parquet.num_row_groups)] == [4000, 4000]


@pytest.mark.parametrize(
    ("partitions", "split"),
    [
        pytest.param(2, [10_000] * 4, id="few partitions: each batch as it is"),
        pytest.param(5, [10_000, 30_000], id="several: batches are put together"),
    ],
)
def test_batches_are_copied_together_only_as_far_as_their_partitions_ask_for(
    partitions: int, split: list[int], files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    real = partition_split.split

    def watched(batch: pa.RecordBatch, *given: Any, **options: Any) -> Any:
        seen.append(batch.num_rows)
        return real(batch, *given, **options)

    monkeypatch.setattr(partition_split, "split", watched)
    monkeypatch.setattr(partition_writer, "_LUMP_BYTES", 10_000 * 16)
    batches = [
        pa.record_batch({"n": range(10_000), "day": [n % partitions for n in range(10_000)]})
        for _ in range(4)
    ]
    with PartitionWriter(files, NAME, partition_by=["day"]) as writer:
        writer.write(batches[0])
        monkeypatch.setattr(partition_writer, "_LUMP_BYTES", 2**30)
        for batch in batches[1:]:
            writer.write(batch)
    assert seen == split
    assert sum(files.table(path).num_rows for path in files.closed) == 40_000


@settings(max_examples=examples(60))
@given(
    batches=st.lists(
        st.lists(
            st.tuples(st.sampled_from([None, "", "a", "b/c", "%"]), st.integers(0, 3), st.integers()),
            max_size=30,
        ),
        max_size=6,
    ),
    files_max=st.integers(1, 4),
    buffer_bytes=st.integers(1, 2000),
)
def test_every_row_is_written_once_into_the_file_of_its_values(
    batches: list[list[tuple[str | None, int, int]]], files_max: int, buffer_bytes: int
) -> None:
    files = Files()
    schema = pa.schema([("who", pa.string()), ("n", pa.int32()), ("id", pa.string())])
    with PartitionWriter(
        files, NAME, partition_by=["n", "who"], files_max=files_max, buffer_bytes=buffer_bytes
    ) as writer:
        for rows in batches:
            columns = [[who for who, _, _ in rows], [n for _, n, _ in rows], [str(i) for _, _, i in rows]]
            writer.write(pa.record_batch(columns, schema=schema))
    expected = Counter(
        (str(n), who or HIVE_DEFAULT_PARTITION, str(i)) for rows in batches for who, n, i in rows
    )
    assert files.rows("id") == expected
    assert files.open == 0
    assert files.open_most <= files_max


def test_a_failing_body_aborts_every_open_file_and_finishes_none(files: Files) -> None:
    def rows() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"p": [1, 2], "id": [1, 2]})
        raise RuntimeError("upstream")

    def write() -> None:
        with PartitionWriter(files, NAME, partition_by=["p"], buffer_bytes=1) as writer:
            for batch in rows():
                writer.write(batch)

    with pytest.raises(RuntimeError, match="upstream"):
        write()
    assert files.open == 0
    assert files.closed == {}
    assert sorted(files.aborted) == [f"p={p}/part-00003.zstd.parquet" for p in (1, 2)]


def test_a_value_that_no_key_can_hold_aborts_what_is_open(files: Files) -> None:
    def write() -> None:
        with PartitionWriter(files, NAME, partition_by=["p"], buffer_bytes=1) as writer:
            writer.write(pa.record_batch({"p": ["fine"], "id": [1]}))
            writer.write(pa.record_batch({"p": ["bad\0"], "id": [2]}))

    with pytest.raises(UsageError, match=r"U\+0000"):
        write()
    assert files.closed == {}
    assert files.aborted == ["p=fine/part-00003.zstd.parquet"]


@pytest.mark.parametrize("buffer_bytes", [1, 10_000], ids=["opened before", "opened at the end"])
def test_a_file_that_cannot_be_written_leaves_none_open(files: Files, buffer_bytes: int) -> None:
    class Full(_File):
        def write(self, data: Any) -> int:
            if self.tell() + len(data) > 100:
                raise OSError("no space left")
            return super().write(data)

    writer = PartitionWriter(
        lambda path: (Full if path.startswith("p=3/") else _File)(files, path),
        NAME,
        partition_by=["p"],
        buffer_bytes=buffer_bytes,
    )

    def write() -> None:
        with writer:
            writer.write(pa.record_batch({"p": [1, 2, 3, 4], "id": [1, 2, 3, 4]}))

    with pytest.raises(OSError, match="no space left"):
        write()
    assert files.open == 0
    assert files.aborted.count("p=3/part-00003.zstd.parquet") == 1
    assert len(files.closed) + len(files.aborted) <= 4
    writer.close()
    assert "p=3/part-00003.zstd.parquet" not in files.closed


def batches_of(*sizes: int) -> Iterator[pa.RecordBatch]:
    start = 0
    for size in sizes:
        yield pa.record_batch({"id": list(range(start, start + size))})
        start += size


def groups(files: Files, path: str) -> list[int]:
    metadata = pq.read_metadata(pa.BufferReader(files.closed[path]))
    return [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]


@pytest.mark.parametrize("buffer_bytes", [1, 2000, 10**9])
def test_a_new_file_begins_after_so_many_rows(files: Files, buffer_bytes: int) -> None:
    with PartitionWriter(files, NAME, max_records_per_file=100, buffer_bytes=buffer_bytes) as writer:
        for batch in batches_of(30, 250, 20, 1):
            writer.write(batch)
    names = [f"part-00003{number}.zstd.parquet" for number in ("", "-c001", "-c002", "-c003")]
    assert sorted(files.closed) == sorted(names)
    assert [files.table(name).num_rows for name in names] == [100, 100, 100, 1]
    assert [row for name in names for row in files.table(name)["id"].to_pylist()] == list(range(301))
    assert (writer.rows, writer.files) == (301, 4)
    assert writer.bytes == sum(map(len, files.closed.values()))


def test_rows_that_fill_a_file_to_the_brim_begin_no_other(files: Files) -> None:
    with PartitionWriter(files, NAME, max_records_per_file=100) as writer:
        for batch in batches_of(100, 100):
            writer.write(batch)
    assert len(files.closed) == 2


def test_row_groups_have_the_rows_that_were_asked_for_whatever_comes_at_once(files: Files) -> None:
    with PartitionWriter(files, NAME, row_group_size=100, buffer_bytes=8 * 150) as writer:
        for batch in batches_of(*[70] * 10):
            writer.write(batch)
    assert groups(files, "part-00003.zstd.parquet") == [100] * 7
    assert files.table("part-00003.zstd.parquet")["id"].to_pylist() == list(range(700))


def test_a_full_buffer_writes_smaller_row_groups(files: Files) -> None:
    with PartitionWriter(files, NAME, row_group_size=1000, buffer_bytes=8 * 150) as writer:
        for batch in batches_of(*[100] * 4):
            writer.write(batch)
    assert groups(files, "part-00003.zstd.parquet") == [200, 200]


def test_a_partition_of_sorted_rows_is_finished_when_the_next_begins(files: Files) -> None:
    with PartitionWriter(
        files, NAME, partition_by=["p", "q"], input_sorted=True, buffer_bytes=1, files_max=2
    ) as writer:
        for p in range(6):
            for qs in ([1, 1, 2], [2, 0]):
                writer.write(pa.record_batch({"p": [p] * len(qs), "q": qs, "id": [p] * len(qs)}))
    assert len(files.closed) == writer.files == 6 * 3
    assert files.open_most <= 2
    assert files.rows("id") == Counter(
        {(str(p), str(q), p): n for p in range(6) for q, n in ((1, 2), (2, 2), (0, 1))}
    )


def test_sorted_rows_of_many_batches_make_one_file_for_each_value(files: Files) -> None:
    # Put together before they are split, values that are new come before old ones in other columns.
    with PartitionWriter(files, NAME, partition_by=["p", "q"], input_sorted=True) as writer:
        for p, q in [("a", 1), ("a", 2), ("b", 0), ("b", 1)]:
            writer.write(pa.record_batch({"p": [p], "q": [q], "id": [1]}))
    assert len(files.closed) == 4


def test_rows_said_to_be_sorted_that_are_not_are_all_written(files: Files) -> None:
    with PartitionWriter(files, NAME, partition_by=["p"], input_sorted=True, buffer_bytes=1) as writer:
        writer.write(pa.record_batch({"p": [1, 2, 1, 2, 2], "id": [1, 2, 3, 4, 5]}))
    assert len(files.closed) == 4
    assert files.rows("id") == Counter({("1", 1): 1, ("1", 3): 1, ("2", 2): 1, ("2", 4): 1, ("2", 5): 1})


@settings(max_examples=examples(60))
@given(
    sizes=st.lists(st.integers(1, 60), max_size=8),
    group=st.none() | st.integers(1, 40),
    limit=st.none() | st.integers(1, 70),
    buffer_bytes=st.integers(1, 1500),
    input_sorted=st.booleans(),
)
def test_limits_lose_no_row_and_are_kept(
    sizes: list[int], group: int | None, limit: int | None, buffer_bytes: int, input_sorted: bool
) -> None:
    files = Files()
    with PartitionWriter(
        files,
        NAME,
        partition_by=["p"],
        row_group_size=group,
        max_records_per_file=limit,
        buffer_bytes=buffer_bytes,
        input_sorted=input_sorted,
        files_max=2,
    ) as writer:
        for batch in batches_of(*sizes):
            values = pa.array([number * 3 // (sum(sizes) + 1) for number in batch["id"].to_pylist()])
            writer.write(batch.append_column("p", values))
    total = sum(sizes)
    assert files.rows("id") == Counter({(str(one * 3 // (total + 1)), one): 1 for one in range(total)})
    assert files.open_most <= 2
    for path in files.closed:
        assert limit is None or files.table(path).num_rows <= limit
        assert group is None or max(groups(files, path)) <= group


def test_a_file_that_cannot_be_finished_in_the_background_fails_the_write(files: Files) -> None:
    class Refused(_File):
        def close(self) -> None:
            if not self.closed:
                raise OSError("no space left")

    def write() -> None:
        with PartitionWriter(
            lambda path: (Refused if path.startswith("p=1/") else _File)(files, path),
            NAME,
            partition_by=["p"],
            buffer_bytes=1,
            files_max=2,
        ) as writer:
            for p in range(5):
                writer.write(pa.record_batch({"p": [p], "id": [p]}))

    with pytest.raises(OSError, match="no space left"):
        write()
    assert files.open == 0
    assert "p=1/part-00003.zstd.parquet" in files.aborted
    assert "p=1/part-00003.zstd.parquet" not in files.closed


def test_the_files_of_a_task_become_visible_with_its_job() -> None:
    batch = pa.record_batch({"carrier": ["AA", "é b", None], "id": [1, 2, 3]})
    with magicfs.Job(
        "memory://partition-writer/data set", mode="append", options={"tracking": "memory"}
    ) as job:
        with (
            job.task(7) as task,
            PartitionWriter(
                lambda name: task.filesystem.open(f"{task.path}/{name}", "wb"), NAME, partition_by=["carrier"]
            ) as writer,
        ):
            writer.write(batch)
        filesystem = job.spec.wrapped()
        (key,) = filesystem.find("partition-writer/data set")
        assert key.endswith("/job.json")
    found = [one for one in filesystem.find("partition-writer/data set") if "/_magicfs/" not in one]
    suffix = f"part-00003-000007-{job.id}.zstd.parquet"
    assert found == [
        "partition-writer/data set/_SUCCESS",
        f"partition-writer/data set/carrier=AA/{suffix}",
        f"partition-writer/data set/carrier={HIVE_DEFAULT_PARTITION}/{suffix}",
        f"partition-writer/data set/carrier=é b/{suffix}",
    ]
    read = pq.read_table(pa.BufferReader(filesystem.cat_file(found[1])))
    assert read.to_pydict() == {"id": [1]}
