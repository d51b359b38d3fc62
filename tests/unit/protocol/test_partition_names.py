from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from urllib.parse import unquote
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicfs.errors import UsageError
from magicfs.protocol import paths
from magicfs.tables.partition_names import (
    HIVE_DEFAULT_PARTITION,
    PartitionValue,
    directory,
    escape,
    text_of,
)

BERLIN = ZoneInfo("Europe/Berlin")
ANY_TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("AA", "AA"),
        ("two words", "two words"),
        ("São Paulo 日本 😀", "São Paulo 日本 😀"),
        ("a/b", "a%2Fb"),
        ("100%", "100%25"),
        ("%2F", "%252F"),
        ("k=v", "k%3Dv"),
        ("a+b&c", "a+b&c"),
        ("#?*:'\"\\", "%23%3F%2A%3A%27%22%5C"),
        ("{[^]}", "%7B%5B%5E%5D}"),
        ("tab\tline\n\x7f", "tab%09line%0A%7F"),
        ("magic::s3://x", "magic%3A%3As3%3A%2F%2Fx"),
        ("..", ".."),
    ],
)
def test_a_value_is_escaped_as_spark_escapes_it(text: str, escaped: str) -> None:
    assert escape(text) == escaped
    assert unquote(escaped) == text


@given(ANY_TEXT)
def test_any_text_becomes_one_element_and_reads_back(text: str) -> None:
    escaped = escape(text)
    assert "/" not in escaped
    assert "::" not in escaped
    assert unquote(escaped) == text


@given(ANY_TEXT, ANY_TEXT)
def test_two_texts_never_become_one_element(one: str, other: str) -> None:
    assert (escape(one) == escape(other)) == (one == other)


@given(st.text("%0aFg"))
def test_a_percent_sign_without_a_code_stands_for_itself(text: str) -> None:
    assert unquote(escape(text)) == text
    assert unquote("100%") == "100%"
    assert unquote("%zz%2f") == "%zz/"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        ("", ""),
        (7, "7"),
        (-7, "-7"),
        (True, "true"),
        (False, "false"),
        (Decimal("1.50"), "1.50"),
        (Decimal("1E+3"), "1000"),
        (Decimal("0.0000001"), "0.0000001"),
        (date(2026, 1, 31), "2026-01-31"),
        (date(987, 1, 2), "0987-01-02"),
        (datetime(2026, 1, 31, 8, 0, 5), "2026-01-31 08:00:05"),
        (datetime(2026, 1, 31, 8, 0, 5, 500_000), "2026-01-31 08:00:05.5"),
        (datetime(2026, 1, 31, 8, 0, 0, 1), "2026-01-31 08:00:00.000001"),
        (datetime(2026, 1, 31, 8, 0, 0, 1, UTC), "2026-01-31 08:00:00.000001Z"),
        (datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN), "2026-10-25 00:30:00Z"),
        (datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=BERLIN), "2026-10-25 01:30:00Z"),
    ],
)
def test_a_value_is_written_as_spark_casts_it_to_text_and_with_a_zone_in_utc(
    value: PartitionValue, text: str | None
) -> None:
    assert text_of(value) == text


def test_null_and_empty_text_share_hives_default_partition() -> None:
    assert directory(["a", "b"], [None, ""]) == f"a={HIVE_DEFAULT_PARTITION}/b={HIVE_DEFAULT_PARTITION}"


def test_names_of_columns_are_escaped_too() -> None:
    assert directory(["k/v=", "größe"], [1, "x"]) == "k%2Fv%3D=1/größe=x"


@given(
    st.lists(st.tuples(ANY_TEXT, st.none() | ANY_TEXT | st.integers() | st.dates()), min_size=1, max_size=4)
)
def test_a_directory_has_one_visible_element_for_each_column(
    columns: list[tuple[str, PartitionValue]],
) -> None:
    names, values = [f"c{name}" for name, _ in columns], [value for _, value in columns]
    made = directory(names, values)
    elements = paths.elements(made)
    assert "/".join(elements) == made
    assert len(elements) == len(columns)
    assert paths.is_visible(f"dest/{made}/part", "dest")


def test_the_character_zero_is_refused_by_column() -> None:
    with pytest.raises(UsageError, match=r"partition column 'carrier' contains the character U\+0000"):
        directory(["carrier"], ["A\0"])


def test_a_value_for_each_column_is_required() -> None:
    with pytest.raises(ValueError, match="shorter"):
        directory(["a", "b"], [1])
