"""From Arrow record batches to Parquet files, one for each partition value. Knows nothing of Spark."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Literal, Protocol, Self, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from magicfs.errors import UsageError
from magicfs.protocol import partitions

__all__ = ["BUFFER_BYTES", "Codec", "FileName", "OutputFile", "PartitionWriter"]

BUFFER_BYTES = 128 * 2**20
"""Rows are kept until so much has come together: small batches would make tiny row groups."""

Codec = Literal["snappy", "zstd", "gzip", "lz4", "none"]
"""Pyarrow's names of the codecs that every reader of Parquet knows."""

# Batches are put together before they are split: with a thousand partitions, batches of 10,000 rows take ten
# times as long one by one.
_LUMP_BYTES = 16 * 2**20
# Finishing a file is mostly waiting for the store.
_FINISHERS = 4


class OutputFile(Protocol):
    """What the writer writes to: binary, sequential."""

    closed: bool

    def write(self, data: Any) -> int:
        """Take data in."""

    def close(self) -> None:
        """Finish the file."""

    def abort(self) -> None:
        """Discard the file."""


@dataclass(frozen=True, slots=True)
class FileName:
    """How files are called: the same in every partition, with a number where one has several.

    Attributes:
        stem: Such as ``part-00003``.
        extension: Such as ``.snappy.parquet``.
    """

    stem: str
    extension: str

    def of(self, number: int) -> str:
        """The name of a partition's file, counted from 0."""
        return f"{self.stem}-c{number:03d}{self.extension}" if number else f"{self.stem}{self.extension}"


@dataclass(slots=True)
class _Open:
    file: OutputFile
    parquet: pq.ParquetWriter


@dataclass(slots=True, eq=False)
class _Partition:
    directory: str
    batches: list[pa.RecordBatch] = field(default_factory=list)
    size: int = 0
    files: int = 0
    open: _Open | None = None


