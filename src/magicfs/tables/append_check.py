"""Whether added rows fit the files that are there, checked before anything is written."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from fsspec.spec import AbstractFileSystem

from magicfs.datasets.connection import open_destination
from magicfs.errors import MagicError, UsageError
from magicfs.formats.manifest import ManifestFile
from magicfs.job.spec import JobSpec
from magicfs.past.file_facts import partition_values
from magicfs.protocol import paths
from magicfs.reading.arrow_files import one_file
from magicfs.tables import partition_names
from magicfs.tables.partition_names import Partitioning, Values

_ENDING = ".parquet"
_MOMENT = re.compile(r"\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}(\.\d+)?Z?")
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_INDEX = re.compile(r"__index_level_\d+__")
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class RowsThere:
    """What one file of a dataset shows of those that are there. Pickles, for tasks in other processes."""

    url: str
    key: str
    schema: pa.Schema

    def check(
        self,
        schema: pa.Schema,
        *,
        partition_by: Sequence[str],
        partitioning: Partitioning = "hive",
        advice: str = "cast the columns, or pass check_schema=False to write them as they are",
    ) -> None:
        """Raise UsageError if a column is lost or has another type, or the partition columns are others."""
        wrong = list(
            clashes(self.schema, self.key, schema, partition_by=partition_by, partitioning=partitioning)
        )
        if wrong:
            more = [f"and {len(wrong) - _SHOWN} more"] if len(wrong) > _SHOWN else []
            raise UsageError(
                f"the new rows do not fit {self.url}, as its file {self.key} shows: "
                f"{'; '.join([*wrong[:_SHOWN], *more])}; nothing was changed; {advice}"
            )

    def fitting(self, key: str) -> str:
        """The same key. Raises UsageError if its directory names as a day what is a moment in others."""
        there = partition_values(self.key)
        for name, text in partition_values(key).items():
            if _DAY.fullmatch(text or "") and _MOMENT.fullmatch(there.get(name) or ""):
                raise UsageError(
                    f"existing directories of {self.url} write {name!r} as {there[name]!r}, but a new one "
                    f"would be {text!r}; nothing was published; cast the column to a timestamp"
                )
        return key


def rows_there(job: JobSpec, file_format: str = "parquet") -> RowsThere | None:
    """Look at one Parquet file that stays when a job writes; None if none does, or it is unreadable.

    Reads the pointer, a manifest and the end of that file. Whatever is wrong with the store, others report.
    """
    if file_format != "parquet" or job.options.mode not in {"append", "overwrite_partitions"}:
        return None
    destination = open_destination(job.location.url, None, job.wrapped())
    found = one_file(destination, _ENDING)
    if found is None:
        return None
    key, size = found
    path = f"{paths.prefix_of(destination.location.path)}{key}"
    schema = _schema_of(destination.filesystem, path, size)
    return None if schema is None else RowsThere(destination.location.url, key, schema)


def check_rows_fit(job: JobSpec, schema: pa.Schema, file_format: str = "parquet", **how: Any) -> None:
    """Compare rows to be written with what is there; raises as ``RowsThere.check``, which takes ``how``."""
    if (there := rows_there(job, file_format)) is not None:
        there.check(schema, **how)


def _schema_of(filesystem: AbstractFileSystem, path: str, size: int) -> pa.Schema | None:
    import pyarrow.parquet
    from pyarrow.fs import PyFileSystem

    from magicfs.reading.arrow_files import PublishedFiles

    try:
        files = {path: ManifestFile(key=path, size=size, etag="")}
        with PyFileSystem(PublishedFiles(filesystem, files)).open_input_file(path) as file:
            return _without_old_moments(pyarrow.parquet.ParquetFile(file))
    except (pa.ArrowException, MagicError, OSError):  # gone by now, not ours to read, or no Parquet
        return None


def _without_old_moments(file: Any) -> pa.Schema:
    """The schema of a Parquet file. Moments as Spark writes them by default, INT96, have no zone: null."""
    schema, columns = file.schema_arrow, map(file.schema.column, range(len(file.schema)))
    old = {one.path.partition(".")[0] for one in columns if one.physical_type == "INT96"}
    return pa.schema([one.with_type(pa.null()) if one.name in old else one for one in schema])


def clashes(
    there: pa.Schema,
    key: str,
    comes: pa.Schema,
    *,
    partition_by: Sequence[str] = (),
    partitioning: Partitioning = "hive",
) -> Iterator[str]:
    """What does not fit between a file that is there, of a schema and a relative key, and rows that come.

    New columns fit: readers take them for null in older files. So do other forms of one type, such as text
    with large offsets or categories of text, other units of a moment, and columns that hold only nulls.
    """
    named = partition_values(key)
    found = list(named)
    if partitioning == "hive" and found != list(partition_by):
        yield (
            f"the existing files are partitioned by {_listed(found)}, the new ones would be by "
            f"{_listed(partition_by)}; pass partition_by={found!r}"
        )
        return
    if partitioning == "hive":
        yield from _directories(named, comes)
    for field in there:
        if field.name in partition_by:
            yield f"column {field.name!r} is in the existing files, and would be in directory names now"
        elif field.name not in comes.names and _INDEX.fullmatch(field.name):
            continue  # the index of a frame of pandas; another frame may have none
        elif field.name not in comes.names:
            yield f"column {field.name!r} is missing in the new rows{_other_case(field.name, comes)}"
        else:
            yield from _between(field.name, field.type, comes.field(field.name).type)


def _directories(named: Values, comes: pa.Schema) -> Iterator[str]:
    """Values in names of directories that the new rows would write otherwise."""
    for name, text in named.items():
        kind = comes.field(name).type
        if text is not None and (how := _otherwise(text, kind)):
            yield (
                f"existing directories write {name!r} as {text!r}, but the new {kind} would be written {how}"
            )


def _otherwise(text: str, kind: pa.DataType) -> str:
    types = pa.types
    if types.is_timestamp(kind) and _DAY.fullmatch(text):
        return "with a time of day; cast it to a date"
    if types.is_timestamp(kind) and text.endswith("Z") != (kind.tz is not None):
        return "in UTC with a Z" if kind.tz is not None else "without a zone"
    if types.is_date(kind) and _MOMENT.fullmatch(text):
        return "without a time of day; cast it to a timestamp"
    if types.is_integer(kind) and not partition_names.is_number(text):
        return "as a number; cast it to text"
    return ""


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names)) or "nothing"


def _other_case(name: str, comes: pa.Schema) -> str:
    same = [one for one in comes.names if one.lower() == name.lower()]
    return f", but {same[0]!r} does" if same else ""


def _between(name: str, there: Any, comes: Any) -> Iterator[str]:
    """What differs between two types of one column, or of parts of one."""
    there, comes = _plain(there), _plain(comes)
    types = pa.types
    if types.is_null(there) or types.is_null(comes):
        return
    if types.is_struct(there) and types.is_struct(comes):
        coming = {one.name: one.type for one in comes}
        for field in there:
            if field.name not in coming:
                yield f"field '{name}.{field.name}' is missing in the new rows"
            else:
                yield from _between(f"{name}.{field.name}", field.type, coming[field.name])
        return
    if types.is_map(there) and types.is_map(comes):
        yield from _between(f"{name}.key", there.key_type, comes.key_type)
        yield from _between(f"{name}.value", there.item_type, comes.item_type)
        return
    if _is_list(there) and _is_list(comes):
        yield from _between(f"{name}.item", there.value_type, comes.value_type)
        return
    if _form(there) != _form(comes):
        yield f"column '{name}' is {there} in the existing files, and {comes} in the new rows"


def _plain(kind: Any) -> Any:
    while pa.types.is_dictionary(kind) or _is(kind, "run_end_encoded"):
        kind = kind.value_type
    return kind


def _is(kind: pa.DataType, name: str) -> bool:
    test: Callable[[pa.DataType], bool] | None = getattr(pa.types, f"is_{name}", None)
    return test is not None and test(kind)


def _is_list(kind: pa.DataType) -> bool:
    names = ("list", "large_list", "fixed_size_list", "list_view", "large_list_view")
    return any(_is(kind, name) for name in names)


def _form(kind: Any) -> tuple[Any, ...]:
    """What must be equal in two types that are not nested."""
    if any(_is(kind, name) for name in ("string", "large_string", "string_view")):
        return ("text",)
    if any(_is(kind, name) for name in ("binary", "large_binary", "binary_view")):
        return ("bytes",)
    if _is(kind, "timestamp"):
        return ("moment", kind.tz is not None)
    if _is(kind, "decimal"):
        return ("decimal", kind.precision, kind.scale)
    for name in ("date", "time", "duration"):
        if _is(kind, name):
            return (name,)
    return (str(kind),)
