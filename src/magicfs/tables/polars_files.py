"""Parquet files of a Polars frame, which Polars itself encodes: only bytes pass through the task.

Polars' encoder is faster than pyarrow's, and its sink splits partitions faster. What it does not do as
``magicfs.write`` promises is left to ``partition_writer``: other formats, limits of files, several tasks, and
partitions that would hold more rows in memory, or more files open, than a task may have.
"""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import lru_cache, partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from magicfs.tables import partition_names
from magicfs.tables.column_types import ColumnTypes
from magicfs.tables.output_files import FileName, OutputFile
from magicfs.tables.partition_names import Partitioning
from magicfs.tables.partition_writer import BUFFER_BYTES
from magicfs.tables.polars_open_files import OpenFiles
from magicfs.tables.polars_stream import FrameStream, keys_of, popped

if TYPE_CHECKING:
    import polars as pl

__all__ = ["PolarsFiles", "Written"]

_CODECS = {"none": "uncompressed", "lz4": "lz4", "snappy": "snappy", "zstd": "zstd", "gzip": "gzip"}
_OPEN_MAX = 64
_GROUP_ROWS = 100_000
_GROUP_ROWS_MIN = 2048
_THREADS_MIN = 2  # of Polars, while there is another query
_SAMPLE_ROWS = 10_000
_PIECE_ROWS = 2**17
_PLAIN = (str, int, bool, date, type(None))
"""Values of Python that are the same in Polars and in Arrow."""


@dataclass(frozen=True)
class Written:
    """What Polars has written of some rows."""

    rows: int
    left: Iterator[pl.DataFrame] = field(default_factory=lambda: iter(()))
    """Frames that are still to be written, by others."""
    numbers: Mapping[str, int] = field(default_factory=dict)
    """How many files each directory has."""


@dataclass(frozen=True, kw_only=True)
class PolarsFiles:
    """How the files of a task are written."""

    open_file: Callable[[str], OutputFile]  # is given a relative name, ``month=1/part-00003.parquet``
    name: FileName
    partition_by: tuple[str, ...]
    partitioning: Partitioning
    codec: str  # as pyarrow has it
    row_group_size: int | None
    files_max: int

    @property
    def open_max(self) -> int:
        """Of files: Polars leaves them open until all are whole."""
        return min(self.files_max, _OPEN_MAX)

    def _open_files(self) -> OpenFiles:
        return OpenFiles(self.open_file, self.name, self.open_max)

    def fits(self, columns: pl.DataFrame, schema: pa.Schema) -> bool:
        """Whether Polars makes of a frame's columns what pyarrow would make of a schema."""
        import polars as pl

        if not hasattr(pl, "PartitionBy"):
            return False
        own = tuple(columns.drop(self.partition_by).schema.items())
        fields = [one for one in schema if one.name not in self.partition_by]
        return _same_columns(own, pa.schema(fields), self.codec)

    def write(self, frame: pl.DataFrame | pl.LazyFrame) -> Written:
        """Write every row, or none where the partitions are too many. Of a LazyFrame no partitions are
        written: see ``write_pieces``.

        Raises what Polars, the data or the files raise: then no file is left open.
        """
        import polars as pl

        opened = self._open_files()
        if isinstance(frame, pl.LazyFrame):
            return Written(self._finished(opened, partial(self._write_lazy, frame)) or 0)
        if self.partition_by:
            rows = self._write_all((frame,))
            return Written(0, frame.iter_slices(_PIECE_ROWS)) if rows is None else Written(rows)
        if frame.height:
            self._finished(opened, partial(self._write_file, frame))
        return Written(frame.height)

    def write_pieces(self, pieces: Iterator[pl.DataFrame]) -> Written:
        """Write the partitions of frames that come one after the other, as long as they are few.

        Raises as ``write``.
        """
        import polars as pl

        held, is_all = _hold(pieces)
        if not held:
            return Written(0)
        if is_all:
            rows = self._write_all(held)
            return Written(0, popped(held)) if rows is None else Written(rows)
        seen = pl.concat([keys_of(piece, self.partition_by) for piece in held]).unique()
        partitions_max = min(self.open_max, 2 * seen.height)
        group = self._rows_in_buffer(held, partitions_max)
        # A thread waits for the frames of the other query.
        if seen.height > partitions_max or group is None or pl.thread_pool_size() < _THREADS_MIN:
            return Written(0, chain(popped(held), pieces))
        opened = self._open_files()
        stream = FrameStream(held, pieces, seen, partitions_max, opened.errors)
        self._finished(opened, partial(self._write_stream, stream, group))
        return Written(stream.rows, stream.left, opened.numbers)

    def _write_all(self, frames: Collection[pl.DataFrame]) -> int | None:
        """Write the partitions of frames that are all there; None if they are too many."""
        import polars as pl

        count: int = sum(one.height for one in frames)
        if not count:
            return 0
        group = self._group_rows(frames)
        if group is None:
            return None
        frame = pl.concat([one.lazy() for one in frames])  # as one frame in memory they take Polars longer
        empty = next(iter(frames)).clear()

        def write(opened: OpenFiles) -> int:
            self._sink(frame, self._partitions(empty, opened), group)
            return count

        return self._finished(self._open_files(), write)

    def _finished(self, opened: OpenFiles, write: Callable[[OpenFiles], int]) -> int | None:
        """Write, and finish every file; None if there were too many, and nothing is left of them."""
        try:
            rows = write(opened)
            opened.finish()
        except BaseException as error:
            first = opened.errors[0] if opened.errors else error  # Polars tells those of files as text
            opened.abort()
            if opened.too_many:  # partitions, which only shows when their files are opened
                return None
            if first is not error:
                raise first from None
            raise
        return rows

    def _write_file(self, frame: pl.DataFrame, opened: OpenFiles) -> int:
        self._sink(frame.lazy(), opened.open(""), self.row_group_size)
        rows: int = frame.height
        return rows

    def _write_stream(self, stream: FrameStream, group: int, opened: OpenFiles) -> int:
        lazy = stream.frame()
        empty = lazy.collect_schema().to_frame(eager=True)
        self._sink(lazy, self._partitions(empty, opened), group)
        return stream.rows

    def _write_lazy(self, frame: pl.LazyFrame, opened: OpenFiles) -> int:
        counts: list[int] = []

        def count(rows: pl.DataFrame) -> pl.DataFrame:
            counts.append(rows.height)
            return rows

        counted = frame.map_batches(count, streamable=True, validate_output_schema=False)
        self._sink(counted, opened.open(""), self.row_group_size)
        if not sum(counts):
            opened.abort()
        return sum(counts)

    def _group_rows(self, frames: Collection[pl.DataFrame]) -> int | None:
        """How many rows each partition may hold; None where that is too few, or partitions are too many."""
        import polars as pl

        # Taken at random: a pattern of the rows could hide partitions from any other sample.
        keys = pl.concat([one.select(self.partition_by) for one in frames])
        some = keys.sample(_SAMPLE_ROWS, with_replacement=True, seed=0)
        count = some.n_unique()
        if count > self.open_max:
            return None
        return self._rows_in_buffer(frames, min(self.open_max, 2 * count))

    def _rows_in_buffer(self, frames: Collection[pl.DataFrame], partitions_max: int) -> int | None:
        """How many rows of each partition fit the buffer, if they are like these; None: too few."""
        group = self.row_group_size or _GROUP_ROWS
        size = sum(frame.estimated_size() for frame in frames)
        if size <= BUFFER_BYTES:
            return group
        rows = BUFFER_BYTES * sum(frame.height for frame in frames) // (size * partitions_max)
        return None if rows < _GROUP_ROWS_MIN else min(group, rows)

    def _partitions(self, frame: pl.DataFrame, opened: OpenFiles) -> pl.PartitionBy:
        import polars as pl

        directory = _Directories(frame, self.partition_by, self.partitioning)
        return pl.PartitionBy(
            "",
            key=list(self.partition_by),
            include_key=False,
            file_path_provider=lambda file: opened.open_for(lambda: directory.of(file.partition_keys)),
        )

    def _sink(self, frame: pl.LazyFrame, target: Any, rows: int | None) -> None:
        _sink(frame, target, self.codec, rows)


