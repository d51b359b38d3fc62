"""The columns of a dataset: from one of its files, the newest, and from the names of its directories."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkTypeError
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    CharType,
    DataType,
    DateType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    VarcharType,
)

from magicfs.errors import UsageError
from magicfs.spark.schema import ROW_METADATA
from magicfs.tables.partition_names import Values, guessed_type

_GUESSED: Mapping[str, type[DataType]] = {
    "int": IntegerType,
    "bigint": LongType,
    "date": DateType,
    "string": StringType,
}
_GEO = ("GeometryType", "GeographyType")
_WIDER = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.date64(): pa.date32(),
    pa.string_view(): pa.string(),
    pa.binary_view(): pa.binary(),
}
"""What Spark has in place of types that it has not."""


def of_file(found: pa.Schema, file_format: str) -> StructType:
    """The columns of a file as Spark sees them: by Spark's own metadata, or by Arrow's types.

    Raises UsageError for a type that Spark does not have.
    """
    metadata = found.metadata or {}
    if (recorded := metadata.get(ROW_METADATA.encode())) is not None:
        return _read(StructType.fromJson(json.loads(recorded)))
    fields = []
    for field in found:
        kind = field.with_type(_WIDER.get(field.type, field.type))
        try:
            # A moment of ORC has no zone, and is one all the same.
            schema = from_arrow_schema(pa.schema([kind]), prefer_timestamp_ntz=file_format != "orc")
        except PySparkTypeError as error:
            raise _no_type(field.name, field.type) from error
        fields += schema.fields
    return _read(StructType(fields))


def _no_type(name: str, kind: object) -> UsageError:
    return UsageError(
        f"column {name!r} has type {kind}, which cannot come from Python to Spark; leave it out with "
        "option('columns', …), or read it as another type with .schema(…)"
    )


def _read(kind: Any) -> Any:
    """A type as it is read: anything may be null, and text has no length."""
    match kind:
        case StructType():
            return StructType(
                [StructField(one.name, _read(one.dataType), True, one.metadata) for one in kind.fields]
            )
        case ArrayType():
            return ArrayType(_read(kind.elementType), True)
        case MapType():
            return MapType(_read(kind.keyType), _read(kind.valueType), True)
        case CharType() | VarcharType():
            return StringType()
        case _:
            return kind


def of_dataset(file: StructType, directories: Iterable[Values]) -> StructType:
    """The columns of a file, and behind them those that the directories of all files name."""
    rows = list(directories)
    names = list(rows[0]) if rows else []
    taken = {one.lower() for one in names}
    kept = [one for one in file.fields if one.name.lower() not in taken]
    added = [StructField(one, _GUESSED[guessed_type(row[one] for row in rows)](), True) for one in names]
    return StructType(kept + added)


def chosen(schema: StructType, columns: Sequence[str]) -> StructType:
    """Of a schema these columns, in this order; all if there are none. Raises UsageError for others."""
    if missing := [one for one in columns if one not in schema.fieldNames()]:
        raise UsageError(
            f"columns names {missing[0]!r}, which the dataset does not have; "
            f"its columns are {', '.join(schema.fieldNames())}"
        )
    return StructType([schema[one] for one in columns]) if columns else schema


def arrow_schema(schema: StructType) -> pa.Schema:
    """The schema of the batches that Spark takes. Raises UsageError for a column that no batch can have."""
    if not schema.fields:
        raise UsageError("no column is left to read; name at least one")
    for field in schema.fields:
        kind = next((one for one in _all(field.dataType) if type(one).__name__ in _GEO), None)
        try:
            to_arrow_schema(StructType([field]), timezone="UTC")
        except PySparkTypeError:
            kind = field.dataType
        if kind is not None:
            raise _no_type(field.name, kind.simpleString())
    return to_arrow_schema(schema, timezone="UTC")


def _all(kind: DataType) -> Iterable[DataType]:
    yield kind
    match kind:
        case StructType():
            for one in kind.fields:
                yield from _all(one.dataType)
        case ArrayType():
            yield from _all(kind.elementType)
        case MapType():
            yield from _all(kind.keyType)
            yield from _all(kind.valueType)
