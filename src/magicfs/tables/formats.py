"""The formats of files, each as pyarrow writes it, with Spark's names of the codecs.

A worker of Spark is a new process, whose first file waits for what is imported: so each format brings its own
when it is used, and ``pyarrow.compute``, which takes longest, comes where values are computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, Protocol, cast

import pyarrow as pa

from magicfs.errors import UsageError

# Text is made of so many bytes of rows at a time: it may take many times their memory.
_TEXT_BYTES = 4 * 2**20
_EPOCH = date(1970, 1, 1)


class Sink(Protocol):
    """What a file is written to: binary, sequential."""

    def write(self, data: Any) -> int:
        """Take data in."""


@dataclass(frozen=True, kw_only=True)
class FileSettings:
    """How files of a format are written."""

    compression: str = "none"  # the codec, as pyarrow calls it
    row_group_size: int | None = None
    """Most rows of a row group, or of a record batch; None for pyarrow's default."""
    dictionaries: Sequence[str] | None = None
    """Of Parquet: the columns that get a dictionary; None for all."""


class _Encoder(Protocol):
    """What a format makes of tables; ``close`` ends the file and leaves the sink open."""

    def write(self, table: pa.Table) -> None: ...
    def close(self) -> None: ...


@dataclass(frozen=True)
class Format:
    """A format of files."""

    name: str  # its name, which is how file names end
    codecs: Mapping[str, tuple[str, str]]
    """Spark's name of each codec that readers know, with pyarrow's and its mark in file names."""
    default: str  # the codec that is taken if none is asked for
    encoder: Callable[[Sink, pa.Schema, FileSettings], _Encoder]
    """Makes what encodes tables into a sink."""
    row_groups: bool = False  # whether files have groups whose rows can be counted
    codec_last: bool = False
    """Whether the codec stands behind the format's name, as it does where it wraps the file."""
    days: tuple[date, date] | None = None
    """The first and the last day that it keeps; None where it keeps all."""

    def extension(self, codec: str | None = None) -> str:
        """How file names end, such as ``.zstd.parquet``. ``codec``: Spark's name; None for the default."""
        mark = self.codecs[codec or self.default][1]
        return f".{self.name}{mark}" if self.codec_last else f"{mark}.{self.name}"


class FileWriter:
    """Writes tables of one schema as one file of a format. Made by ``open_writer``, for one thread."""

    def __init__(self, kind: Format, sink: _CountingSink, encoder: _Encoder) -> None:
        self.rows: int = 0
        self._kind = kind
        self._sink = sink
        self._encoder = encoder

    @property
    def bytes(self) -> int:
        """What the sink got so far; final once the writer is closed."""
        return self._sink.count

    def write(self, rows: pa.Table | pa.RecordBatch) -> None:
        """Add rows. Raises UsageError for a value that the format does not keep: a day before 1582 in ORC."""
        table = rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])
        if self._kind.days is not None:
            for name, column in zip(table.column_names, table.columns, strict=True):
                for chunk in column.chunks:
                    _check_days(self._kind, name, chunk)
        self._encoder.write(table)
        self.rows += table.num_rows

    def close(self) -> None:
        """Write what ends the file; the sink stays open."""
        self._encoder.close()

    def abort(self) -> None:
        """Give up: nothing more reaches the sink."""
        self._sink.dead = True
        with suppress(Exception):  # the file is lost anyway
            self._encoder.close()


def open_writer(kind: Format, sink: Sink, schema: pa.Schema, settings: FileSettings) -> FileWriter:
    """Begin a file. Raises UsageError if the schema holds a type that the format does not have.

    ``sink`` is not closed. ``schema`` is that of the tables, with what metadata the file shall have.
    """
    counting = _CountingSink(sink)
    try:
        return FileWriter(kind, counting, kind.encoder(cast("Sink", counting), schema, settings))
    except pa.ArrowException as error:
        names = [one.name for one in schema if str(error).rpartition(":")[2].strip() in str(one.type)]
        raise UsageError(
            f"{kind.name} cannot hold this schema: {error}; nothing was published; cast "
            f"{', '.join(map(repr, names)) or 'the column'} to string, or leave it out"
        ) from error