class PartitionWriter:
    """Writes batches of one schema; partition columns go into the directories and not into the files.

    Rows are held until they fill row groups. Partitions whose files are open at once are limited: the one
    that was written to least recently is finished, and begins a further file if more of its rows come. As a
    context manager it closes, or aborts if the body raises. For one thread.

    Args:
        open_file: Opens a new file of a relative name, ``month=1/part-00003.parquet``.
        name: How files are called.
        partition_by: The partition columns, outermost first.
        compression: Name of the codec, as pyarrow has it.
        metadata: Goes into every file.
        files_max: Most open files.
        buffer_bytes: How much is held.
    """

    def __init__(
        self,
        open_file: Callable[[str], OutputFile],
        name: FileName,
        *,
        partition_by: Sequence[str] = (),
        compression: Codec = "snappy",
        metadata: Mapping[str, str] | None = None,
        files_max: int = 64,
        buffer_bytes: int = BUFFER_BYTES,
    ) -> None:
        self._open_file = open_file
        self._name = name
        self._partition_by = tuple(partition_by)
        self._compression = compression
        self._metadata: dict[str | bytes, str | bytes] = {}
        self._metadata.update(metadata or {})
        self._files_max = files_max
        self._buffer_bytes = buffer_bytes
        self._partitions: dict[str, _Partition] = {}
        self._in_use: OrderedDict[str, _Partition] = OrderedDict()
        self._buffered = 0
        self._whole: list[pa.RecordBatch] = []
        self._whole_bytes = 0
        self._schema: pa.Schema | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        """Take rows in; what does not fit the buffer goes to its file.

        Raises:
            UsageError: A partition column is missing or of a type that has no text.
            StoreError: A file could not be opened or written.
        """
        if not batch.num_rows:
            return
        if self._schema is None:
            self._schema = self._file_schema(batch.schema)
        if not self._partition_by:
            self._keep("", batch)
            return
        self._whole.append(batch)
        self._whole_bytes += batch.nbytes
        if self._whole_bytes >= min(_LUMP_BYTES, self._buffer_bytes):
            self._split_whole()

    def close(self) -> None:
        """Finish every file, several at once. A second call does nothing.

        Raises:
            StoreError: A file could not be finished; the others are, or are still to be aborted.
        """
        self._split_whole()
        # Open ones first, so that never more than files_max are open.
        waiting = sorted(self._partitions.values(), key=lambda one: one.open is None)
        self._partitions = {}
        try:
            with ThreadPoolExecutor(min(_FINISHERS, self._files_max)) as pool:
                for _ in pool.map(self._finish, waiting):
                    pass
        except BaseException:
            self._abort_all(waiting)
            raise

    def abort(self) -> None:
        """Discard files that are not finished, and rows that are held. A second call does nothing."""
        waiting = list(self._partitions.values())
        self._partitions = {}
        self._whole, self._whole_bytes = [], 0
        self._abort_all(waiting)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if exc is None:
            self.close()
            return
        try:
            self.abort()
        except Exception as second:  # noqa: BLE001 - the first error must not be hidden
            exc.add_note(f"and an open file could not be discarded: {second}")

    # -- files -----------------------------------------------------------------------------------------

    def _flush(self, partition: _Partition) -> None:
        if partition.open is None:
            while len(self._in_use) >= self._files_max:
                _, idle = self._in_use.popitem(last=False)
                self._finish(idle)
        self._in_use[partition.directory] = partition
        self._in_use.move_to_end(partition.directory)
        self._write_out(partition)

    def _write_out(self, partition: _Partition) -> None:
        if partition.open is None:
            partition.open = self._begin(partition)
        table = pa.Table.from_batches(partition.batches)
        self._buffered -= partition.size
        partition.batches, partition.size = [], 0
        partition.open.parquet.write_table(table)

    def _begin(self, partition: _Partition) -> _Open:
        assert self._schema is not None
        name = self._name.of(partition.files)
        file = self._open_file(f"{partition.directory}/{name}" if partition.directory else name)
        try:
            parquet = pq.ParquetWriter(cast("Any", file), self._schema, compression=self._compression)
        except BaseException:
            file.abort()
            raise
        partition.files += 1
        return _Open(file, parquet)

    def _finish(self, partition: _Partition) -> None:
        if partition.batches:
            self._write_out(partition)
        if partition.open is not None:
            partition.open.parquet.close()
            partition.open.file.close()
            partition.open = None

    def _abort_all(self, waiting: Sequence[_Partition]) -> None:
        errors = []
        for partition in waiting:
            partition.batches, partition.size = [], 0
            if (opened := partition.open) is None:
                continue
            partition.open = None
            try:
                opened.file.abort()
            except Exception as error:  # noqa: BLE001 - every file is tried
                errors.append(error)
            with suppress(Exception):  # its footer meets an aborted file
                opened.parquet.close()
        self._buffered = 0
        self._in_use.clear()
        if errors:
            raise errors[0]

    # -- rows ------------------------------------------------------------------------------------------

    def _keep(self, directory: str, rows: pa.RecordBatch) -> None:
        partition = self._partitions.setdefault(directory, _Partition(directory))
        size = rows.nbytes
        partition.batches.append(rows)
        partition.size += size
        self._buffered += size
        while self._buffered > self._buffer_bytes:
            self._flush(max(self._partitions.values(), key=lambda one: one.size))

    def _split_whole(self) -> None:
        """Hand the rows that are held together to their partitions."""
        whole = pa.Table.from_batches(self._whole, self._whole[0].schema) if self._whole else None
        self._whole, self._whole_bytes = [], 0
        for batch in whole.combine_chunks().to_batches() if whole is not None else ():
            for directory, rows in self._split(batch):
                self._keep(directory, rows)

    def _file_schema(self, schema: pa.Schema) -> pa.Schema:
        for name in self._partition_by:
            _check_column(schema, name)
        fields = [one for one in schema if one.name not in self._partition_by]
        return pa.schema(fields, metadata=self._metadata)

    def _split(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The rows of each partition that a batch touches."""
        if not self._partition_by:
            yield "", batch
            return
        columns = [_Column.of(name, batch.column(name)) for name in self._partition_by]
        rows = batch.select([one for one in batch.schema.names if one not in self._partition_by])
        codes = _combined(columns)
        if codes is None:
            yield self._directory(columns, 0), rows
            return
        order = pc.array_sort_indices(codes)
        start = 0
        runs: Any = pc.call_function("run_end_encode", [codes.take(order)])
        for end in runs.run_ends.to_pylist():
            chosen = order.slice(start, end - start)
            # Taken for each partition by itself: slices of one large copy would keep all of it in memory.
            yield self._directory(columns, chosen[0].as_py()), rows.take(chosen)
            start = end

    def _directory(self, columns: Sequence[_Column], row: int) -> str:
        return partitions.directory(self._partition_by, [column.value(row) for column in columns])


@dataclass(frozen=True, slots=True)
class _Column:
    """A partition column of one batch: its distinct values, and which of them each row has."""

    values: list[partitions.PartitionValue]
    indices: pa.Array[Any]

    @classmethod
    def of(cls, name: str, array: pa.Array[Any]) -> _Column:
        encoded: Any = pc.dictionary_encode(array, null_encoding="encode")
        try:
            return cls(encoded.dictionary.to_pylist(), encoded.indices)
        except (ValueError, OverflowError) as error:
            raise UsageError(
                f"a value of partition column {name!r} cannot be written as text: {error}; "
                "cast the column to string"
            ) from error

    def value(self, row: int) -> partitions.PartitionValue:
        index: int = self.indices[row].as_py()
        return self.values[index]


def _combined(columns: Sequence[_Column]) -> pa.Array[Any] | None:
    """A number for each row, equal where all columns are equal; None where all rows are."""
    codes: pa.Array[Any] | None = None
    for column in columns:
        if len(column.values) == 1:
            continue
        indices = column.indices.cast(pa.int64())
        if codes is None:
            codes = indices
            continue
        # Numbered anew each time, so that the product stays below the square of the number of rows.
        encoded: Any = pc.dictionary_encode(codes)
        codes = pc.add(pc.multiply(encoded.indices.cast(pa.int64()), len(column.values)), indices)
    return codes


def _check_column(schema: pa.Schema, name: str) -> None:
    found = schema.get_all_field_indices(name)
    if len(found) != 1:
        raise UsageError(
            f"partition column {name!r} is {'missing' if not found else 'there twice'}; "
            f"the columns are {', '.join(schema.names)}"
        )
    kind = schema.field(name).type
    tests = (
        pa.types.is_string,
        pa.types.is_large_string,
        pa.types.is_integer,
        pa.types.is_boolean,
        pa.types.is_decimal,
        pa.types.is_date,
        pa.types.is_timestamp,
    )
    if not any(test(kind) for test in tests):
        raise UsageError(f"partition column {name!r} has type {kind}, which has no text; cast it to string")
