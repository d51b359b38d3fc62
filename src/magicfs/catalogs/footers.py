"""What the footers of Parquet files say: rows and columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from magicfs.catalogs.hive_names import are_integers, partition_values
from magicfs.catalogs.port import Files
from magicfs.datasets.connection import Destination
from magicfs.engine import Engine
from magicfs.errors import FormatError, UsageError
from magicfs.manifests.chain import READING, newest_job
from magicfs.past.footers_at import footers_of_view
from magicfs.protocol.paths import Location

_AT_ONCE: Final = 16


@dataclass(frozen=True, slots=True)
class Footer:
    """Of one file.

    Attributes:
        rows: How many it holds.
        schema: Its columns, a ``pyarrow.Schema`` without metadata.
    """

    rows: int
    schema: Any


def footers(place: Destination, files: Files, keys: Sequence[str], reader: str) -> Mapping[str, Footer]:
    """The footers of some files by their keys. ``reader`` is named in errors.

    Each is read by one request; but of files of which manifests know rows and columns only the first of
    those that have the same columns.

    Raises FileNotFoundError if a file that is read is gone, UsageError if one is no Parquet.
    """
    if not keys:
        return {}
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
        from pyarrow.fs import PyFileSystem

        from magicfs.reading.arrow_files import PublishedFiles
    except ImportError as error:
        raise UsageError(f"{reader} needs pyarrow; pip install 'magicfs[arrow]'") from error
    at = {key: f"{place.location.path}/{key}" for key in keys}
    named = {at[key]: files[key] for key in keys}
    arrow = PyFileSystem(PublishedFiles(place.filesystem, named, place.location))

    def read(key: str) -> Footer:
        try:
            with arrow.open_input_file(at[key]) as file:
                found = pq.read_metadata(file)
        except pa.ArrowInvalid as error:
            raise UsageError(
                f"{at[key]} is not a Parquet file ({error}); {reader} supports only Parquet, a "
                "SymlinkManifest any format; nothing was changed"
            ) from error
        return Footer(found.num_rows, found.schema.to_arrow_schema().remove_metadata())

    known_footers = place.run(_told, {key: files[key] for key in keys})
    first: dict[str, str] = {}
    for key in keys:
        if (known := known_footers.get(key)) is not None:
            first.setdefault(known.fingerprint, key)
    opened = [key for key in keys if key not in known_footers or key == first[known_footers[key].fingerprint]]
    with ThreadPoolExecutor(min(_AT_ONCE, len(opened))) as pool:
        found = dict(zip(opened, pool.map(read, opened), strict=True))

    def footer(key: str) -> Footer:
        if key in found:
            return found[key]
        return Footer(known_footers[key].rows, found[first[known_footers[key].fingerprint]].schema)

    return {key: footer(key) for key in keys}


class _Told(NamedTuple):
    rows: int
    fingerprint: str  # of its columns


async def _told(engine: Engine, location: Location, files: Files) -> dict[str, _Told]:
    """What manifests know of Parquet files by their keys; those of which nothing is known are left out."""
    if all(one.rows is None for one in files.values()):
        return {}
    newest = await newest_job(engine.store, location.key, READING)
    if newest is None:
        return {}
    try:
        found = await footers_of_view(engine, location, newest, files)
    except FormatError:  # the list is gone or damaged, but the files have the same footers
        return {}
    return {
        key: _Told(one.rows, one.schema.fingerprint)
        for key, one in found.items()
        if one.format == "parquet" and one.schema is not None
    }


def columns_of(found: Mapping[str, Footer], without: Sequence[str]) -> Any:
    """The columns of all files together, a ``pyarrow.Schema``; raises UsageError if one has two types."""
    import pyarrow as pa

    try:
        together = pa.unify_schemas([one.schema for one in found.values()])
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise UsageError(
            f"the files have different types for one column ({error}); a table needs one type per column; "
            "nothing was changed; publish the data with one schema"
        ) from error
    return pa.schema([field for field in together if field.name not in without])


def all_columns(
    found: Mapping[str, Footer], files: Files, by: Sequence[str], known: Mapping[str, object] | None = None
) -> Any:
    """The same, and behind them the columns of directories, as a table has them already or as they look. Any
    may be null.
    """
    import pyarrow as pa

    schema, rows = columns_of(found, by), [partition_values(key) for key in files]
    for column in by:
        guessed = pa.int64() if are_integers(rows, column) else pa.string()
        schema = schema.append(pa.field(column, (known or {}).get(column, guessed)))
    return pa.schema([one.with_nullable(True) for one in schema])