class _CountingSink:
    """Counts, and shields the sink from being closed: pyarrow's streams close what they wrap."""

    closed = False

    def __init__(self, sink: Sink) -> None:
        self.count: int = 0
        self.dead = False
        self._sink = sink

    def write(self, data: Any) -> int:
        size = memoryview(data).nbytes
        if not self.dead:
            self._sink.write(data)
            self.count += size
        return size

    def flush(self) -> None:
        """Do nothing: what was written is written."""

    def close(self) -> None:
        """Do nothing: the sink stays open."""


# -- one encoder for each format -------------------------------------------------------------------------


class _Parquet:
    def __init__(self, sink: Sink, schema: pa.Schema, settings: FileSettings) -> None:
        import pyarrow.parquet

        # Decimals as Spark writes them: small ones as whole numbers.
        self._writer = pyarrow.parquet.ParquetWriter(
            cast("Any", sink),
            schema,
            compression=settings.compression,
            store_decimal_as_integer=True,
            use_dictionary=True if settings.dictionaries is None else list(settings.dictionaries),
        )
        self._rows = settings.row_group_size

    def write(self, table: pa.Table) -> None:
        self._writer.write_table(table, self._rows)

    def close(self) -> None:
        self._writer.close()


class _Orc:
    def __init__(self, sink: Sink, schema: pa.Schema, settings: FileSettings) -> None:
        from pyarrow import orc

        codec = "uncompressed" if settings.compression == "none" else settings.compression
        self._writer = orc.ORCWriter(sink, compression=codec)
        self._writer.write(schema.empty_table())

    def write(self, table: pa.Table) -> None:
        self._writer.write(table)

    def close(self) -> None:
        self._writer.close()


class _Arrow:
    def __init__(self, sink: Sink, schema: pa.Schema, settings: FileSettings) -> None:
        codec = None if settings.compression == "none" else settings.compression
        options = pa.ipc.IpcWriteOptions(compression=codec)
        self._writer = pa.ipc.new_file(cast("Any", sink), schema, options=options)
        self._rows = settings.row_group_size

    def write(self, table: pa.Table) -> None:
        self._writer.write_table(table.combine_chunks(), self._rows)

    def close(self) -> None:
        self._writer.close()


class _Text:
    """Lines of text, made in slices and compressed as a stream."""

    def __init__(
        self, sink: Sink, settings: FileSettings, lines: Callable[[pa.Table], Any], header: Any = b""
    ) -> None:
        stream: Any = pa.PythonFile(cast("Any", sink), "w")
        codec = settings.compression
        self._stream = stream if codec == "none" else pa.CompressedOutputStream(stream, codec)
        self._lines = lines
        self._stream.write(header)

    def write(self, table: pa.Table) -> None:
        for piece in _slices(table):
            self._stream.write(self._lines(piece))

    def close(self) -> None:
        self._stream.close()


def _csv(sink: Sink, schema: pa.Schema, settings: FileSettings) -> _Text:
    return _Text(sink, settings, _csv_lines, _csv_text(schema.empty_table(), header=True))


def _csv_lines(table: pa.Table) -> Any:
    if table.num_columns == 1 and table.column(0).null_count:
        raise UsageError(
            f"column {table.column_names[0]} is the only one and holds null, which CSV writes as an empty "
            "line that readers skip; write another column too, replace nulls, or choose 'json'"
        )
    from magicfs.tables import text_lines

    return _csv_text(text_lines.csv_values(table), header=False)


