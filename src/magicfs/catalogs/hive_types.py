"""Types of Hive, as Glue and Athena write them, for those of Arrow."""

from __future__ import annotations

from typing import Any

from magicfs.errors import UsageError


def hive_type(type_: Any, column: str) -> str:
    """The type in which Hive reads a column of Parquet; raises UsageError where there is none."""
    import pyarrow.types as kinds

    if kinds.is_dictionary(type_):
        return hive_type(type_.value_type, column)
    if kinds.is_list(type_) or kinds.is_large_list(type_) or kinds.is_fixed_size_list(type_):
        return f"array<{hive_type(type_.value_type, column)}>"
    if kinds.is_map(type_):
        return f"map<{hive_type(type_.key_type, column)},{hive_type(type_.item_type, column)}>"
    if kinds.is_struct(type_):
        fields = (type_.field(number) for number in range(type_.num_fields))
        return f"struct<{','.join(f'{one.name}:{hive_type(one.type, column)}' for one in fields)}>"
    if kinds.is_decimal(type_):
        return f"decimal({type_.precision},{type_.scale})"
    if kinds.is_timestamp(type_):
        return "timestamp"
    if (plain := _plain().get(type_)) is None:
        raise UsageError(f"Hive has no type for the column {column!r} of {type_}; nothing was changed")
    return plain


def _plain() -> dict[Any, str]:
    import pyarrow as pa

    return {
        pa.bool_(): "boolean",
        pa.int8(): "tinyint",
        pa.int16(): "smallint",
        pa.int32(): "int",
        pa.int64(): "bigint",
        pa.uint8(): "smallint",
        pa.uint16(): "int",
        pa.uint32(): "bigint",
        pa.float32(): "float",
        pa.float64(): "double",
        pa.string(): "string",
        pa.large_string(): "string",
        pa.binary(): "binary",
        pa.large_binary(): "binary",
        pa.date32(): "date",
    }
