"""Which files there are, at one instant, and how tasks share them: as Spark shares files of its own."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructField, StructType

from magicfs.datasets.connection import Destination, open_destination
from magicfs.datasets.read import files_of_dataset, shown_files
from magicfs.engine import Engine
from magicfs.errors import StoreError, UsageError
from magicfs.formats.manifest import ManifestFile
from magicfs.past import publications
from magicfs.past.as_of import view_at
from magicfs.past.earlier_files import lying_where_they_are
from magicfs.protocol import paths
from magicfs.protocol.modes import is_data
from magicfs.protocol.paths import Location
from magicfs.spark.published import directories, files
from magicfs.spark.published import schema as schemas
from magicfs.spark.published.declared import fitted, found_columns
from magicfs.spark.published.files import Piece, Place
from magicfs.spark.published.options import ReadOptions
from magicfs.tables.arrow_dataset import of_each_job
from magicfs.tables.partition_names import Values

_OPEN_COST = 4 * 2**20
"""What opening a file costs, in bytes that could be read meanwhile."""
_TASKS_MIN = 8
"""So many tasks at least, if there is enough to read: how many cores Spark has is not known here."""


@dataclass
class FilesOfTask(InputPartition):
    """What one task reads."""

    pieces: tuple[Piece, ...]


def connect(options: ReadOptions) -> Destination:
    """The way to the dataset."""
    return open_destination(options.path, options.storage_options or None, None, for_reading=True)


def head(destination: Destination) -> str:
    """The newest of the chain, by which the same instant can be found again."""
    return destination.run(publications.head_of)


def job_named(destination: Destination, name: str) -> str:
    """The published job of an id, or of the id of its run; raises ObjectNotFound if there is none."""
    return destination.run(publications.job_named, name)


def snapshot(destination: Destination, job: str | None) -> dict[str, ManifestFile]:
    """The data files by key, the newest job's first: now, or as of a job in the chain.

    Raises as ``magicfs.Dataset``.
    """
    found = destination.run(_files, job)
    return {key: file for key, file in found.items() if is_data(key, "")}


async def _files(engine: Engine, location: Location, job: str | None) -> Mapping[str, ManifestFile]:
    if job is None:
        return await files_of_dataset(engine, location, False)
    return await lying_where_they_are(
        engine, location.key, shown_files(location, await view_at(engine, location, job))
    )


def schemas_of_jobs(
    destination: Destination, found: Mapping[str, ManifestFile], options: ReadOptions
) -> dict[str, pa.Schema]:
    """The columns of a file of each of the last jobs, by key, the newest job's first."""

    def look(key: str) -> pa.Schema:
        with _Reading(key), _opened(destination, found[key]) as source:
            return files.columns_of(source, key, files.format_of(key, options.file_format))

    keys = of_each_job(found)
    with ThreadPoolExecutor(max(1, len(keys))) as pool:
        return dict(zip(keys, pool.map(look, keys), strict=True))


def columns(
    destination: Destination,
    found: Mapping[str, ManifestFile],
    options: ReadOptions,
    looked_at: Mapping[str, pa.Schema] | None = None,
) -> StructType:
    """The columns of a dataset without a given schema: those of a file of each job, and of the directories.

    Raises UsageError if there are no files.
    """
    if not found:
        raise UsageError(
            f"the dataset {destination.location.url} has no files to take columns from; "
            "name them in .schema(…)"
        )
    fields: dict[str, StructField] = {}
    for key, schema in (looked_at or schemas_of_jobs(destination, found, options)).items():
        known = {name.lower() for name in fields}
        of_file = schemas.of_file(schema, files.format_of(key, options.file_format))
        fields |= {one.name: one for one in of_file.fields if one.name.lower() not in known}
    values, of_files = _values(found, options), StructType(list(fields.values()))
    chosen = schemas.chosen(schemas.of_dataset(of_files, values.values()), options.columns)
    schemas.arrow_schema(chosen)
    return chosen


