"""Which columns of a Spark frame can be written to Parquet so that they read back as themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from magicfs.errors import UsageError

__all__ = ["ROW_METADATA", "check", "row_metadata"]

ROW_METADATA = "org.apache.spark.sql.parquet.row.metadata"
"""Where Spark keeps its own schema in a Parquet file: comments, varchar lengths, user types."""

# By name: not every release of pyspark has every class. Intervals of months and calendars fail in the middle
# of a task, as structs without fields do; the others become structs without a word.
_REFUSED_CLASSES = frozenset(
    {"VariantType", "GeometryType", "GeographyType", "CalendarIntervalType", "YearMonthIntervalType"}
)
_PARTITION_CLASSES = frozenset(
    {
        *("StringType", "VarcharType", "CharType", "BooleanType", "DateType", "DecimalType"),
        *("ByteType", "ShortType", "IntegerType", "LongType", "TimestampType", "TimestampNTZType"),
    }
)


def check(schema: StructType, partition_cols: Sequence[str]) -> None:
    """Refuse a schema before any task runs.

    Raises:
        UsageError: A column has a type that Parquet does not keep, or a partition column one without text.
    """
    for column in schema.fields:
        for path, kind in _types(column.name, column.dataType):
            if type(kind).__name__ in _REFUSED_CLASSES or (isinstance(kind, StructType) and not kind.fields):
                raise UsageError(
                    f"column {path} has type {kind.simpleString()}, which cannot be written; "
                    "cast it to string, or leave it out"
                )
    for name in partition_cols:
        kind = schema[name].dataType
        if type(kind).__name__ not in _PARTITION_CLASSES:
            raise UsageError(
                f"partition column {name!r} has type {kind.simpleString()}; use a string, whole number, "
                "decimal, boolean, date or timestamp, or cast it to string"
            )


def row_metadata(schema: StructType, partition_cols: Sequence[str]) -> dict[str, str]:
    """What Spark's own writer puts into the metadata of a file: the schema of its columns."""
    kept = StructType([one for one in schema.fields if one.name not in partition_cols])
    return {ROW_METADATA: kept.json()}


def _types(path: str, kind: DataType) -> Iterator[tuple[str, DataType]]:
    """A type and all that are nested in it, each with where it stands."""
    yield path, kind
    match kind:
        case StructType():
            for one in kind.fields:
                yield from _types(f"{path}.{one.name}", one.dataType)
        case ArrayType():
            yield from _types(f"{path}[]", kind.elementType)
        case MapType():
            yield from _types(f"{path}{{key}}", kind.keyType)
            yield from _types(f"{path}{{value}}", kind.valueType)
