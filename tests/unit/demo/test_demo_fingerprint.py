from __future__ import annotations

import pyarrow as pa
import pytest

from examples.flights.fingerprint import fingerprint

TABLE = pa.table(
    {
        "number": pa.array([1, 2, None, 4], pa.int64()),
        "text": pa.array(["a", None, "día", ""], pa.string()),
        "measure": pa.array([0.5, float("nan"), None, -1.0], pa.float64()),
        "moment": pa.array([0, 1, 2, None], pa.timestamp("us", tz="UTC")),
    }
)


def of(table: pa.Table) -> object:
    return fingerprint(table.to_batches())


def one_column(values: list[object], type_: pa.DataType | None = None) -> object:
    return of(pa.table({"x": pa.array(values, type_)}))


def test_order_of_rows_does_not_matter():
    assert of(TABLE.take([2, 0, 3, 1])) == of(TABLE)


def test_order_of_columns_does_not_matter():
    assert of(TABLE.select(["text", "moment", "measure", "number"])) == of(TABLE)


def test_cut_into_batches_does_not_matter():
    assert fingerprint(TABLE.to_batches(max_chunksize=1)) == of(TABLE)


def test_offset_of_a_slice_does_not_matter():
    assert fingerprint([*TABLE.slice(0, 1).to_batches(), *TABLE.slice(1).to_batches()]) == of(TABLE)


def test_width_of_whole_numbers_does_not_matter():
    assert one_column([1, 2], pa.int32()) == one_column([1, 2], pa.int64())


def test_dictionaries_and_large_strings_are_strings():
    plain = one_column(["a", None, "b"], pa.string())
    assert one_column(["a", None, "b"], pa.large_string()) == plain
    assert of(pa.table({"x": pa.array(["a", None, "b"]).dictionary_encode()})) == plain


def test_unit_of_a_timestamp_does_not_matter():
    assert one_column([1_000], pa.timestamp("us", "UTC")) == one_column([1], pa.timestamp("ms", "UTC"))


def test_minus_zero_equals_zero():
    assert one_column([-0.0]) == one_column([0.0])


def test_rows_are_counted():
    assert fingerprint(TABLE.to_batches()).rows == 4


@pytest.mark.parametrize("row", range(4))
def test_lost_row_is_seen(row):
    assert of(TABLE.take([index for index in range(4) if index != row])) != of(TABLE)


def test_row_that_stands_twice_in_place_of_another_is_seen():
    assert of(TABLE.take([0, 0, 2, 3])) != of(TABLE)


def test_values_that_changed_places_between_rows_are_seen():
    left = pa.table({"a": [1, 2], "b": [10, 20]})
    right = pa.table({"a": [1, 2], "b": [20, 10]})
    assert of(left) != of(right)


def test_values_that_changed_places_between_columns_are_seen():
    assert of(pa.table({"a": [1], "b": [2]})) != of(pa.table({"a": [2], "b": [1]}))


def test_other_name_of_a_column_is_seen():
    assert of(pa.table({"a": [1]})) != of(pa.table({"b": [1]}))


def test_lost_column_is_seen():
    assert of(TABLE.drop_columns(["moment"])) != of(TABLE)


def test_null_nan_and_zero_are_three_different_things():
    kinds = {one_column([value], pa.float64()) for value in (None, float("nan"), 0.0)}
    assert len(kinds) == 3


def test_null_and_the_empty_text_differ():
    assert one_column([None], pa.string()) != one_column([""], pa.string())


def test_pairs_of_equal_rows_do_not_cancel_each_other():
    assert one_column([1, 1]) != one_column([2, 2])


def test_no_rows_at_all_have_a_fingerprint():
    assert str(fingerprint([])) == "0 rows, checksum 0000000000000000"
