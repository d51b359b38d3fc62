"""Data files of a table of Iceberg: those that it has, and new ones from what their footers and names say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from magicfs.errors import UsageError
from magicfs.protocol.paths import Location


def path_of(location: Location, key: str) -> str:
    """How a table names a file of the dataset: as it is, for names in Iceberg are not encoded."""
    return f"{location.scheme}://{location.path}/{key}"


def held_files(table: Any, location: Location) -> Mapping[str, Any]:
    """The data files that a table has, by their keys in the dataset; others by their whole names.

    Raises UsageError if rows of them are deleted by delete files.
    """
    from pyiceberg.manifest import DataFileContent

    snapshot = table.current_snapshot()
    base = path_of(location, "")
    found = {}
    for manifest in () if snapshot is None else snapshot.manifests(table.io):
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
            if entry.data_file.content != DataFileContent.DATA:
                raise UsageError(
                    f"rows of the Iceberg table {'.'.join(table.name())} were deleted, so it no longer "
                    "matches the dataset; nothing was changed; drop the table, and register the dataset "
                    "again"
                )
            found[entry.data_file.file_path.removeprefix(base)] = entry.data_file
    return found


def data_file(transaction: Any, path: str, values: Mapping[str, str | None]) -> Any:
    """A data file for what lies at a path, in the partition that its name says.

    Raises UsageError if the table's FileIO does not find it, or its columns do not fit.
    """
    from pyiceberg.io.pyarrow import parquet_file_to_data_file
    from pyiceberg.typedef import Record

    metadata = transaction.table_metadata
    try:
        file = parquet_file_to_data_file(transaction._table.io, metadata, path)  # noqa: SLF001
    except FileNotFoundError as error:
        raise UsageError(
            f"the catalog's FileIO does not find {path}, which exists; nothing was changed; give the catalog "
            "the properties of the store, and for names with # or ? "
            "py-io-impl=pyiceberg.io.fsspec.FsspecFileIO"
        ) from error
    except (ValueError, TypeError) as error:
        raise UsageError(f"Iceberg cannot take {path} ({error}); nothing was changed") from error
    spec, schema = metadata.spec(), metadata.schema()
    if spec.fields:
        file[3] = Record(
            *[_value(one, schema, file.partition[at], values) for at, one in enumerate(spec.fields)]
        )
    return file


def _value(one: Any, schema: Any, computed: Any, values: Mapping[str, str | None]) -> Any:
    """The value of a partition field: of a column in the name of a directory that one, else what it was."""
    from pyiceberg.expressions.literals import literal

    column = schema.find_field(one.source_id)
    if str(one.transform) != "identity" or column.name not in values:
        return computed
    text = values[column.name]
    try:
        return None if text is None else literal(text).to(column.field_type).value
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"the partition {column.name}={text!r} is not a valid {column.field_type}, the type of the "
            "table's column; nothing was changed; drop the table, or use another table name"
        ) from error