class _Directories:
    """The directories of partitions, as ``partition_split`` names them."""

    def __init__(self, frame: pl.DataFrame, names: Sequence[str], partitioning: Partitioning) -> None:
        self._names = tuple(names)
        self._partitioning = partitioning
        self._columns = frame.clear().select(self._names)

    def of(self, keys: pl.DataFrame) -> str:
        """The directory of one row of partition values."""
        chosen = keys.select(self._names)
        values = chosen.row(0)
        if all(type(value) in _PLAIN for value in values):
            return partition_names.directory(self._names, values, self._partitioning)
        from magicfs.tables import partition_split

        types = ColumnTypes(self._columns.to_arrow().schema, partition_by=self._names, file_format="parquet")
        batch = types.convert(chosen.to_arrow().to_batches()[0])
        directory, _ = next(partition_split.split(batch, self._names, partitioning=self._partitioning))
        return directory


def _hold(pieces: Iterator[pl.DataFrame]) -> tuple[deque[pl.DataFrame], bool]:
    """Frames until the buffer is full, and whether that are all."""
    held: deque[pl.DataFrame] = deque()
    size = 0
    for piece in pieces:
        held.append(piece)
        size += piece.estimated_size()
        if size > BUFFER_BYTES:
            return held, False
    return held, True


@lru_cache(maxsize=256)
def _same_columns(columns: tuple[tuple[str, Any], ...], schema: pa.Schema, codec: str) -> bool:
    """Whether Polars writes columns of its types as pyarrow those of a schema: empty files tell."""
    import polars as pl
    import pyarrow.parquet as pq

    ours, theirs = io.BytesIO(), io.BytesIO()
    with pq.ParquetWriter(ours, schema, store_decimal_as_integer=True):
        pass
    _sink(pl.LazyFrame(schema=dict(columns)), theirs, codec, None)
    return _columns_of(ours) == _columns_of(theirs)


def _sink(frame: pl.LazyFrame, target: Any, codec: str, rows: int | None) -> None:
    compression: Any = _CODECS[codec]
    frame.sink_parquet(target, compression=compression, row_group_size=rows)


def _columns_of(file: io.BytesIO) -> tuple[pa.Schema, str]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(file) as found:
        # The first two lines of the text are the object's address, and the name of the root.
        return found.schema_arrow.remove_metadata(), str(found.schema).split("\n", 2)[2]
