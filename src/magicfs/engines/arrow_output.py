"""What a task of an engine does with its rows: Arrow batches in, files of the task out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from magicfs.errors import UsageError
from magicfs.formats.statistics import ROWS

if TYPE_CHECKING:
    import pyarrow as pa

    from magicfs.formats.task_commit import TaskCommit
    from magicfs.job.spec import JobSpec
    from magicfs.job.task import Task
    from magicfs.tables.append_check import RowsThere

_OPEN_FILES_MAX: Final = 1024
"""Partitions of one task, as pyarrow's own limit is."""


@dataclass(frozen=True, slots=True)
class ArrowOutput:
    """How the files of a dataset are written, the same in every task. Pickles."""

    partition_by: tuple[str, ...] = ()  # columns whose values become directories, outermost first
    file_format: str = "parquet"  # as pyarrow.dataset names it
    there: RowsThere | None = None  # what the rows must fit

    @classmethod
    def of(cls, partition_by: str | Sequence[str], file_format: str) -> ArrowOutput:
        """From what a caller said; a single column may be named alone."""
        columns = (partition_by,) if isinstance(partition_by, str) else tuple(partition_by)
        if len(set(columns)) < len(columns):
            raise UsageError(f"partition_by={list(columns)!r} names a column twice; name each once")
        return cls(columns, file_format)

    def beside_rows_of(self, job: JobSpec) -> ArrowOutput:
        """The same, with what its rows must fit, for which one file that is there is looked at."""
        from magicfs.tables.append_check import rows_there

        return replace(self, there=rows_there(job, self.file_format))

    def write(self, task: Task, tables: Iterable[pa.Table]) -> int:
        """Write tables of one schema below the path of a task that is set up; returns the number of rows.

        Memory holds about one table and the open row groups, however many tables there are. Without any rows
        no file is written. Raises UsageError if a partition column is missing, or the rows do not fit those
        that stay.
        """
        import pyarrow as pa
        import pyarrow.dataset as ds

        from magicfs.tables.formats import FORMATS

        filled = (table for table in tables if table.num_rows)
        first = next(filled, None)
        if first is None:
            return 0
        schema, rows = first.schema, 0
        self.check(schema)

        def batches() -> Iterator[Any]:
            nonlocal rows
            table = first
            while table is not None:
                rows += table.num_rows
                yield from table.cast(schema).to_batches()
                table = next(filled, None)

        options = None
        if self.file_format == "parquet":
            options = ds.ParquetFileFormat().make_write_options(compression=FORMATS["parquet"].default)
        ds.write_dataset(
            pa.RecordBatchReader.from_batches(schema, batches()),
            task.path,
            filesystem=task.filesystem,
            format=self.file_format,
            file_options=options,
            partitioning=ds.partitioning(
                pa.schema([schema.field(name) for name in self.partition_by]), flavor="hive"
            ),
            basename_template=f"part-{{i}}.{self.file_format}",
            existing_data_behavior="overwrite_or_ignore",
            max_partitions=_OPEN_FILES_MAX,
            file_visitor=lambda file: self.there and self.there.fitting(file.path),
        )
        task.count(ROWS, rows)
        return rows

    def commit(self, task: Task, tables: Iterable[pa.Table]) -> TaskCommit:
        """The whole of a task that nobody has set up: set up, write and commit; raises as these do."""
        with task:
            self.write(task, tables)
        commit = task.committed
        assert commit is not None
        return commit

    def check(self, schema: pa.Schema) -> None:
        """Raise UsageError if a partition column is missing, nothing else is left, or rows do not fit."""
        if missing := [name for name in self.partition_by if name not in schema.names]:
            raise UsageError(
                f"partition_by names {', '.join(missing)}, and the data has only {', '.join(schema.names)}"
            )
        if self.partition_by and len(self.partition_by) == len(schema.names):
            raise UsageError("partition_by names every column; leave one for the files")
        if self.there is not None:
            self.there.check(schema, partition_by=self.partition_by)
