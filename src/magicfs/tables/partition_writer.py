"""From Arrow record batches to files, one or more for each partition value."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from magicfs.tables.formats import FORMATS, FileSettings, FileWriter, open_writer
from magicfs.tables.output_files import FileName, Finishers, OpenFile, OutputFile
from magicfs.tables.partition_names import Partitioning

BUFFER_BYTES = 128 * 2**20
"""Rows are kept until so much has come together: small batches would make tiny row groups."""

# Batches are put together before they are split: with a thousand partitions, batches of 10,000 rows take ten
# times as long one by one. Not more than is needed, for all of their columns are copied.
_LUMP_BYTES = 12 * 2**20
_ROWS_OF_EACH = 4096  # of the partitions that a batch touches, on average
_FINISHERS = 4
# Of fewer rows dictionaries are soon made, and what looks at them takes a new process as long to import.
_ROWS_TO_LOOK_AT = 2**14
_FULL = 0.9
"""Of the bytes that a file may have: for what is left, a further row group is not worth it."""


@dataclass(slots=True, eq=False)
class _Partition:
    directory: str
    batches: list[pa.RecordBatch] = field(default_factory=list)
    size: int = 0
    open: OpenFile | None = None


class PartitionWriter:
    """Writes batches of one schema; partition columns go into the directories and not into the files.

    Rows are held until they fill row groups. Partitions whose files are open at once are limited: the one
    that was written to least recently is finished, and begins a further file if more of its rows come. As a
    context manager it closes, or aborts if the body raises. For one thread.
    """

    def __init__(
        self,
        open_file: Callable[[str], OutputFile],  # is given a relative name, ``month=1/part-00003.parquet``
        name: FileName,
        *,
        partition_by: Sequence[str] = (),  # outermost first
        file_format: str = "parquet",
        compression: str = "zstd",  # as pyarrow has it
        partitioning: Partitioning = "hive",
        metadata: Mapping[Any, Any] | None = None,  # goes into every file that has a place for it
        row_group_size: int | None = None,  # most rows; fewer where the buffer is full before; None: no limit
        max_records_per_file: int | None = None,  # None for no limit
        max_bytes_per_file: int | None = None,  # about; None for no limit
        # By the partition columns: a file is finished once the values change. Where rows are not sorted,
        # partitions get several files, and no row is lost.
        input_sorted: bool = False,
        convert: Callable[[pa.RecordBatch], pa.RecordBatch] | None = None,  # makes of a batch what is written
        files_max: int = 64,  # open files, those included that are being finished
        buffer_bytes: int = BUFFER_BYTES,
        numbers: Mapping[str, int] | None = None,  # of files that directories have already
    ) -> None:
        self.rows: int = 0  # taken in
        self.files: int = 0  # begun
        self._open_file = open_file
        self._name = name
        self._partition_by = tuple(partition_by)
        self._format = FORMATS[file_format]
        self._settings = FileSettings(compression=compression, row_group_size=row_group_size)
        self._metadata: dict[str | bytes, str | bytes] = {}
        self._metadata.update(metadata or {})
        self._partitioning = partitioning
        self._file_rows = max_records_per_file
        self._file_bytes = max_bytes_per_file
        # Bytes so far, in files and in memory, to know what rows will take. At first nobody does.
        self._encoded = self._to_encode = max(1, (max_bytes_per_file or 0) // 16)
        self._input_sorted = input_sorted
        self._convert = convert
        self._files_max = files_max
        self._buffer_bytes = buffer_bytes
        self._partitions: dict[str, _Partition] = {}
        self._numbers = dict(numbers or {})
        self._in_use: OrderedDict[str, _Partition] = OrderedDict()
        self._finishers = Finishers(min(_FINISHERS, files_max))
        self._buffered = 0
        self._whole: list[pa.RecordBatch] = []
        self._whole_bytes = self._whole_rows = 0
        self._rows_enough: int | None = None  # to be split; None: nobody knows yet how many partitions come
        self._schema: pa.Schema | None = None

    @property
    def bytes(self) -> int:
        """The bytes of all files that are finished: of all, once the writer is closed."""
        return self._finishers.bytes

    def write(self, batch: pa.RecordBatch) -> None:
        """Take rows in; what does not fit the buffer goes to its file. Raises UsageError if a partition
        column is missing or of a type that has no text, or the format cannot hold a type or a value.
        """
        if not batch.num_rows:
            return
        if self._convert is not None:
            batch = self._convert(batch)
        if self._schema is None:
            self._schema = self._file_schema(batch.schema)
        self.rows += batch.num_rows
        if not self._partition_by:
            self._keep("", batch)
            return
        self._whole.append(batch)
        self._whole_bytes += batch.nbytes
        self._whole_rows += batch.num_rows
        is_long = self._rows_enough is not None and self._whole_rows >= self._rows_enough
        if is_long or self._whole_bytes >= min(_LUMP_BYTES, self._buffer_bytes):
            self._split_whole()

    def close(self) -> None:
        """Finish every file, several at once. A second call does nothing.

        After a StoreError the other files are finished, or are discarded.
        """
        try:
            self._split_whole()
            # Open ones first, so that few need to be closed to open others.
            waiting = sorted(self._partitions.values(), key=lambda one: one.open is None)
            for partition in waiting:
                self._leave_rest(partition)
                self._finish(partition, here=partition is waiting[-1])
            self._finishers.close()
        except BaseException:
            with suppress(Exception):  # the first error must not be hidden
                self.abort()
            raise

    def abort(self) -> None:
        """Discard files that are not finished, and rows that are held. A second call does nothing."""
        waiting = list(self._partitions.values())
        self._partitions = {}
        self._in_use.clear()
        self._whole, self._whole_bytes, self._whole_rows, self._buffered = [], 0, 0, 0
        errors = []
        for partition in waiting:
            opened, partition.open = partition.open, None
            try:
                if opened is not None:
                    opened.abort()
            except Exception as error:  # noqa: BLE001 - every file is tried
                errors.append(error)
        with suppress(Exception):  # what cannot be finished is discarded
            self._finishers.close()
        if errors:
            raise errors[0]

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

    def _write_out(self, partition: _Partition, *, last: bool) -> None:
        """Write the rows that a partition holds; those of a row group that is not full are kept."""
        if not partition.batches:
            return
        table = pa.Table.from_batches(partition.batches)
        self._buffered -= partition.size
        partition.batches, partition.size = [], 0
        # What does not fill a row group is written all the same if nothing else can be: the buffer is full.
        forced = True
        while table.num_rows and (rows := self._next_rows(partition, table, forced=forced or last)):
            forced = False
            opened = partition.open or self._begin(partition, table)
            self._encode(opened.writer, table.slice(0, rows))
            table = table.slice(rows)
            if self._is_full(opened.writer):
                self._finish_file(partition)
        for batch in table.to_batches() if table.num_rows else ():
            self._hold(partition, batch)

    def _encode(self, writer: FileWriter, rows: pa.Table) -> None:
        before = writer.bytes
        writer.write(rows)
        if self._file_bytes is not None:
            self._encoded += writer.bytes - before
            self._to_encode += rows.nbytes

    def _is_full(self, writer: FileWriter) -> bool:
        if self._file_bytes is not None and writer.bytes >= _FULL * self._file_bytes:
            return True
        return writer.rows == self._file_rows

    def _next_rows(self, partition: _Partition, table: pa.Table, *, forced: bool) -> int:
        rows: int = table.num_rows
        writer = partition.open.writer if partition.open else None
        room = rows + 1
        if self._file_rows is not None:
            room = self._file_rows - (writer.rows if writer else 0)
        if self._file_bytes is not None:
            left = self._file_bytes - (writer.bytes if writer else 0)
            # Not too far beyond what is known: what a stream is compressed to comes late.
            size = min(left * self._to_encode / self._encoded, 4 * self._to_encode)
            room = min(room, max(1, int(size * rows / max(table.nbytes, 1))))
        if rows >= room:
            return room
        group = self._settings.row_group_size
        whole = rows if group is None else rows - rows % group
        return rows if forced and not whole else whole

    def _begin(self, partition: _Partition, rows: pa.Table) -> OpenFile:
        """Open a file whose first rows are these."""
        assert self._schema is not None
        while len(self._in_use) + self._finishers.unfinished() >= self._files_max:
            if self._finishers.unfinished():
                self._finishers.wait()
            else:
                self._finish(next(iter(self._in_use.values())))
        number = self._numbers.get(partition.directory, 0)
        name = self._name.of(number)
        file = self._open_file(f"{partition.directory}/{name}" if partition.directory else name)
        try:
            writer = open_writer(self._format, file, self._schema, self._settings_for(rows))
        except BaseException:
            file.abort()
            raise
        self._numbers[partition.directory] = number + 1
        self.files += 1
        partition.open = OpenFile(file, writer)
        self._in_use[partition.directory] = partition
        return partition.open

    def _settings_for(self, rows: pa.Table) -> FileSettings:
        if self._format.name != "parquet" or rows.num_rows < _ROWS_TO_LOOK_AT:
            return self._settings
        from magicfs.tables.dictionaries import columns_worth_a_dictionary

        return replace(self._settings, dictionaries=columns_worth_a_dictionary(rows))

    def _finish_file(self, partition: _Partition, *, here: bool = False) -> None:
        if partition.open is not None:
            self._in_use.pop(partition.directory)
            opened, partition.open = partition.open, None
            if here:
                self._finishers.finish(opened)
            else:
                self._finishers.take(opened)

    def _leave_rest(self, partition: _Partition) -> None:
        """Leave the last rows of a file to the thread that finishes it, if they fit into one file."""
        if partition.batches and self._file_rows is None and self._file_bytes is None:
            rest = pa.Table.from_batches(partition.batches)
            opened = partition.open or self._begin(partition, rest)
            opened.rest = rest
            self._buffered -= partition.size
            partition.batches, partition.size = [], 0

    def _finish(self, partition: _Partition, *, here: bool = False) -> None:
        """Write out what a partition holds and finish its file; if more rows come, it begins again."""
        self._write_out(partition, last=True)
        self._finish_file(partition, here=here)
        self._partitions.pop(partition.directory, None)

    # -- rows ------------------------------------------------------------------------------------------

    def _keep(self, directory: str, rows: pa.RecordBatch) -> None:
        partition = self._partitions.get(directory)
        if partition is None:
            if self._input_sorted:
                for done in list(self._partitions.values()):
                    self._finish(done)
            partition = self._partitions[directory] = _Partition(directory)
        self._hold(partition, rows)
        while self._buffered > self._buffer_bytes:
            largest = max(self._partitions.values(), key=lambda one: one.size)
            self._write_out(largest, last=False)
            if largest.open is not None:
                self._in_use.move_to_end(largest.directory)

    def _hold(self, partition: _Partition, rows: pa.RecordBatch) -> None:
        size = rows.nbytes
        partition.batches.append(rows)
        partition.size += size
        self._buffered += size

    def _split_whole(self) -> None:
        """Hand the rows that are held together to their partitions."""
        if not self._whole:
            return
        from magicfs.tables import partition_split

        whole = pa.Table.from_batches(self._whole, self._whole[0].schema)
        self._whole, self._whole_bytes, self._whole_rows = [], 0, 0
        for batch in whole.combine_chunks().to_batches():
            touched = 0
            for directory, rows in partition_split.split(
                batch, self._partition_by, input_sorted=self._input_sorted, partitioning=self._partitioning
            ):
                self._keep(directory, rows)
                touched += 1
            self._rows_enough = touched * _ROWS_OF_EACH

    def _file_schema(self, schema: pa.Schema) -> pa.Schema:
        if self._partition_by:
            from magicfs.tables import partition_split

            for name in self._partition_by:
                partition_split.check_column(schema, name)
        fields = [one for one in schema if one.name not in self._partition_by]
        return pa.schema(fields, metadata=self._metadata)