def share(
    found: Mapping[str, ManifestFile], schema: StructType, options: ReadOptions, filters: Sequence[Any] = ()
) -> list[FilesOfTask]:
    """What each task reads. ``filters``: Spark's; files whose directories cannot match are left out.

    Raises UsageError if a file's format is not known, or directories do not fit the schema.
    """
    arrow = schemas.arrow_schema(schema)
    kept: dict[str, Place] = {}
    needed: dict[Place, bool] = {}
    for key, values in _values(found, options).items():
        # By the names that were declared, whatever their case is in the directories.
        place = tuple((name, values[own]) for name, own in found_columns(list(values), arrow.names).items())
        if place not in needed:
            kinds = {name: arrow.field(name).type for name, _ in place}
            needed[place] = directories.is_needed(dict(place), kinds, filters, options.time_zone)
        if needed[place]:
            kept[key] = place
    limit = _bytes_of_task([found[key].size for key in kept], options.bytes_per_task)
    pieces = list[Piece]()
    for key, place in kept.items():
        one, kind = found[key], files.format_of(key, options.file_format)
        whole = Piece(one.key, one.size, kind, 0, one.size, place, one.version, one.etag, one.write_id)
        pieces += _pieces(whole, limit)
    return [FilesOfTask(tuple(one)) for one in _packed(pieces, limit)]


def _values(found: Iterable[str], options: ReadOptions) -> dict[str, Values]:
    return directories.values_of(found) if options.partitioning == "hive" else {key: {} for key in found}


def _bytes_of_task(sizes: Iterable[int], limit: int) -> int:
    total = sum(size + _OPEN_COST for size in sizes)
    return min(limit, max(_OPEN_COST, total // max(_TASKS_MIN, os.cpu_count() or 1)))


def _pieces(whole: Piece, limit: int) -> Iterator[Piece]:
    if whole.file_format != "parquet":
        yield whole
        return
    for start in range(0, whole.size, limit):
        end = min(start + limit, whole.size)
        yield replace(whole, start=start, end=end)


def _packed(pieces: Sequence[Piece], limit: int) -> Iterator[list[Piece]]:
    task: list[Piece] = []
    filled = 0
    for piece in sorted(pieces, key=lambda one: one.start - one.end):
        size = piece.end - piece.start
        if task and filled + size > limit:
            yield task
            task, filled = [], 0
        task.append(piece)
        filled += size + _OPEN_COST
    if task:
        yield task


def rows(task: FilesOfTask, schema: StructType, options: ReadOptions) -> Iterator[pa.RecordBatch]:
    """The rows of one task, in batches of exactly the schema.

    Raises UsageError for values that do not fit it, StoreError for files that are gone or cannot be read.
    """
    declared = schemas.arrow_schema(schema)
    destination = connect(options)
    for piece in task.pieces:
        values = dict(piece.values)
        wanted = pa.schema([one for one in declared if one.name not in values])
        with _Reading(piece.key), _opened(destination, piece) as source:
            for batch in files.batches(source, piece, wanted):
                constants = {
                    name: directories.column_of(
                        text, declared.field(name).type, batch.num_rows, options.time_zone
                    )
                    for name, text in values.items()
                }
                yield fitted(batch, declared, constants)


def _opened(destination: Destination, one: ManifestFile | Piece) -> Any:
    path = f"{paths.prefix_of(destination.location.path)}{one.key}"
    return files.open_file(destination, path, one)


class _Reading:
    """Says of an error which file could not be read, and what to do."""

    def __init__(self, key: str) -> None:
        self._key = key

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, UsageError):
            raise UsageError(f"{self._key!r}: {error}") from error
        if isinstance(error, FileNotFoundError):
            raise StoreError(
                "read",
                self._key,
                "it was published, but has been deleted or overwritten",
                hint="a later job replaced it: load again (old versions need keep=); else run magicfs verify",
            ) from error
        if isinstance(error, (pa.ArrowException, UnicodeError)):
            raise UsageError(
                f"{self._key!r} cannot be read: {error}; if its format is another one than its name says, "
                "give option('fileFormat', …)"
            ) from error
