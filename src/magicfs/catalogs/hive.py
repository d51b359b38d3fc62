"""A Hive metastore: a table and its partitions, for Hive, Spark, Trino and Presto.

By default the partitions point to the directories of the dataset, because Hive and Spark cannot read Parquet
through symlink manifests.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from shlex import quote
from typing import Any, ClassVar, Final
from urllib.parse import urlsplit

from magicfs.catalogs.deadline import ANSWER_S, CONNECT_S
from magicfs.catalogs.metastore import Described, MetastoreTable, Values, partition
from magicfs.catalogs.port import CatalogMoved, Table
from magicfs.catalogs.recorded import metastore_of
from magicfs.catalogs.register import Registers
from magicfs.catalogs.symlinks import SymlinkManifest
from magicfs.datasets.connection import Destination
from magicfs.errors import Unavailable, UsageError

_ADDED_AT_ONCE: Final = 100
_ALL: Final = -1


@dataclass(frozen=True, slots=True)
class Hive(Registers):
    """A table of a Hive metastore.

    Attributes:
        uri: URI of the metastore, such as ``thrift://host:9083``, without Kerberos or password. It and its
            readers have to support the scheme of the dataset's URL: ``fs.s3.impl`` for ``s3://``.
        database: The database. It is not created.
        name: The table. It is created if necessary.
        exact: Whether readers use symlink manifests, and so exactly the published files: for Trino and
            Presto. Otherwise they list the directories of the partitions, and read every file there.
    """

    kind: ClassVar[str] = "hive"
    keeper: ClassVar[str] = "Hive"
    atomic: ClassVar[bool] = False
    uri: str
    database: str
    name: str
    exact: bool = False

    def __post_init__(self) -> None:
        _checked(self.uri)

    @property
    def table(self) -> str:
        return f"{self.database}.{self.name}"

    def options(self) -> Mapping[str, str] | None:
        return {"uri": self.uri, "exact": str(self.exact).lower()}

    def line(self, url: str) -> str:
        exact = " --exact" if self.exact else ""
        return (
            f"magicfs maintain {quote(url)} --register hive --table {quote(self.table)} --metastore "
            f"{quote(self.uri)}{exact}"
        )

    def open(self, place: Destination) -> Table:
        found, held = None, dict[Values, str]()
        with _client(self.uri) as client:
            if (table := _table_of(client, self)) is not None:
                found = _told(table)
                for one in client.get_partitions(self.database, self.name, _ALL):
                    held[tuple(one.values)] = _place(one.sd.location)
        manifests = SymlinkManifest().open(place) if self.exact else None
        return MetastoreTable(place, self, _Changes(self), found, held, manifests)


@dataclass(frozen=True, slots=True)
class _Changes:
    """What changes a table of Hive."""

    hive: Hive

    def create(self, described: Described) -> None:
        from hive_metastore import ttypes

        table = ttypes.Table(
            tableName=self.hive.name,
            dbName=self.hive.database,
            owner="magicfs",
            sd=_storage(described["StorageDescriptor"]),
            partitionKeys=_columns(described["PartitionKeys"]),
            parameters=dict(described["Parameters"]),
            tableType=described["TableType"],
        )
        with _client(self.hive.uri) as client:
            try:
                client.create_table(table)
            except ttypes.AlreadyExistsException as error:
                raise CatalogMoved from error
            except (ttypes.NoSuchObjectException, ttypes.InvalidObjectException) as error:
                if self.hive.database.lower() in client.get_all_databases():
                    raise
                raise UsageError(
                    f"Hive has no database {self.hive.database!r}; create it, and register the dataset again"
                ) from error

    def update(self, described: Described) -> None:
        with _client(self.hive.uri) as client:
            if (table := _table_of(client, self.hive)) is None:
                raise CatalogMoved
            table.sd = _storage(described["StorageDescriptor"])
            table.parameters = dict(described["Parameters"])
            client.alter_table(self.hive.database, self.hive.name, table)

    def add(self, described: Described, places: Mapping[Values, str]) -> None:
        from hive_metastore import ttypes

        if not places:
            return
        made = [self._partition(described, values, place) for values, place in places.items()]
        with _client(self.hive.uri) as client:
            for start in range(0, len(made), _ADDED_AT_ONCE):
                some = made[start : start + _ADDED_AT_ONCE]
                client.add_partitions_req(
                    ttypes.AddPartitionsRequest(
                        self.hive.database, self.hive.name, some, ifNotExists=True, needResult=False
                    )
                )

    def move(self, described: Described, values: Values, place: str) -> None:
        changed = self._partition(described, values, place)
        with _client(self.hive.uri) as client:
            client.alter_partition(self.hive.database, self.hive.name, changed)

    def drop(self, partitions: Sequence[Values]) -> None:
        from hive_metastore import ttypes

        if not partitions:
            return
        with _client(self.hive.uri) as client:
            for values in partitions:
                try:
                    client.drop_partition(self.hive.database, self.hive.name, list(values), deleteData=False)
                except ttypes.NoSuchObjectException:
                    continue  # another call has done the same

    def _partition(self, described: Described, values: Values, place: str) -> Any:
        from hive_metastore import ttypes

        made = partition(described, values, place)
        return ttypes.Partition(
            values=made["Values"],
            dbName=self.hive.database,
            tableName=self.hive.name,
            sd=_storage(made["StorageDescriptor"]),
            parameters={},
        )


@contextmanager
def _client(uri: str) -> Iterator[Any]:
    """A connection to a metastore."""
    try:
        from hive_metastore import ThriftHiveMetastore
        from thrift.protocol import TBinaryProtocol
        from thrift.transport import TSocket, TTransport
    except ImportError as error:
        raise UsageError("hive needs the client of a metastore; pip install 'magicfs[hive]'") from error
    at = urlsplit(_checked(uri))
    socket = TSocket.TSocket(at.hostname, at.port)
    transport = TTransport.TBufferedTransport(socket)
    socket.setTimeout(CONNECT_S * 1000)
    try:
        transport.open()
        socket.setTimeout(ANSWER_S * 1000)
        yield ThriftHiveMetastore.Client(TBinaryProtocol.TBinaryProtocol(transport))
    except (TTransport.TTransportException, TimeoutError) as error:
        raise Unavailable("register", uri, str(error), hint="check its address, and call again") from error
    finally:
        transport.close()


def _checked(uri: str) -> str:
    """The address of a metastore; raises UsageError, which quotes no password."""
    address = metastore_of(uri)
    if address is None:
        raise UsageError("uri is not a Hive metastore; write it as thrift://host:9083, without a password")
    return address


def _table_of(client: Any, hive: Hive) -> Any:
    """The table as the metastore has it; None if it has none."""
    from hive_metastore import ttypes

    try:
        return client.get_table(hive.database, hive.name)
    except ttypes.NoSuchObjectException:
        return None


def _told(table: Any) -> Described:
    """A table of Hive in the words of Glue."""

    def columns(of: Any) -> list[dict[str, str]]:
        return [{"Name": one.name, "Type": one.type} for one in of]

    return {
        "Parameters": dict(table.parameters or {}),
        "PartitionKeys": columns(table.partitionKeys),
        "StorageDescriptor": {
            "Columns": columns(table.sd.cols),
            "Location": _place(table.sd.location),
            "InputFormat": table.sd.inputFormat,
        },
    }


def _place(location: str) -> str:
    """A directory as it was given: Hive leaves out the slash at its end, and those of no host."""
    if location.startswith("file:/") and not location.startswith("file://"):
        location = f"file://{location.removeprefix('file:')}"
    return f"{location.rstrip('/')}/"


def _columns(described: Sequence[Described]) -> list[Any]:
    from hive_metastore import ttypes

    return [ttypes.FieldSchema(one["Name"], one["Type"], "") for one in described]


def _storage(described: Described) -> Any:
    from hive_metastore import ttypes

    return ttypes.StorageDescriptor(
        cols=_columns(described["Columns"]),
        location=described["Location"],
        inputFormat=described["InputFormat"],
        outputFormat=described["OutputFormat"],
        serdeInfo=ttypes.SerDeInfo(
            serializationLib=described["SerdeInfo"]["SerializationLibrary"],
            parameters={"serialization.format": "1"},
        ),
        numBuckets=-1,
        bucketCols=[],
        sortCols=[],
        parameters={},
    )
