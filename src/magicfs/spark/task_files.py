"""The files that a task of Spark writes, as the options of the write say."""

from __future__ import annotations

from pyspark.sql.types import StructType

from magicfs.job.task import Task
from magicfs.spark import schema
from magicfs.spark.options import WriteOptions
from magicfs.spark.partition_writer import FileName, OutputFile, PartitionWriter

__all__ = ["task_files"]


def task_files(chosen: WriteOptions, frame: StructType, task: Task, partition_id: int) -> PartitionWriter:
    """Make what writes one partition of a frame. No request is made, and no file where no row comes.

    Args:
        chosen: The options.
        frame: The schema of the frame.
        task: The task, which is set up; the files are delayed until it and its job commit.
        partition_id: Number of the frame's partition, which names the files.
    """
    filesystem, path = task.filesystem, task.path

    def open_file(name: str) -> OutputFile:
        file: OutputFile = filesystem.open(f"{path}/{name}", "wb")
        return file

    return PartitionWriter(
        open_file,
        FileName(f"part-{partition_id:05d}", chosen.extension),
        partition_by=chosen.partition_cols,
        file_format=chosen.file_format,
        compression=chosen.codec,
        metadata=schema.row_metadata(frame, chosen.partition_cols, chosen.file_format),
        row_group_size=chosen.row_group_size,
        max_records_per_file=chosen.max_records_per_file,
        input_sorted=chosen.input_sorted,
        files_max=chosen.max_open_files,
        convert=schema.converter(frame),
    )
