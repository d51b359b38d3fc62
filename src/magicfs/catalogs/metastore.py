"""A table in a metastore, of Glue or of Hive: which has no transaction over partitions.

By lists of files, or by directories that readers list: what is there is compared and changed until it was
seen right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from magicfs.catalogs.footers import columns_of, footers
from magicfs.catalogs.hive_names import NULL, are_integers, partition_columns, partition_of, partition_values
from magicfs.catalogs.hive_types import hive_type
from magicfs.catalogs.port import Changes, Files, Published, Table
from magicfs.catalogs.symlinks import DIRECTORY, reader_url
from magicfs.datasets.connection import Destination
from magicfs.errors import UsageError

_JOB: Final = "magicfs.job-id"
_SERDE: Final = "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"
_FORMATS: Final = {
    True: (
        "org.apache.hadoop.hive.ql.io.SymlinkTextInputFormat",
        "org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat",
    ),
    False: (
        "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat",
        "org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat",
    ),
}

Values = tuple[str, ...]
"""Those of a partition, in the order of its columns."""

Described = Mapping[str, Any]
"""A table or a partition, in the words of Glue."""


class MetastoreCatalog(Protocol):
    """Where a table is, and how its readers find files."""

    @property
    def keeper(self) -> str:
        """Who keeps it, such as ``Glue``."""

    @property
    def table(self) -> str:
        """The name of the table, that of its database included."""

    @property
    def name(self) -> str:
        """The name of the table alone."""

    @property
    def exact(self) -> bool:
        """Whether readers go by symlink manifests."""


class Metastore(Protocol):
    """What changes a table."""

    def create(self, described: Described) -> None:
        """Create the table. Raises CatalogMoved if it is there, UsageError if its database is not."""

    def update(self, described: Described) -> None:
        """Change it to what is described."""

    def add(self, described: Described, places: Mapping[Values, str]) -> None:
        """Add partitions; those that are there already stay as they are."""

    def move(self, described: Described, values: Values, place: str) -> None:
        """Let a partition lead to another place."""

    def drop(self, partitions: Sequence[Values]) -> None:
        """Remove partitions, never their files; it is no error if some are gone."""


@dataclass(frozen=True, slots=True)
class MetastoreTable:
    """A table as a metastore describes it, and where its partitions are."""

    place: Destination
    catalog: MetastoreCatalog
    metastore: Metastore
    found: Described | None  # None before it was created
    held: Mapping[Values, str]  # where its partitions are
    manifests: Table | None

    def shows(self, job_id: str) -> bool:
        return self.found is not None and self.found.get("Parameters", {}).get(_JOB) == job_id

    def bring(self, published: Published) -> Changes:
        self._check(published)
        columns = partition_columns(published.files)
        wanted = self._wanted(published.files, columns)
        described = self._described(published, columns)
        done = Changes(0, 0) if self.manifests is None else self.manifests.bring(published)
        made = self._bring_partitions(described, wanted)
        if not self._is_as(described):
            self.metastore.update(described)
        return done + made

    def _is_as(self, described: Described) -> bool:
        if self.found is None or not self.shows(described["Parameters"][_JOB]):
            return False
        now, then = self.found["StorageDescriptor"], described["StorageDescriptor"]
        same = all(now[name] == then[name] for name in ("Location", "InputFormat"))
        return same and self._columns() == then["Columns"]

    def _check(self, published: Published) -> None:
        """Raise UsageError if it is a table of somebody else, or shows another dataset."""
        if self.found is None or published.force:
            return
        if _JOB not in self.found.get("Parameters", {}):
            raise UsageError(
                f"{self.catalog.table} exists, and magicfs did not register it; nothing was changed; use a "
                "separate table, or replace this one's contents with force=True (--force)"
            )
        base = self._location("")
        elsewhere = [
            one for one in (self._own_location(), *self.held.values()) if not f"{one}/".startswith(base)
        ]
        if elsewhere:
            raise UsageError(
                f"{self.catalog.table} points to {elsewhere[0]!r}, which is not part of "
                f"{self.place.location.url}; nothing was changed; use a separate table, or replace this "
                "one's contents with force=True (--force)"
            )

    def _own_location(self) -> str:
        assert self.found is not None
        return str(self.found["StorageDescriptor"]["Location"]).rstrip("/")

    def _location(self, partition: str) -> str:
        """A directory, with a slash at its end."""
        below = [DIRECTORY] if self.catalog.exact else []
        return reader_url(self.place.location, "".join(f"{one}/" for one in [*below, partition] if one))

    def _wanted(self, files: Files, columns: Sequence[str]) -> dict[Values, str]:
        """Where the partitions of the dataset are."""
        if not columns:
            return {}
        found: dict[Values, str] = {}
        for key in files:
            values = tuple(NULL if one is None else one for one in partition_values(key).values())
            place = self._location(partition_of(key))
            if found.setdefault(values, place) != place:
                raise UsageError(
                    f"{found[values]!r} and {place!r} are one partition of {self.catalog.keeper}, which "
                    "has one directory for each; nothing was changed; publish the data with one spelling of "
                    "its partitions"
                )
        return found

    def _described(self, published: Published, columns: Sequence[str]) -> dict[str, Any]:
        """The table as it is to be."""
        reader, writer = _FORMATS[self.catalog.exact]
        kept = {} if self.found is None else self.found.get("Parameters", {})
        return {
            "Name": self.catalog.name,
            "TableType": "EXTERNAL_TABLE",
            "Parameters": {**kept, "EXTERNAL": "TRUE", "classification": "parquet", _JOB: published.job_id},
            "PartitionKeys": self._partition_keys(published.files, columns),
            "StorageDescriptor": {
                "Columns": self._new_columns(published, columns),
                "Location": self._location(""),
                "InputFormat": reader,
                "OutputFormat": writer,
                "SerdeInfo": {"SerializationLibrary": _SERDE},
            },
        }

    def _columns(self) -> list[dict[str, str]]:
        described = [] if self.found is None else self.found["StorageDescriptor"]["Columns"]
        return [{"Name": one["Name"], "Type": one["Type"]} for one in described]

    def _partition_keys(self, files: Files, columns: Sequence[str]) -> list[dict[str, str]]:
        if self.found is not None:
            keys = [{"Name": one["Name"], "Type": one["Type"]} for one in self.found.get("PartitionKeys", [])]
            if files and [one["Name"] for one in keys] != [name.lower() for name in columns]:
                raise UsageError(
                    f"{self.catalog.table} is partitioned by {[one['Name'] for one in keys]}, and the "
                    f"dataset by {list(columns)}; nothing was changed; drop the table, and register the "
                    "dataset again"
                )
            return keys
        rows = [partition_values(key) for key in files]
        return [
            {"Name": name.lower(), "Type": "bigint" if are_integers(rows, name) else "string"}
            for name in columns
        ]

    def _new_columns(self, published: Published, columns: Sequence[str]) -> list[dict[str, str]]:
        """Those of the table, and those that files have that came since it was registered last."""
        shown = published.shown() or {}
        came = [key for key, file in published.files.items() if shown.get(key) != file]
        read = footers(self.place, published.files, came, self.catalog.keeper)
        described = self._columns()
        if not read:
            if self.found is None:
                raise UsageError(
                    f"{self.place.location.url} has no files, so a table would have no columns; register it "
                    "after the first file is published"
                )
            return described
        known = {one["Name"]: one["Type"] for one in described}
        for one in columns_of(read, columns):
            name, type_ = one.name.lower(), hive_type(one.type, one.name)
            if known.setdefault(name, type_) != type_:
                raise UsageError(
                    f"{self.catalog.table} has column {name!r} as {known[name]}, but the new files have "
                    f"{type_}; nothing was changed; drop the table, and register the dataset again"
                )
        return [{"Name": name, "Type": type_} for name, type_ in known.items()]

    def _bring_partitions(self, described: Described, wanted: Mapping[Values, str]) -> Changes:
        """Create the table and what partitions it lacks, and delete those that are over."""
        if self.found is None:
            self.metastore.create({**described, "Parameters": {**described["Parameters"], _JOB: ""}})
        new = {values: place for values, place in wanted.items() if values not in self.held}
        moved = {values: place for values, place in wanted.items() if self.held.get(values, place) != place}
        over = [values for values in self.held if values not in wanted]
        self.metastore.add(described, new)
        for values, place in moved.items():
            self.metastore.move(described, values, place)
        self.metastore.drop(over)
        return Changes(len(new), len(over))


def partition(described: Described, values: Values, place: str) -> dict[str, Any]:
    """A partition at a place, described as its table is."""
    return {
        "Values": list(values),
        "StorageDescriptor": {**described["StorageDescriptor"], "Location": place},
    }
