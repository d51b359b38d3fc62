"""Columns whose values hardly repeat get no dictionary in Parquet; the files become smaller, never larger."""

from __future__ import annotations

import io
import random
from datetime import date, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from magicfs.tables.dictionaries import columns_worth_a_dictionary
from magicfs.tables.output_files import FileName
from magicfs.tables.partition_writer import PartitionWriter

ROWS = 100_000
_RANDOM = random.Random(1)
COLUMNS: dict[str, list[Any]] = {
    "counted": list(range(ROWS)),
    "floating": [_RANDOM.random() for _ in range(ROWS)],
    "text": [f"{_RANDOM.getrandbits(64):x}" for _ in range(ROWS)],
    "mostly null": [n if n % 50 == 0 else None for n in range(ROWS)],
    "few": [n % 1000 for n in range(ROWS)],
    "sorted": [n // 4 for n in range(ROWS)],  # repeated next to each other only
    "half": [_RANDOM.randrange(ROWS // 2) for _ in range(ROWS)],
    "words": [_RANDOM.choice(["A", "N", "R"]) for _ in range(ROWS)],
    "days": [date(2026, 1, 1) + timedelta(n % 365) for n in range(ROWS)],
    "flags": [n % 2 == 0 for n in range(ROWS)],
    "nothing": [None] * ROWS,
}
WITHOUT = {"counted", "floating", "text", "mostly null"}


class Kept(io.BytesIO):
    def close(self) -> None:
        """Its content is looked at later."""

    def abort(self) -> None:
        raise AssertionError


def written(table: pa.Table) -> Kept:
    file = Kept()
    with PartitionWriter(lambda _: file, FileName("part", ".parquet")) as writer:
        for batch in table.to_batches(max_chunksize=30_000):
            writer.write(batch)
    return file


def with_dictionary(file: Kept) -> set[str]:
    group = pq.read_metadata(pa.BufferReader(file.getvalue())).row_group(0)
    columns = [group.column(n) for n in range(group.num_columns)]
    return {one.path_in_schema for one in columns if one.has_dictionary_page}


@pytest.mark.parametrize("chunks", [1, 7])
def test_columns_are_told_by_how_often_values_repeat(chunks: int) -> None:
    table = pa.table(COLUMNS)
    table = pa.concat_tables(table.slice(n * ROWS // chunks, ROWS // chunks + 1) for n in range(chunks))
    assert set(columns_worth_a_dictionary(table) or ()) == set(COLUMNS) - WITHOUT


@pytest.mark.parametrize("name", COLUMNS)
def test_a_file_is_not_larger_than_with_dictionaries_for_all(name: str) -> None:
    table, always = pa.table({name: COLUMNS[name]}), io.BytesIO()
    pq.write_table(table, always)
    file = written(table)
    assert pq.read_table(pa.BufferReader(file.getvalue())).equals(table)
    assert len(file.getvalue()) <= 1.01 * len(always.getvalue()) + 100
    if name in WITHOUT:
        assert with_dictionary(file) == set()


def test_few_rows_and_nested_columns_are_as_pyarrow_makes_them() -> None:
    few = pa.table({"n": range(1000)})
    assert with_dictionary(written(few)) == {"n"}
    nested = pa.table({"n": range(ROWS), "s": [{"x": n % 2} for n in range(ROWS)]})
    assert columns_worth_a_dictionary(nested) is None
    assert with_dictionary(written(nested)) == {"n", "s.x"}


def test_a_name_with_dots_is_a_column_of_its_own() -> None:
    table = pa.table({"a.b": range(ROWS), "a": [n % 3 for n in range(ROWS)]})
    assert with_dictionary(written(table)) == {"a"}
