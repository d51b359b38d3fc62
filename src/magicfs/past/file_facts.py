"""What is known of a published file without reading it: from its key and its manifest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final
from urllib.parse import unquote

from magicfs.formats.footer import Column, Footer
from magicfs.formats.manifest import ManifestFile
from magicfs.past.row_condition import Values
from magicfs.protocol.paths import Location, join

_NULL: Final = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True, slots=True)
class PublishedFile:
    """A file of a dataset, according to its manifest.

    Attributes:
        url: Its URL.
        key: Its key, relative to the destination.
        size: Its size in bytes.
        rows: Its number of rows; None if they were not counted.
        etag: Its ETag, as the store returned it; empty if it is not known.
        checksum: The checksum of its task, as ``algorithm:base64``; None if the job recorded none.
        partition: The values of its Hive partitions by name, as text; None for null.
    """

    url: str
    key: str
    size: int
    rows: int | None = None
    etag: str = ""
    checksum: str | None = None
    partition: Mapping[str, str | None] = field(default_factory=dict)


def published_file(file: ManifestFile, place: Location, key: str | None = None) -> PublishedFile:
    """The same for people. ``key``: of a file that lies aside now, the one under which it was published."""
    url, key = Location(place.scheme, place.bucket, join(place.key, file.key)).url, key or file.key
    return PublishedFile(url, key, file.size, file.rows, file.etag, file.checksum, partition_values(key))


def partition_values(key: str) -> dict[str, str | None]:
    """The values of the Hive partitions in a key, by name: ``day=2026-01-01/part-0.parquet``."""
    found: dict[str, str | None] = {}
    for element in key.split("/")[:-1]:
        name, sign, value = element.partition("=")
        if sign and name:
            found[unquote(name)] = None if value == _NULL else unquote(value)
    return found


def columns_of(file: ManifestFile, footer: Footer | None = None) -> dict[str, Values]:
    """What is known of the columns of a file: by its footer, by its partitions, and ``file.size``,
    ``file.name`` and ``file.key``.
    """
    columns: dict[str, Values] = {}
    if footer is not None:
        found = footer.columns.items()
        columns = {name: _values(one, footer.rows) for name, one in found if not one.field.repeated}
    columns |= {name: Values.one(value) for name, value in partition_values(file.key).items()}
    name = file.key.rpartition("/")[2]
    facts = {"file.size": file.size, "file.name": name, "file.key": file.key}
    return {key: Values.one(value) for key, value in facts.items()} | columns


def _values(column: Column, rows: int) -> Values:
    nulls = column.nulls is None or column.nulls > 0
    return Values(_bound(column.min), _bound(column.max), nulls=nulls, values=column.nulls != rows)


def _bound(value: Any) -> Any:
    """A bound as conditions compare it, which write a date as text; None for what they cannot.

    Of floats too: bounds leave NaN out, which is greater than all, or not comparable, as an engine likes.
    """
    if isinstance(value, date) and not isinstance(value, datetime):
        return value.isoformat()
    return value if isinstance(value, bool | int | str | Decimal) else None
