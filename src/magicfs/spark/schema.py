"""Which columns of a Spark frame each format keeps, so that they read back as themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark import __version__ as spark_version
from pyspark.sql.types import ArrayType, DataType, DecimalType, MapType, StringType, StructType

from magicfs.errors import UsageError

ROW_METADATA = "org.apache.spark.sql.parquet.row.metadata"
"""Where Spark keeps its own schema in a Parquet file: comments, varchar lengths, user types."""
SPARK_VERSION = "org.apache.spark.version"
"""Where Spark looks for who wrote a Parquet file: without it, old days may be taken for Julian ones."""

_GEO = ("GeometryType", "GeographyType")
_NESTED = ("ArrayType", "MapType", "StructType")
# By name: not every release of pyspark has every class.
# Arrow's intervals of months are unknown to pyarrow: Spark's batches arrive broken.
_REFUSED_EVERYWHERE = frozenset({"YearMonthIntervalType"})
_NOT_TEXT = frozenset({"NullType", "DayTimeIntervalType", "CalendarIntervalType", "TimeType", "VariantType"})
_REFUSED: Mapping[str, frozenset[str]] = {
    "parquet": frozenset({"CalendarIntervalType"}),
    "csv": _NOT_TEXT | {"BinaryType", "UserDefinedType", *_GEO, *_NESTED},
    "json": _NOT_TEXT | {"UserDefinedType", *_GEO},
    # Spark takes a TIMESTAMP of ORC for a moment: local ones move with the zone.
    "orc": _NOT_TEXT | {"TimestampNTZType", "UserDefinedType", "CollatedString", *_GEO},
    "arrow": frozenset({"VariantType", *_GEO}),
}
_MONTHS: Mapping[str, str] = {
    "interval year": "cast({0} AS int) * 12",
    "interval month": "cast({0} AS int)",
    "interval year to month": "extract(YEAR FROM {0}) * 12 + extract(MONTH FROM {0})",
}
_KEEP_EMPTY_STRUCTS = frozenset({"arrow"})
_PARTITION_CLASSES = frozenset(
    {
        *("StringType", "VarcharType", "CharType", "BooleanType", "DateType", "DecimalType"),
        *("ByteType", "ShortType", "IntegerType", "LongType", "TimestampType", "TimestampNTZType"),
    }
)
_IN_FILES: Mapping[str, pa.DataType] = {
    **dict.fromkeys(("StringType", "VarcharType", "CharType"), pa.string()),
    "BinaryType": pa.binary(),
    "BooleanType": pa.bool_(),
    "ByteType": pa.int8(),
    "DateType": pa.date32(),
    "DayTimeIntervalType": pa.duration("us"),
    "DoubleType": pa.float64(),
    "FloatType": pa.float32(),
    "IntegerType": pa.int32(),
    "LongType": pa.int64(),
    "ShortType": pa.int16(),
    "TimeType": pa.time64("us"),
    "TimestampNTZType": pa.timestamp("us"),
    "TimestampType": pa.timestamp("us", "UTC"),
    "YearMonthIntervalType": pa.int32(),
}
_CONVERTED = frozenset({"TimeType", "VariantType", *_GEO})


def month_columns(schema: StructType, file_format: str) -> dict[int, str]:
    """The columns of months, which Parquet holds and Arrow does not: how SQL makes numbers of each, by place.

    Spark's own Parquet has them as whole numbers of months, and its row metadata say what they are.
    """
    if file_format != "parquet":
        return {}
    kinds = {place: column.dataType.simpleString() for place, column in enumerate(schema.fields)}
    return {place: _MONTHS[kind] for place, kind in kinds.items() if kind in _MONTHS}


def check(
    schema: StructType, partition_cols: Sequence[str], file_format: str = "parquet", *, months: bool = False
) -> None:
    """Raise UsageError for a column whose type the format does not keep, or a partition column's without
    text.

    ``partition_cols``: the columns that go into directories. ``file_format``: name of the format of the
    files. ``months``: whether the caller hands ``month_columns`` over as whole numbers.
    """
    as_numbers = month_columns(schema, file_format) if months else {}
    for place, column in enumerate(schema.fields):
        if column.name in partition_cols or place in as_numbers:
            continue
        for path, kind in _types(column.name, column.dataType):
            if _is_refused(kind, file_format):
                raise UsageError(
                    f"column {path} has type {kind.simpleString()}, which cannot be written as "
                    f"{file_format}; cast it to string, or leave it out"
                )
    for name in partition_cols:
        kind = schema[name].dataType
        if type(kind).__name__ not in _PARTITION_CLASSES:
            raise UsageError(
                f"partition column {name!r} has type {kind.simpleString()}; use a string, whole number, "
                "decimal, boolean, date or timestamp, or cast it to string"
            )


def arrow_schema(schema: StructType, partition_cols: Sequence[str]) -> pa.Schema:
    """What the files of a frame hold, and what its directories name; null where only its batches show it."""
    fields = {one.name: _in_files(one.dataType) for one in schema.fields}
    named = {name: pa.timestamp("us") for name in partition_cols if pa.types.is_timestamp(fields[name])}
    return pa.schema(list((fields | named).items()))


def _in_files(kind: DataType) -> Any:
    match kind:
        case DecimalType():
            return pa.decimal128(kind.precision, kind.scale)
        case StructType():
            return pa.struct([(one.name, _in_files(one.dataType)) for one in kind.fields])
        case ArrayType():
            return pa.list_(_in_files(kind.elementType))
        case MapType():
            return pa.map_(_in_files(kind.keyType), _in_files(kind.valueType))
        case _:
            return _IN_FILES.get(type(kind).__name__, pa.null())


def row_metadata(
    schema: StructType, partition_cols: Sequence[str], file_format: str = "parquet"
) -> dict[str, str]:
    """What goes into the metadata of a file: the schema of its columns and Spark's version.

    Spark's own Parquet writer puts both there. In other formats Spark does not look for them; those without a
    place for metadata get none.
    """
    if file_format not in {"parquet", "arrow"}:
        return {}
    kept = StructType([one for one in schema.fields if one.name not in partition_cols])
    return {ROW_METADATA: kept.json(), SPARK_VERSION: spark_version}


def converter(
    schema: StructType, partition_cols: Sequence[str] = ()
) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """Makes of Spark's batches what the files hold, and of moments what Spark names directories by.

    Spark reads geometries from Parquet as plain WKB and times of day in microseconds; its batches have
    structs and nanoseconds. Where a struct is null, they have nulls even in fields that may not be null,
    which pyarrow does not write.
    """
    chosen = [
        (number, field.dataType)
        for number, field in enumerate(schema.fields)
        if any(_must_be_converted(kind) for _, kind in _types(field.name, field.dataType))
    ]
    named = [
        number
        for number, field in enumerate(schema.fields)
        if field.name in partition_cols and type(field.dataType).__name__ == "TimestampType"
    ]

    def convert(batch: pa.RecordBatch) -> pa.RecordBatch:
        columns, fields = list(batch.columns), list(batch.schema)
        for number, kind in chosen:
            columns[number] = _converted(columns[number], kind)
            fields[number] = fields[number].with_type(columns[number].type)
        for number in named:
            columns[number] = _wall_clock(fields[number].name, columns[number])
            fields[number] = fields[number].with_type(columns[number].type)
        return pa.record_batch(columns, schema=pa.schema(fields)) if chosen or named else batch

    return convert


def _wall_clock(name: str, moments: Any) -> Any:
    """What a clock in the session's zone shows. Raises UsageError if it showed that before."""
    zone = moments.type.tz
    if zone is None:
        return moments
    import pyarrow.compute as pc  # it takes a worker of Spark time that few need

    shown: Any = pc.call_function("local_timestamp", [moments])
    again = pc.assume_timezone(shown, zone, ambiguous="earliest")
    if pc.any(pc.not_equal(again, moments)).as_py():
        raise UsageError(
            f"partition column {name!r} has times in an hour that occurs twice in {zone}, and both would "
            "share one directory; set spark.sql.session.timeZone to UTC, or cast the column to string"
        )
    return shown


