"""Parquet files of a Polars frame, which Polars itself encodes: only bytes pass through the task.

Polars' encoder is faster than pyarrow's, and its sink splits partitions faster. What it does not do as
``magicfs.write`` promises is left to ``partition_writer``: other formats, limits of files, several tasks, and
partitions that would hold more rows in memory, or more files open, than a task may have.
"""

from __future__ import annotations

import io
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
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
from magicfs.tables.polars_stream import FrameStream, keys_of, popped

if TYPE_CHECKING:
    import polars as pl

_CODECS = {"none": "uncompressed", "lz4": "lz4", "snappy": "snappy", "zstd": "zstd", "gzip": "gzip"}
_FINISHERS = 4
_OPEN_MAX = 64
_GROUP_ROWS = 100_000
_GROUP_ROWS_MIN = 2048
_THREADS_MIN = 2  # of Polars, while there is another query
_SAMPLE_ROWS = 10_000
_PIECE_ROWS = 2**17
_END = b"PAR1"  # of Parquet's files
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
        if self.partition_by:
            return self._write_all(deque(frame.iter_slices(_PIECE_ROWS)))
        return Written(self._finished(_Opened(self), partial(self._write_lazy, frame.lazy())) or 0)

    def write_pieces(self, pieces: Iterator[pl.DataFrame]) -> Written:
        """Write the partitions of frames that come one after the other, as long as they are few.

        Raises as ``write``.
        """
        import polars as pl

        held, is_all = _hold(pieces)
        if is_all:
            return self._write_all(held)
        seen = pl.concat([keys_of(piece, self.partition_by) for piece in held]).unique()
        partitions_max = min(self.open_max, 2 * seen.height)
        group = self._rows_in_buffer(held, partitions_max)
        # A thread waits for the frames of the other query.
        if seen.height > partitions_max or group is None or pl.thread_pool_size() < _THREADS_MIN:
            return Written(0, chain(popped(held), pieces))
        opened = _Opened(self)
        stream = FrameStream(held, pieces, seen, partitions_max, opened.errors)
        self._finished(opened, partial(self._write_stream, stream, group))
        return Written(stream.rows, stream.left, opened.numbers)

    def _write_all(self, held: deque[pl.DataFrame]) -> Written:
        """Write frames that are all."""
        import polars as pl

        if not held:
            return Written(0)
        keys = pl.concat([piece.select(self.partition_by) for piece in held], rechunk=False)
        # Taken at random: a pattern of the rows could hide partitions from any other sample.
        count = keys.sample(_SAMPLE_ROWS, with_replacement=True, seed=0).n_unique()
        rows, group = None, self._rows_in_buffer(held, min(self.open_max, 2 * count))
        if group is not None and count <= self.open_max:
            opened = _Opened(self)
            # As one frame they take Polars longer. They stay held: the partitions may be too many after all.
            stream = FrameStream(deque(held), iter(()), keys.clear(), self.open_max, opened.errors)
            rows = self._finished(opened, partial(self._write_stream, stream, group))
        return Written(0, popped(held)) if rows is None else Written(rows)

    def _finished(self, opened: _Opened, write: Callable[[_Opened], int]) -> int | None:
        """Write, and finish every file; None if there were too many, and nothing is left of them."""
        try:
            rows = write(opened)
            opened.finish()
        except BaseException as error:
            first = opened.errors[0] if opened.errors else error  # Polars reports those of files as text
            opened.abort()
            if opened.too_many:  # partitions, which only shows when their files are opened
                return None
            if first is not error:
                raise first from None
            raise
        return rows

    def _write_stream(self, stream: FrameStream, group: int, opened: _Opened) -> int:
        lazy = stream.frame()
        empty = lazy.collect_schema().to_frame(eager=True)
        self._sink(lazy, self._partitions(empty, opened), group)
        return stream.rows

    def _write_lazy(self, frame: pl.LazyFrame, opened: _Opened) -> int:
        counts: list[int] = []

        def count(rows: pl.DataFrame) -> pl.DataFrame:
            counts.append(rows.height)
            return rows

        counted = frame.map_batches(count, streamable=True, validate_output_schema=False)
        self._sink(counted, opened.open(""), self.row_group_size)
        if not sum(counts):
            opened.abort()
        return sum(counts)

    def _rows_in_buffer(self, frames: Collection[pl.DataFrame], partitions_max: int) -> int | None:
        """How many rows of each partition fit the buffer, if they are like these; None: too few."""
        group = self.row_group_size or _GROUP_ROWS
        size = sum(frame.estimated_size() for frame in frames)
        if size <= BUFFER_BYTES:
            return group
        rows = BUFFER_BYTES * sum(frame.height for frame in frames) // (size * partitions_max)
        return None if rows < _GROUP_ROWS_MIN else min(group, rows)

    def _partitions(self, frame: pl.DataFrame, opened: _Opened) -> pl.PartitionBy:
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


