"""What the footers of Parquet files say: rows and columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from magicfs.catalogs.port import Files
from magicfs.datasets.connection import Destination
from magicfs.errors import UsageError

__all__ = ["Footer", "columns_of", "footers"]

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
    """The footers of some files by their keys, each read by one request. ``reader`` is named in errors.

    Raises FileNotFoundError if a file is gone, UsageError if one is no Parquet.
    """
    if not keys:
        return {}
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
        from pyarrow.fs import PyFileSystem

        from magicfs.datasets.arrow_files import PublishedFiles
    except ImportError as error:
        raise UsageError(f"{reader} needs pyarrow; pip install 'magicfs[arrow]'") from error
    at = {key: f"{place.location.path}/{key}" for key in keys}
    arrow = PyFileSystem(PublishedFiles(place.filesystem, {at[key]: files[key].size for key in keys}))

    def read(key: str) -> Footer:
        try:
            with arrow.open_input_file(at[key]) as file:
                found = pq.read_metadata(file)
        except pa.ArrowInvalid as error:
            raise UsageError(
                f"{at[key]} is no Parquet file ({error}); {reader} shows Parquet alone, a SymlinkManifest "
                "any "
                "format; nothing was changed"
            ) from error
        return Footer(found.num_rows, found.schema.to_arrow_schema().remove_metadata())

    with ThreadPoolExecutor(min(_AT_ONCE, len(keys))) as pool:
        return dict(zip(keys, pool.map(read, keys), strict=True))


def columns_of(found: Mapping[str, Footer], without: Sequence[str]) -> Any:
    """The columns of all files together, a ``pyarrow.Schema``; raises UsageError if one has two types."""
    import pyarrow as pa

    try:
        together = pa.unify_schemas([one.schema for one in found.values()])
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise UsageError(
            f"the files differ in the type of a column ({error}); a table has one type for each; nothing was "
            "changed; publish the data with one schema"
        ) from error
    return pa.schema([field for field in together if field.name not in without])