def _csv_text(table: pa.Table, *, header: bool) -> Any:
    import pyarrow.csv

    buffer = pa.BufferOutputStream()
    pyarrow.csv.write_csv(table, buffer, pyarrow.csv.WriteOptions(include_header=header))
    return buffer.getvalue()


def _json(sink: Sink, _schema: pa.Schema, settings: FileSettings) -> _Text:
    from magicfs.tables import text_lines

    return _Text(sink, settings, text_lines.json_lines)


def _slices(table: pa.Table) -> Iterator[pa.Table]:
    rows = max(1, table.num_rows * _TEXT_BYTES // max(table.nbytes, 1))
    for start in range(0, table.num_rows, rows):
        yield table.slice(start, rows)


# -- days that a format does not keep --------------------------------------------------------------------


def _check_days(kind: Format, name: str, array: pa.Array[Any]) -> None:
    assert kind.days is not None
    type_ = array.type
    if pa.types.is_struct(type_):
        for one in cast("pa.StructArray", array).flatten():
            _check_days(kind, name, one)
    elif pa.types.is_map(type_):
        from magicfs.tables import text_lines

        _check_days(kind, name, array.cast(text_lines.entries_type(cast("pa.MapType[Any, Any]", type_))))
    elif pa.types.is_list(type_) or pa.types.is_large_list(type_):
        _check_days(kind, name, cast("pa.ListArray[Any]", array).flatten())
    elif pa.types.is_date32(type_) or pa.types.is_timestamp(type_):
        import pyarrow.compute as pc

        first, last = kind.days
        unit: timedelta = timedelta(days=1)
        numbers: Any = array
        if pa.types.is_timestamp(type_):
            unit = timedelta(microseconds=1)
            zone = cast("pa.TimestampType[Any, Any]", type_).tz
            numbers = array.cast(pa.timestamp("us", zone), safe=False).cast(pa.int64())
        found: Any = pc.min_max(numbers.cast(pa.int32()) if pa.types.is_date32(type_) else numbers)
        low, high = found["min"].as_py(), found["max"].as_py()
        if low is None:
            return
        if low < (first - _EPOCH) // unit or high >= (last - _EPOCH + timedelta(days=1)) // unit:
            raise UsageError(
                f"column {name} holds a day outside {first} to {last}, which {kind.name} files cannot "
                "store; cast the column to string, or choose 'parquet'"
            )


_PLAIN = {"none": ("none", ""), "uncompressed": ("none", "")}
_WHOLE = {**_PLAIN, "gzip": ("gzip", ".gz"), "bzip2": ("bz2", ".bz2")}
_FAST = {"zstd": ("zstd", ".zstd"), "snappy": ("snappy", ".snappy")}
# Spark reads ORC of pyarrow by the calendar that Europe had before; and text of years with four digits.
_GREGORIAN = (date(1582, 10, 15), date.max - timedelta(days=1))
_FOUR_DIGITS = (date.min, date.max - timedelta(days=1))

FORMATS: Mapping[str, Format] = {
    one.name: one
    for one in (
        Format(
            "parquet",
            {**_FAST, "gzip": ("gzip", ".gz"), "lz4_raw": ("lz4", ".lz4raw"), **_PLAIN},
            "zstd",
            _Parquet,
            row_groups=True,
        ),
        Format("csv", _WHOLE, "none", _csv, codec_last=True, days=_FOUR_DIGITS),
        Format("json", _WHOLE, "none", _json, codec_last=True, days=_FOUR_DIGITS),
        Format(
            "orc",
            {**_FAST, "zlib": ("zlib", ".zlib"), "lz4": ("lz4", ".lz4"), **_PLAIN},
            "zstd",
            _Orc,
            days=_GREGORIAN,
        ),
        Format(
            "arrow",
            {**_PLAIN, "zstd": ("zstd", ".zstd"), "lz4": ("lz4", ".lz4")},
            "none",
            _Arrow,
            row_groups=True,
        ),
    )
}
"""Every format by its name."""