class _Opened:
    """The files that Polars has asked for. ``open`` and ``take`` are called by threads of Polars."""

    def __init__(self, files: PolarsFiles) -> None:
        self.errors: list[BaseException] = []  # that the files raised, the first one first
        self.too_many = False
        self._files = files
        self._lock = threading.Lock()
        self.numbers: dict[str, int] = {}
        self._open: list[_Sink] = []
        self._ended = False
        # Starts no thread before the second file.
        self._pool = ThreadPoolExecutor(_FINISHERS, thread_name_prefix="magicfs-finisher")
        self._finished: list[Future[None]] = []

    def open(self, directory: str) -> Any:
        """Begin a file of a directory."""
        return self.open_for(lambda: directory)

    def open_for(self, directory: Callable[[], str]) -> Any:
        """Begin a file of a directory that is still to be named."""
        try:
            with self._lock:
                return self._begin(directory())
        except BaseException as error:
            self.errors.append(error)
            raise

    def _begin(self, directory: str) -> Any:
        if self._ended:
            raise ValueError("the write has ended")
        if len(self._open) >= self._files.open_max:
            self.too_many = True
            raise ValueError("more files than can be open")
        number = self.numbers.get(directory, 0)
        self.numbers[directory] = number + 1
        name = self._files.name.of(number)
        file = self._files.open_file(f"{directory}/{name}" if directory else name)
        self._open.append(_Sink(file, self.errors, self.take))
        return self._open[-1]

    def take(self, file: _Sink) -> None:
        """Finish a file that is whole: its upload goes on while Polars encodes the next ones."""
        with self._lock:
            # No thread is started for a task's only file.
            if not self._ended and len(self._open) > 1:
                self._finished.append(self._pool.submit(file.finish))

    def finish(self) -> None:
        """Finish every file, several at once; each is tried."""
        if self.errors:  # one whose write failed is not whole, whatever Polars made of it
            raise self.errors[0]
        for file in self._open:
            self.take(file)
        self._end()
        if len(self._open) == 1:
            self._open[0].finish()
        for one in self._finished:
            one.result()

    def abort(self) -> None:
        """Discard every file. A second call does nothing."""
        self._end()
        waiting, self._open = self._open, []
        for file in waiting:
            with suppress(Exception):  # the first error must not be hidden; the task discards what it finds
                file.abort()

    def _end(self) -> None:
        with self._lock:
            self._ended = True
        self._pool.shutdown()


class _Sink:
    """What Polars writes a file to. It keeps what went wrong, for Polars makes another error of it.

    Threads of Polars may still write when the query has failed, and the file is aborted.
    """

    closed = False

    def __init__(self, file: OutputFile, errors: list[BaseException], take: Callable[[_Sink], None]) -> None:
        self._file = file
        self._errors = errors
        self._take = take
        self._last = b""
        self._lock = threading.Lock()
        self._ended = False

    def write(self, data: Any) -> int:
        with self._lock:
            if self._ended:
                raise ValueError("the file has ended")
            try:
                self._file.write(data)
            except BaseException as error:
                self._errors.append(error)
                raise
            self._last = bytes(data[-len(_END) :])
        return len(data)

    def flush(self) -> None:
        """Hand over a file that is whole. Polars flushes at the end, and never closes."""
        if self._last == _END:
            self._last = b""
            self._take(self)

    def close(self) -> None:
        """Do nothing: the code that opened the file finishes it."""

    def finish(self) -> None:
        with self._lock:
            self._ended = True
            self._file.close()

    def abort(self) -> None:
        with self._lock:
            self._ended = True
            self._file.abort()


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
    """Whether Polars writes its types as pyarrow writes those of a schema; compares two empty files."""
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
