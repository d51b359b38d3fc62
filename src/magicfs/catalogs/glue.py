"""AWS Glue: a table and its partitions, for Athena, EMR and whoever reads by the metastore.

By default the partitions lead to symlink manifests, so readers open exactly the published files. Glue has no
transaction over partitions: what is there is compared and changed until it was seen right.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from shlex import quote
from typing import Any, Final

from magicfs.catalogs.footers import columns_of, footers
from magicfs.catalogs.hive_names import (
    NULL,
    are_integers,
    partition_columns,
    partition_of,
    partition_values,
)
from magicfs.catalogs.hive_types import hive_type
from magicfs.catalogs.port import CatalogMoved, Changes, Files, Published, Table
from magicfs.catalogs.register import Registers
from magicfs.catalogs.symlinks import DIRECTORY, SymlinkManifest, reader_url
from magicfs.datasets.connection import Destination
from magicfs.errors import Unavailable, UsageError

__all__ = ["Glue"]

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
_CREATED_AT_ONCE: Final = 100
_DELETED_AT_ONCE: Final = 25

_Values = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Glue(Registers):
    """A table of AWS Glue.

    Attributes:
        client: A client of Glue of boto3 or botocore, such as ``boto3.client("glue")``.
        database: The database. It is not created.
        name: The table. It is created if it is not there.
        exact: Whether readers go by symlink manifests, and find exactly the published files. Without it they
            list the directories of the partitions, and find what lies there.
    """

    client: Any = field(repr=False)
    database: str
    name: str
    exact: bool = True

    @property
    def kind(self) -> str:
        return "glue"

    @property
    def table(self) -> str:
        return f"{self.database}.{self.name}"

    @property
    def atomic(self) -> bool:
        return False

    def options(self) -> Mapping[str, str] | None:
        about = getattr(self.client, "meta", None)
        if about is None:
            return None
        endpoint = hashlib.sha256(str(about.endpoint_url).encode()).hexdigest()
        told = {"exact": str(self.exact).lower(), "endpointSha256": endpoint}
        return {**told, "region": about.region_name} if about.region_name else told

    def line(self, url: str) -> str:
        if self.exact:
            return f"magicfs register {quote(url)} glue --table {quote(self.table)}"
        return f"magicfs.register({url!r}, Glue(client, {self.database!r}, {self.name!r}, exact=False))"

    def open(self, place: Destination) -> Table:
        try:
            found = self.client.get_table(DatabaseName=self.database, Name=self.name)["Table"]
        except self.client.exceptions.EntityNotFoundException:
            found = None
        manifests = SymlinkManifest().open(place) if self.exact else None
        return _GlueTable(place, self, found, self._partitions() if found else {}, manifests)

    def _partitions(self) -> Mapping[_Values, str]:
        pages = self.client.get_paginator("get_partitions").paginate(
            DatabaseName=self.database, TableName=self.name, ExcludeColumnSchema=True
        )
        return {
            tuple(one["Values"]): one["StorageDescriptor"]["Location"]
            for page in pages
            for one in page["Partitions"]
        }


@dataclass(frozen=True, slots=True)
class _GlueTable:
    place: Destination
    glue: Glue
    found: Mapping[str, Any] | None  # as Glue describes it; None before it was created
    held: Mapping[_Values, str]  # where its partitions are
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
            self.glue.client.update_table(DatabaseName=self.glue.database, TableInput=described)
        return done + made

    def _is_as(self, described: Mapping[str, Any]) -> bool:
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
                f"{self.glue.table} is there, and magicfs has not registered it; nothing was changed; use a "
                "table "
                "of its own, or let it show the dataset alone with force=True (--force)"
            )
        base = self._location("")
        elsewhere = [
            one for one in (self._own_location(), *self.held.values()) if not f"{one}/".startswith(base)
        ]
        if elsewhere:
            raise UsageError(
                f"{self.glue.table} leads to {elsewhere[0]!r}, which is not of {self.place.location.url}; "
                "nothing was "
                "changed; use a table of its own, or let it show the dataset alone with force=True (--force)"
            )

    def _own_location(self) -> str:
        assert self.found is not None
        return str(self.found["StorageDescriptor"]["Location"]).rstrip("/")

    def _location(self, partition: str) -> str:
        """A directory, with a slash at its end."""
        below = [DIRECTORY] if self.glue.exact else []
        return reader_url(self.place.location, "".join(f"{one}/" for one in [*below, partition] if one))

    def _wanted(self, files: Files, columns: Sequence[str]) -> dict[_Values, str]:
        """Where the partitions of the dataset are."""
        if not columns:
            return {}
        found: dict[_Values, str] = {}
        for key in files:
            values = tuple(NULL if one is None else one for one in partition_values(key).values())
            place = self._location(partition_of(key))
            if found.setdefault(values, place) != place:
                raise UsageError(
                    f"{found[values]!r} and {place!r} are one partition of Glue, which has one directory "
                    "for each; "
                    "nothing was changed; publish the data with one spelling of its partitions"
                )
        return found

    def _described(self, published: Published, columns: Sequence[str]) -> dict[str, Any]:
        """The table as Glue is to have it."""
        reader, writer = _FORMATS[self.glue.exact]
        kept = {} if self.found is None else self.found.get("Parameters", {})
        return {
            "Name": self.glue.name,
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
                    f"{self.glue.table} is partitioned by {[one['Name'] for one in keys]}, and the dataset "
                    "by "
                    f"{list(columns)}; nothing was changed; drop the table, and register the dataset anew"
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
        read = footers(self.place, published.files, came, "Glue")
        described = self._columns()
        if not read:
            if self.found is None:
                raise UsageError(
                    f"{self.place.location.url} has no files, so a table of it would have no columns; "
                    "register it "
                    "when the first file was published"
                )
            return described
        known = {one["Name"]: one["Type"] for one in described}
        for one in columns_of(read, columns):
            name, type_ = one.name.lower(), hive_type(one.type, one.name)
            if known.setdefault(name, type_) != type_:
                raise UsageError(
                    f"{self.glue.table} has {name!r} as {known[name]}, and files to add have it as {type_}; "
                    "nothing "
                    "was changed; drop the table, and register the dataset anew"
                )
        return [{"Name": name, "Type": type_} for name, type_ in known.items()]

    def _bring_partitions(self, described: Mapping[str, Any], wanted: Mapping[_Values, str]) -> Changes:
        """Create the table and what partitions it lacks, and delete those that are over."""
        client, at = self.glue.client, {"DatabaseName": self.glue.database, "TableName": self.glue.name}
        if self.found is None:
            unfinished = {**described, "Parameters": {**described["Parameters"], _JOB: ""}}
            try:
                client.create_table(DatabaseName=self.glue.database, TableInput=unfinished)
            except client.exceptions.AlreadyExistsException as error:
                raise CatalogMoved from error
            except client.exceptions.EntityNotFoundException as error:
                raise UsageError(
                    f"Glue has no database {self.glue.database!r}; create it, and register the dataset again"
                ) from error
        new = [values for values in wanted if values not in self.held]
        for some in _batches(new, _CREATED_AT_ONCE):
            inputs = [_partition(described, values, wanted[values]) for values in some]
            _refuse(client.batch_create_partition(**at, PartitionInputList=inputs), "AlreadyExistsException")
        for values, place in wanted.items():
            if self.held.get(values, place) != place:
                changed = _partition(described, values, place)
                client.update_partition(**at, PartitionValueList=list(values), PartitionInput=changed)
        over = [values for values in self.held if values not in wanted]
        for some in _batches(over, _DELETED_AT_ONCE):
            named = [{"Values": list(values)} for values in some]
            _refuse(client.batch_delete_partition(**at, PartitionsToDelete=named), "EntityNotFoundException")
        return Changes(len(new), len(over))


def _partition(described: Mapping[str, Any], values: _Values, place: str) -> dict[str, Any]:
    return {
        "Values": list(values),
        "StorageDescriptor": {**described["StorageDescriptor"], "Location": place},
    }


def _batches(values: Sequence[_Values], size: int) -> Iterator[Sequence[_Values]]:
    return (values[start : start + size] for start in range(0, len(values), size))


def _refuse(answer: Mapping[str, Any], harmless: str) -> None:
    """Raise what Glue says of single partitions. ``harmless``: another call has done the same."""
    for one in answer.get("Errors", ()):
        detail = one["ErrorDetail"]
        if detail["ErrorCode"] != harmless:
            raise Unavailable(
                "register",
                "/".join(one["PartitionValues"]),
                f"{detail['ErrorCode']}: {detail['ErrorMessage']}",
            )
