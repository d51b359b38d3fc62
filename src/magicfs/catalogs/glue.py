"""AWS Glue: a table and its partitions, for Athena, EMR and other readers of the Glue Data Catalog.

By default the partitions point to symlink manifests, so readers open exactly the published files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from shlex import quote
from typing import Any, ClassVar, Final

from magicfs.catalogs.metastore import Described, MetastoreTable, Values, partition
from magicfs.catalogs.port import CatalogMoved, Table
from magicfs.catalogs.register import Registers
from magicfs.catalogs.symlinks import SymlinkManifest
from magicfs.datasets.connection import Destination
from magicfs.errors import Unavailable, UsageError

_CREATED_AT_ONCE: Final = 100
_DELETED_AT_ONCE: Final = 25


@dataclass(frozen=True, slots=True)
class Glue(Registers):
    """A table of AWS Glue.

    Attributes:
        client: A Glue client of boto3 or botocore, such as ``boto3.client("glue")``.
        database: The database. It is not created.
        name: The table. It is created if necessary.
        exact: Whether readers use symlink manifests, and so exactly the published files. Otherwise they list
            the directories of the partitions, and read every file there.
    """

    kind: ClassVar[str] = "glue"
    keeper: ClassVar[str] = "Glue"
    atomic: ClassVar[bool] = False
    client: Any = field(repr=False)
    database: str
    name: str
    exact: bool = True

    @property
    def table(self) -> str:
        return f"{self.database}.{self.name}"

    def options(self) -> Mapping[str, str] | None:
        about = getattr(self.client, "meta", None)
        if about is None:
            return None
        endpoint = hashlib.sha256(str(about.endpoint_url).encode()).hexdigest()
        noted = {"exact": str(self.exact).lower(), "endpointSha256": endpoint}
        return {**noted, "region": about.region_name} if about.region_name else noted

    def line(self, url: str) -> str:
        if self.exact:
            return f"magicfs maintain {quote(url)} --register glue --table {quote(self.table)}"
        return (
            f"magicfs.Dataset({url!r}).register(Glue(client, {self.database!r}, {self.name!r}, exact=False))"
        )

    def open(self, place: Destination) -> Table:
        try:
            found = self.client.get_table(DatabaseName=self.database, Name=self.name)["Table"]
        except self.client.exceptions.EntityNotFoundException:
            found = None
        manifests = SymlinkManifest().open(place) if self.exact else None
        held = self._partitions() if found else {}
        return MetastoreTable(place, self, _Changes(self), found, held, manifests)

    def _partitions(self) -> Mapping[Values, str]:
        pages = self.client.get_paginator("get_partitions").paginate(
            DatabaseName=self.database, TableName=self.name, ExcludeColumnSchema=True
        )
        return {
            tuple(one["Values"]): one["StorageDescriptor"]["Location"]
            for page in pages
            for one in page["Partitions"]
        }


@dataclass(frozen=True, slots=True)
class _Changes:
    """What changes a table of Glue."""

    glue: Glue

    @property
    def _at(self) -> dict[str, str]:
        return {"DatabaseName": self.glue.database, "TableName": self.glue.name}

    def create(self, described: Described) -> None:
        client = self.glue.client
        try:
            client.create_table(DatabaseName=self.glue.database, TableInput=described)
        except client.exceptions.AlreadyExistsException as error:
            raise CatalogMoved from error
        except client.exceptions.EntityNotFoundException as error:
            raise UsageError(
                f"Glue has no database {self.glue.database!r}; create it, and register the dataset again"
            ) from error

    def update(self, described: Described) -> None:
        self.glue.client.update_table(DatabaseName=self.glue.database, TableInput=described)

    def add(self, described: Described, places: Mapping[Values, str]) -> None:
        for some in _batches(list(places), _CREATED_AT_ONCE):
            inputs = [partition(described, values, places[values]) for values in some]
            answer = self.glue.client.batch_create_partition(**self._at, PartitionInputList=inputs)
            _refuse(answer, "AlreadyExistsException")

    def move(self, described: Described, values: Values, place: str) -> None:
        changed = partition(described, values, place)
        self.glue.client.update_partition(**self._at, PartitionValueList=list(values), PartitionInput=changed)

    def drop(self, partitions: Sequence[Values]) -> None:
        for some in _batches(partitions, _DELETED_AT_ONCE):
            named = [{"Values": list(values)} for values in some]
            answer = self.glue.client.batch_delete_partition(**self._at, PartitionsToDelete=named)
            _refuse(answer, "EntityNotFoundException")


def _batches(values: Sequence[Values], size: int) -> Iterator[Sequence[Values]]:
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
