"""The files of each format as Arrow batches, a few columns of them, and what columns a file has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from magicfs.datasets.connection import Destination
from magicfs.errors import UsageError
from magicfs.manifests.comparison import Named
from magicfs.reading.named_reads import NamedReads
from magicfs.reading.published_file import PublishedFile
from magicfs.spark.published import text
from magicfs.spark.published.declared import found_columns
from magicfs.tables.formats import FORMATS

_ROWS = 65_536
"""Most rows of a batch."""
_CODECS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}


Place: TypeAlias = tuple[tuple[str, str | None], ...]
"""The values of a file's directories by column, as text."""


@dataclass(frozen=True, slots=True)
class Piece:
    """What a task reads of one file: all that begins between two of its bytes."""

    key: str  # relative to the destination
    size: int  # of the whole file
    file_format: str
    start: int
    end: int
    values: Place = ()  # of those columns that are declared
    version: str | None = None  # of the file, where its bucket keeps versions
    etag: str = ""
    write_id: str | None = None


def format_of(key: str, asked: str | None) -> str:
    """The format of a file: the one that was asked for, or that its name ends in. Raises UsageError."""
    if asked is not None:
        return asked
    name = key.rpartition("/")[2].lower()
    for codec in _CODECS:
        name = name.removesuffix(codec)
    for one in FORMATS:
        if name.endswith(f".{one}"):
            return one
    raise UsageError(
        f"{key!r} has no known extension; name its format with option('fileFormat', …): {', '.join(FORMATS)}"
    )


def open_file(destination: Destination, path: str, file: Named) -> Any:
    """A published file for pyarrow; one of this machine as such."""
    reads = NamedReads(destination.filesystem, destination.location)
    if not getattr(destination.filesystem, "local_file", False):
        return pa.PythonFile(PublishedFile(reads, path, file), mode="r")
    return reads.open_local(path, file, lambda at: pa.OSFile(at, "rb"))


def columns_of(source: Any, key: str, file_format: str) -> pa.Schema:
    """The columns of a file; of CSV all are text, of JSON they are guessed from the first rows."""
    match file_format:
        case "parquet":
            import pyarrow.parquet

            return pyarrow.parquet.read_schema(source)
        case "orc":
            from pyarrow import orc

            return orc.ORCFile(source).schema
        case "arrow":
            return pa.ipc.open_file(source).schema
        case "csv":
            return pa.schema([(one, pa.string()) for one in text.csv_columns(_plain(source, key))])
        case _:
            return pa.schema(list(text.guessed_columns(_plain(source, key)).items()))


def batches(source: Any, piece: Piece, wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of a piece, of the wanted columns that the file has, of the file's own types.

    A file that has none of them still gives as many rows.
    """
    match piece.file_format:
        case "parquet":
            yield from _parquet(source, piece, wanted.names)
        case "orc":
            from pyarrow import orc

            file = orc.ORCFile(source)
            columns = _of_file(file.schema.names, wanted.names)
            for stripe in range(file.nstripes):
                yield from _cut(file.read_stripe(stripe, columns))
        case "arrow":
            reader = pa.ipc.open_file(source)
            for number in range(reader.num_record_batches):
                yield from _cut(reader.get_batch(number))
        case "csv":
            yield from text.csv_batches(_plain(source, piece.key), wanted.names)
        case _:
            yield from text.json_batches(_plain(source, piece.key), list(wanted))


def _parquet(source: Any, piece: Piece, wanted: Sequence[str]) -> Iterator[pa.RecordBatch]:
    import pyarrow.parquet

    file = pyarrow.parquet.ParquetFile(source, pre_buffer=True)
    groups = [
        number
        for number in range(file.num_row_groups)
        if piece.start <= _begin(file.metadata.row_group(number)) < piece.end
    ]
    if groups:
        columns = _of_file(file.schema_arrow.names, wanted)
        yield from file.iter_batches(_ROWS, row_groups=groups, columns=columns)


def _begin(group: Any) -> int:
    """Where a row group begins; one without columns at the first byte."""
    if not group.num_columns:
        return 0
    first = group.column(0)
    begins = first.data_page_offset
    if first.has_dictionary_page and 0 < first.dictionary_page_offset < begins:
        begins = first.dictionary_page_offset
    return int(begins)


def _of_file(there: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """Which columns to read, one at least, so that rows can be counted."""
    return list(found_columns(there, wanted).values()) or list(there[:1])


def _cut(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    for start in range(0, batch.num_rows, _ROWS):
        yield batch.slice(start, _ROWS)


def _plain(source: Any, key: str) -> Any:
    for ending, codec in _CODECS.items():
        if key.lower().endswith(ending):
            return pa.CompressedInputStream(source, codec)
    return source