def _is_refused(kind: DataType, file_format: str) -> bool:
    names = {one.__name__ for one in type(kind).__mro__}
    if isinstance(kind, StringType) and not kind.isUTF8BinaryCollation():
        names.add("CollatedString")
    if isinstance(kind, StructType) and not kind.fields:
        return file_format not in _KEEP_EMPTY_STRUCTS
    if isinstance(kind, MapType) and file_format == "json" and not isinstance(kind.keyType, StringType):
        return True
    # Geometries that have a reference system each: files keep one for all.
    mixed = not names.isdisjoint(_GEO) and getattr(kind, "srid", None) == -1
    return mixed or not names.isdisjoint(_REFUSED_EVERYWHERE | _REFUSED[file_format])


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


def _must_be_converted(kind: DataType) -> bool:
    strict = isinstance(kind, StructType) and not all(field.nullable for field in kind.fields)
    return strict or type(kind).__name__ in _CONVERTED


def _converted(array: Any, kind: DataType) -> Any:
    name = type(kind).__name__
    if name in _GEO:
        return array.flatten()[array.type.get_field_index("wkb")]
    if name == "TimeType":
        return array.cast(pa.time64("us"))
    if name == "VariantType":
        return _struct(array, [array.field(number) for number in range(array.type.num_fields)])
    mask = array.is_null() if array.null_count else None
    match kind:
        case StructType():
            return _struct(
                array,
                [_converted(array.field(number), field.dataType) for number, field in enumerate(kind.fields)],
            )
        case ArrayType():
            values = _converted(array.values, kind.elementType)
            type_ = pa.list_(array.type.value_field.with_type(values.type))
            return pa.ListArray.from_arrays(array.offsets, values, type=type_, mask=mask)
        case MapType():
            keys, items = _converted(array.keys, kind.keyType), _converted(array.items, kind.valueType)
            map_type = pa.map_(
                array.type.key_field.with_type(keys.type), array.type.item_field.with_type(items.type)
            )
            return pa.MapArray.from_arrays(array.offsets, keys, items, type=map_type, mask=mask)
        case _:
            return array


def _struct(array: Any, children: Sequence[Any]) -> Any:
    fields = [field.with_type(child.type) for field, child in zip(array.type, children, strict=True)]
    kept = [
        child if field.nullable or not child.null_count else _without_nulls(child)
        for field, child in zip(fields, children, strict=True)
    ]
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(kept, fields=fields, mask=mask)


def _without_nulls(array: Any) -> Any:
    """The same values, with whatever lies in their memory where they are null."""
    kind = array.type
    if pa.types.is_struct(kind):
        children = [array.field(number) for number in range(kind.num_fields)]
        return pa.StructArray.from_arrays(children, fields=list(kind))
    if pa.types.is_map(kind):
        return pa.MapArray.from_arrays(array.offsets, array.keys, array.items, type=kind)
    if pa.types.is_list(kind):
        return pa.ListArray.from_arrays(array.offsets, array.values, type=kind)
    return pa.Array.from_buffers(kind, len(array), [None, *array.buffers()[1:]], offset=array.offset)
