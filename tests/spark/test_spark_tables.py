"""The tables of options, formats and types in the documents say what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import types as t

from magicfs.errors import UsageError
from magicfs.spark.options import OPTIONS, parse
from magicfs.spark.schema import check
from magicfs.tables.formats import FORMATS

DOCUMENT = (Path(__file__).parents[2] / "docs/spark.md").read_text()
INT, TEXT = t.IntegerType(), t.StringType()
TYPES: dict[str, list[t.DataType]] = {
    "boolean": [t.BooleanType()],
    "tinyint": [t.ByteType()],
    "smallint": [t.ShortType()],
    "int": [INT],
    "bigint": [t.LongType()],
    "float": [t.FloatType()],
    "double": [t.DoubleType()],
    "decimal": [t.DecimalType(38, 18)],
    "string": [TEXT, t.CharType(3), t.VarcharType(3)],
    "date": [t.DateType()],
    "timestamp": [t.TimestampType()],
    "timestamp_ntz": [t.TimestampNTZType()],
    "binary": [t.BinaryType()],
    "array": [t.ArrayType(INT)],
    "struct": [t.StructType([t.StructField("x", INT)])],
    "map with text as keys": [t.MapType(TEXT, INT)],
    "map with other keys": [t.MapType(INT, INT)],
    "string with a collation": [t.StringType("UNICODE_CI")],
    "interval day to second": [t.DayTimeIntervalType()],
    "time": [t.TimeType()],
    "void": [t.NullType()],
    "variant": [t.VariantType()],
    "geometry": [t.GeometryType(0)],
    "geography": [t.GeographyType(4326)],
    "interval year to month": [t.YearMonthIntervalType()],
    "interval (of calendars)": [t.CalendarIntervalType()],
    "struct without fields": [t.StructType([])],
}


def table(heading: str) -> list[list[str]]:
    """The rows of the table that begins with a heading, without its first two lines."""
    lines = DOCUMENT[DOCUMENT.index(f"| {heading} |") :].split("\n\n")[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def is_kept(kind: t.DataType, file_format: str) -> bool:
    try:
        check(t.StructType([t.StructField("x", kind)]), [], file_format)
    except UsageError:
        return False
    return True


def test_every_option_is_documented_with_its_default() -> None:
    rows = {row[0].strip("` "): row[2].strip("` ") for row in table("option")}
    assert sorted(rows) == sorted(shown for shown in OPTIONS.values() if shown != "path")
    options = parse({"path": "s3://bucket/d"}, ["id"])
    for shown, attribute in (
        ("allowEmpty", str(options.allow_empty).lower()),
        ("fileFormat", options.file_format),
        ("maxOpenFiles", str(options.max_open_files)),
        ("concurrency", str(options.concurrency)),
        ("committer", options.committer),
        ("tracking", options.tracking),
        ("uniqueNames", str(options.unique_names).lower()),
        ("lateWriters", options.late_writers),
    ):
        assert rows[shown] == attribute


def test_every_codec_is_documented() -> None:
    rows = {row[0].strip("` "): row[1:3] for row in table("`fileFormat` | codecs, the default first")}
    assert list(rows) == list(FORMATS)
    for name, (codecs, shown) in rows.items():
        found = re.findall(r"`(\w+)`", codecs)
        kind = FORMATS[name]
        assert found[0] == kind.default
        assert set(found) == set(kind.codecs) - {"uncompressed"}
        assert shown.strip("`") in {kind.extension(codec) for codec in found}


@pytest.mark.sample(most=1)
@pytest.mark.parametrize("file_format", list(FORMATS))
def test_the_types_that_are_refused_are_those_of_the_table(file_format: str) -> None:
    column = 1 + list(FORMATS).index(file_format)
    seen = set()
    for row in table("type"):
        plain = row[0].replace("`", "").strip()
        for name in [plain] if plain in TYPES else plain.split(", "):
            if name == "user-defined types":
                continue
            seen.add(name)
            for kind in TYPES[name]:
                # Nested, where the format has arrays: what is refused is refused at any depth.
                nested = kind if file_format == "csv" else t.ArrayType(kind)
                assert is_kept(nested, file_format) == (row[column].strip("| ") == "yes"), name
    assert seen == set(TYPES)


def test_geometries_with_a_reference_system_in_each_value_are_refused() -> None:
    for kind in (t.GeometryType("ANY"), t.GeographyType("ANY")):
        with pytest.raises(UsageError, match=r"\(any\), which cannot be written as parquet"):
            check(t.StructType([t.StructField("x", kind)]), [])
