"""What ``magicfs.write`` takes: the tables of many engines, each as Arrow record batches, a few at a time.

No engine is imported: what somebody hands over, its own engine has loaded already.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.dataset as ds

from magicfs.errors import UsageError
from magicfs.tables.column_types import bytes_of

if TYPE_CHECKING:
    from pathlib import PurePath

    import pandas as pd

BATCH_ROWS = 2**17
_BATCH_BYTES = 16 * 2**20

_TAKEN = (
    "a DataFrame of pandas, a DataFrame or LazyFrame of Polars, a relation of DuckDB, a table, dataset, "
    "scanner or record batch reader of pyarrow, anything with __arrow_c_stream__, or an iterable of those"
)


_NOT_OF_POLARS: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        ("Int128", "UInt128"), "cast it to Decimal(38, 0), or to String if it has longer numbers"
    ),
    "Object": "make it of a type of Polars' own, such as String",
}
_NOT_OF_DUCKDB: Final[Mapping[str, str]] = {
    "TIME WITH TIME ZONE": "cast it to TIME, or to VARCHAR to keep its offset",
    "BIT": "cast it to VARCHAR",
    "BIGNUM": "cast it to DECIMAL or to VARCHAR",
    "VARIANT": "cast it to JSON",
    "UHUGEINT": "cast it to HUGEINT, or to VARCHAR if it has longer numbers",
}


@dataclass(frozen=True)
class Source:
    """Rows that can be read once, piece by piece."""

    schema: pa.Schema
    pieces: Callable[[], Iterator[Any]]  # called once, when the rows are needed
    batches: Callable[[Any], Iterable[pa.RecordBatch]]  # of one piece; for several threads at once
    fragments: ds.Dataset | None = None  # what other processes can read a part of, by its fragments
    polars: Any = None  # the frame of Polars that these rows are, eager or lazy, whose pieces are such frames


def source_of(data: Any, *, schema: pa.Schema | None = None, index: bool | None = None) -> Source:
    """What to read of somebody's data. Of an iterable, the first element is taken; else nothing is read.

    ``schema``: what to make of it; by default what it is. ``index``: of pandas, as for ``magicfs.write``.

    Raises UsageError for what is no table, or cannot become one of Arrow.
    """
    found = _source(data, schema, index)
    if schema is None:
        return found
    if found.schema.names != schema.names:
        raise UsageError(
            f"schema= has the columns {', '.join(schema.names)}, and the data have "
            f"{', '.join(found.schema.names)}; nothing was changed; name the same ones in the same order"
        )
    return replace(
        found, schema=schema, polars=None, batches=lambda piece: _cast(found.batches(piece), schema)
    )


def _source(data: Any, schema: pa.Schema | None, index: bool | None) -> Source:
    return _of_arrow(data) or _of_engine(data, schema, index) or _of_many(data, schema, index)


def _of_arrow(data: object) -> Source | None:
    match data:
        case pa.Table():
            rows = _piece_rows(data.num_rows, bytes_of(data))
            return Source(data.schema, lambda: iter(data.to_batches(max_chunksize=rows)), _itself)
        case pa.RecordBatch():
            return _of_arrow(pa.Table.from_batches([data]))
        case pa.RecordBatchReader():
            return Source(data.schema, lambda: iter(data), _itself)
        case ds.Scanner():
            return Source(data.projected_schema, data.to_batches, _itself)
        case ds.Dataset():
            return _dataset(data)
    return None


def _of_engine(data: object, schema: pa.Schema | None, index: bool | None) -> Source | None:
    match type(data).__module__.partition(".")[0], type(data).__name__:
        case "pandas", "DataFrame":
            return _pandas(data, schema, index)
        case "polars", "DataFrame":
            return _eager(data)
        case "polars", "LazyFrame":
            return _lazy(data)
        case ("pandas" | "polars") as engine, "Series":
            raise UsageError(f"data is a Series of {engine}; nothing was changed; pass data.to_frame()")
        case "duckdb" | "_duckdb", _ if hasattr(data, "to_arrow_reader"):
            return _duckdb(data)
        case ("pyspark" | "dask") as engine, _:
            call = {"pyspark": "spark.write(df, url)", "dask": "dask.to_parquet(ddf, url)"}[engine]
            raise UsageError(f"data is of {engine}; call magicfs.{call}, which writes where it computes")
    return None


def _of_many(data: object, schema: pa.Schema | None, index: bool | None) -> Source:
    if hasattr(data, "__arrow_c_stream__"):
        reader = pa.RecordBatchReader.from_stream(data)
        return Source(reader.schema, lambda: iter(reader), _itself)
    if isinstance(data, Iterable) and not _is_no_table(data):
        return _many(iter(data), schema, index)
    raise UsageError(f"data is {_described(data)}; pass {_TAKEN}")


def _is_no_table(data: Any) -> bool:
    return isinstance(data, str | bytes | dict) or hasattr(data, "dtype") or hasattr(data, "__fspath__")


def _described(data: str | PurePath | Any) -> str:
    kind = f"of type {type(data).__module__}.{type(data).__qualname__}"
    if isinstance(data, str) or hasattr(data, "__fspath__"):
        kind += ", and files are read with pyarrow.dataset.dataset(path), or by the command magicfs write"
    return kind


def _itself(batch: pa.RecordBatch) -> Iterable[pa.RecordBatch]:
    return (batch,)


def _cast(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if batch.schema.equals(schema):
            yield batch
            continue
        if batch.schema.names != schema.names:
            raise UsageError(
                f"rows with the columns {', '.join(batch.schema.names)} came after rows with "
                f"{', '.join(schema.names)}; nothing was published; give all rows the same columns"
            )
        try:
            yield batch.cast(schema)
        except pa.ArrowException as error:
            raise UsageError(
                f"rows do not fit the columns of the first rows, or of schema=: {error}; nothing was "
                "published"
            ) from error


def _piece_rows(rows: int, size: int) -> int:
    return max(1, min(8 * BATCH_ROWS, rows * _BATCH_BYTES // max(size, 1) or 1))


# -- each engine -----------------------------------------------------------------------------------------


def _dataset(data: ds.Dataset) -> Source:
    def pieces() -> Iterator[Any]:
        # By default 16 batches of 4 files are read ahead: as much as all the rest of a write holds.
        return iter(data.to_batches(batch_size=BATCH_ROWS, batch_readahead=4, fragment_readahead=2))

    try:
        next(iter(data.get_fragments()), None)
    except ValueError:  # filtered: the filter would be lost
        return Source(data.schema, pieces, _itself)
    return Source(data.schema, pieces, _itself, fragments=data)


def _reason(frame: pd.DataFrame, error: Exception) -> str:
    """What pyarrow says, with the column: it does not name that while it looks for types."""
    try:
        pa.Table.from_pandas(frame.select_dtypes("object"), preserve_index=False)
    except (pa.ArrowException, ValueError, TypeError) as named:
        error = named
    return "; ".join(map(str, error.args))


def _pandas(frame: pd.DataFrame, schema: pa.Schema | None, index: bool | None) -> Source:
    if index is None and (schema is not None or frame.index.name is not None):
        index = True  # pyarrow keeps a range in metadata alone, where rows of other files are not in it
    try:
        found = pa.Schema.from_pandas(frame, preserve_index=index) if schema is None else schema
        frame = _named_by_text(frame)
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise UsageError(
            f"the DataFrame cannot be converted to Arrow: {_reason(frame, error)}; nothing was changed; cast "
            "the column, or pass schema="
        ) from error
    names = set(found.names)
    if lost := [name for name in frame.columns if name not in names]:
        raise UsageError(
            f"the DataFrame has a column {lost[0]!r}, which schema=, or the first rows, do not have; "
            "nothing was published; give all rows the same columns"
        )
    rows = _piece_rows(len(frame), int(frame.memory_usage(index=True).sum()))

    def batches(piece: Any) -> Iterable[pa.RecordBatch]:
        try:
            # A table: text that was put together of several frames has several chunks.
            return list(pa.Table.from_pandas(piece, schema=found, preserve_index=index).to_batches())
        except (pa.ArrowException, KeyError) as error:
            raise UsageError(
                f"rows of the DataFrame do not fit its columns: {error}; nothing was published"
            ) from error

    return Source(
        found, lambda: (frame.iloc[start : start + rows] for start in range(0, len(frame), rows)), batches
    )


def _named_by_text(frame: pd.DataFrame) -> pd.DataFrame:
    """The same rows, whose columns and index have the names that pyarrow makes of numbers and tuples."""
    if all(isinstance(name, str) for name in (*frame.columns, *frame.index.names)):
        return frame
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that names become text: the caller's own schema has said so
        names = pa.Schema.from_pandas(frame.iloc[:0], preserve_index=True).names
    width = len(frame.columns)
    named = frame.set_axis(names[:width], axis=1)
    named.index = named.index.set_names(names[width:])
    return named


def _of_polars(frame: Any) -> Iterable[pa.RecordBatch]:
    return list(frame.to_arrow().to_batches(max_chunksize=BATCH_ROWS))


def _eager(frame: Any) -> Source:
    rows = _piece_rows(frame.height, frame.estimated_size())
    return Source(_polars_schema(frame.clear()), lambda: frame.iter_slices(rows), _of_polars, polars=frame)


def _lazy(frame: Any) -> Source:
    if not hasattr(frame, "collect_batches"):
        raise UsageError(
            "this Polars cannot stream a LazyFrame to another writer; install a newer one, or pass "
            "frame.collect()"
        )
    return Source(
        _polars_schema(frame.collect_schema().to_frame(eager=True)),
        lambda: iter(frame.collect_batches(chunk_size=BATCH_ROWS, engine="streaming")),
        _of_polars,
        polars=frame,
    )


def _polars_schema(empty: Any) -> pa.Schema:
    for name, kind in empty.schema.items():
        _refuse(name, _parts_of_polars(kind), _NOT_OF_POLARS)
    return pa.schema(empty.to_arrow().schema)


def _parts_of_polars(kind: Any) -> Iterator[str]:
    """The names of a type and of all types in it."""
    yield str(kind)
    inner = getattr(kind, "inner", None)
    for one in (
        *([inner] if inner is not None else ()),
        *(each.dtype for each in getattr(kind, "fields", ())),
    ):
        yield from _parts_of_polars(one)


def _parts_of_duckdb(kind: Any) -> Iterator[str]:
    yield kind.id.upper()
    if kind.id in ("list", "array", "struct", "map", "union"):
        for _, one in kind.children:
            if hasattr(one, "id"):  # of an array, the size is a child
                yield from _parts_of_duckdb(one)


def _refuse(name: str, kinds: Iterable[str], not_taken: Mapping[str, str]) -> None:
    """Raise UsageError for a column with a type that no table of Arrow can hold, or whose values would be
    other ones in it.
    """
    for kind in kinds:
        if kind in not_taken:
            raise UsageError(
                f"column {name!r} has type {kind}, which Arrow cannot store as it is; nothing was changed; "
                f"{not_taken[kind]}"
            )


def _duckdb(result: Any) -> Source:
    for name, kind, *_ in result.description or ():
        _refuse(name, _parts_of_duckdb(kind), _NOT_OF_DUCKDB)
    if hasattr(result, "limit"):  # a relation, which is run when its rows are needed
        schema = result.limit(0).to_arrow_table().schema
        return Source(schema, lambda: iter(result.to_arrow_reader(BATCH_ROWS)), _itself)
    reader = None if result.description is None else result.to_arrow_reader(BATCH_ROWS)
    if reader is None:  # nothing was run, or its rows were read already
        raise UsageError("data is a connection of DuckDB; pass a relation, such as con.sql('FROM sales')")
    return Source(reader.schema, lambda: iter(reader), _itself)


def _many(elements: Iterator[Any], schema: pa.Schema | None, index: bool | None) -> Source:
    """Tables one after the other: the first one has the columns of all."""
    first = next(elements, None)
    if first is None:
        if schema is None:
            raise UsageError(
                "the iterable is empty, so the columns are unknown; nothing was changed; pass schema= for "
                "a dataset without rows"
            )
        return Source(schema, lambda: iter(()), _itself)
    if not _is_table(first):
        raise UsageError(f"the elements of data are {_described(first)}; pass {_TAKEN}")
    found = _source(first, schema, index)

    def pieces() -> Iterator[Any]:
        # Each by itself: an element may be a stream, which is read once.
        for one in chain(((found),), (_source(each, found.schema, index) for each in elements)):
            yield from (partial(one.batches, piece) for piece in one.pieces())

    return Source(found.schema, pieces, lambda batches: _cast(batches(), found.schema))


def _is_table(data: Any) -> bool:
    package = type(data).__module__.partition(".")[0]
    return package in ("pandas", "polars", "pyarrow") or hasattr(data, "__arrow_c_stream__")


def fragment_batches(
    dataset: ds.Dataset, schema: pa.Schema, number: int, count: int
) -> Iterator[pa.RecordBatch]:
    """The rows of every ``count``-th fragment of a dataset, beginning with the given one."""
    for fragment in islice(dataset.get_fragments(), number, None, count):
        yield from _cast(
            fragment.to_batches(schema=dataset.schema, batch_size=BATCH_ROWS, batch_readahead=4), schema
        )
