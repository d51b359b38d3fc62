"""Apache Iceberg: a table of a catalog of PyIceberg whose data files are the published ones.

A publication is one snapshot. It says in its summary which job it shows, so a table that was rolled back by
Iceberg says the older one. A new table, its columns and its first snapshot come in one commit, too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from shlex import quote
from typing import Any, ClassVar, Final

from magicfs.catalogs.deadline import ANSWER_S, within
from magicfs.catalogs.difference import difference
from magicfs.catalogs.footers import all_columns, footers
from magicfs.catalogs.hive_names import partition_columns, partition_values
from magicfs.catalogs.iceberg_files import data_file, held_files, path_of
from magicfs.catalogs.port import CatalogMoved, Changes, Published, Table
from magicfs.catalogs.register import Registers
from magicfs.datasets.connection import Destination
from magicfs.errors import UsageError

_JOB: Final = "magicfs.job-id"
_NAMES: Final = "schema.name-mapping.default"
_RETRIES: Final = "commit.retry.num-retries"
_AT_ONCE: Final = 16


@dataclass(frozen=True, slots=True)
class Iceberg(Registers):
    """A table of Apache Iceberg. Needs ``pip install 'magicfs[iceberg]'``.

    Attributes:
        catalog: A catalog of PyIceberg, such as ``load_catalog("default")``. Its FileIO reads the files, too:
            it needs the properties for their store. pyarrow's cannot read names with ``#`` or ``?``;
            ``py-io-impl: pyiceberg.io.fsspec.FsspecFileIO`` can.
        name: The table, such as ``"db.sales"``. It is created if necessary; its namespace must exist.
    """

    kind: ClassVar[str] = "iceberg"
    atomic: ClassVar[bool] = True
    catalog: Any = field(repr=False)
    name: str

    @property
    def table(self) -> str:
        return self.name

    def options(self) -> Mapping[str, str] | None:
        name, uri = getattr(self.catalog, "name", None), self._uri
        if not isinstance(name, str) or not name:
            return None
        return {"catalog": name} if uri is None else {"catalog": name, "uriSha256": uri}

    @property
    def _uri(self) -> str | None:
        """A hash of where the catalog is: the text itself may hold a password."""
        found = getattr(self.catalog, "properties", {}).get("uri")
        return None if found is None else hashlib.sha256(str(found).encode()).hexdigest()

    def line(self, url: str) -> str:
        name = getattr(self.catalog, "name", None)
        if not isinstance(name, str) or not name:
            return f"magicfs.Dataset({url!r}).register(Iceberg(catalog, {self.name!r}))"
        table = f"--table {quote(self.name)} --catalog-name {quote(name)}"
        return f"magicfs maintain {quote(url)} --register iceberg {table}"

    def open(self, place: Destination) -> Table:
        try:
            from pyiceberg.exceptions import NoSuchTableError
        except ImportError as error:
            raise UsageError("Iceberg needs pyiceberg; pip install 'magicfs[iceberg]'") from error
        try:
            table = within(ANSWER_S, self.name, lambda: self.catalog.load_table(self.name))
        except NoSuchTableError:
            table = None
        else:
            # A commit that was moved past another one could take the table back.
            table.metadata.properties[_RETRIES] = "0"
        return _IcebergTable(place, self.catalog, self.name, table)


@dataclass(frozen=True)
class _IcebergTable:
    place: Destination
    catalog: Any
    name: str
    table: Any  # None before it was created

    def shows(self, job_id: str) -> bool:
        return self._job == job_id

    @cached_property
    def _job(self) -> str | None:
        """As the newest snapshot says that magicfs made; None if none is left."""
        snapshot = None if self.table is None else self.table.current_snapshot()
        while snapshot is not None:
            if snapshot.summary is not None and (job := snapshot.summary.get(_JOB)) is not None:
                return str(job)
            parent = snapshot.parent_snapshot_id
            snapshot = None if parent is None else self.table.snapshot_by_id(parent)
        return None

    def bring(self, published: Published) -> Changes:
        from pyiceberg.exceptions import CommitFailedException, TableAlreadyExistsError

        held = {} if self.table is None else held_files(self.table, self.place.location)
        change = difference(held, published, f"the Iceberg table {self.name}")
        if not change.changes and self.shows(published.job_id):
            return change.changes
        columns = partition_columns(published.files)
        found = footers(self.place, published.files, change.added, "Iceberg")
        schema = all_columns(found, published.files, columns) if found else None
        transaction = self._begun(columns, schema)
        added = list(self._data_files(transaction, change.added))
        snapshot = transaction.update_snapshot(snapshot_properties={_JOB: published.job_id}).overwrite()
        with snapshot as update:
            for key in change.removed:
                update.delete_data_file(held[key])
            for file in added:
                update.append_data_file(file)
        try:
            within(ANSWER_S, self.name, transaction.commit_transaction)
        except (CommitFailedException, TableAlreadyExistsError) as error:
            raise CatalogMoved from error
        return change.changes

    def _begun(self, columns: Sequence[str], schema: Any) -> Any:
        """A transaction of the table, with the columns that are new."""
        if self.table is None:
            if schema is None:
                raise UsageError(
                    f"{self.place.location.url} has no files, so a table would have no columns; register it "
                    "after the first file is published"
                )
            transaction = self._created(columns, schema)
        else:
            self._check_partitions(columns)
            transaction = self.table.transaction()
            if schema is not None:
                self._widen(transaction, columns, schema)
        names = transaction.table_metadata.schema().name_mapping.model_dump_json()
        if transaction.table_metadata.properties.get(_NAMES) != names:
            transaction.set_properties({_NAMES: names})
        return transaction

    def _created(self, columns: Sequence[str], schema: Any) -> Any:
        from pyiceberg.exceptions import NoSuchNamespaceError, TableAlreadyExistsError

        try:
            transaction = self.catalog.create_table_transaction(self.name, schema=schema)
        except NoSuchNamespaceError as error:
            raise UsageError(
                f"there is no namespace for the table {self.name}; create it by catalog.create_namespace"
            ) from error
        except TableAlreadyExistsError as error:
            raise CatalogMoved from error
        with transaction.update_spec() as spec:
            for column in columns:
                spec.add_identity(column)
        return transaction

    def _check_partitions(self, columns: Sequence[str]) -> None:
        """Directories carry columns that files lack: only identity partitions give readers their values."""
        by_identity = {
            self.table.schema().find_column_name(one.source_id)
            for one in self.table.spec().fields
            if str(one.transform) == "identity"
        }
        lost = [column for column in columns if column not in by_identity]
        if lost:
            raise UsageError(
                f"the Iceberg table {self.name} is not partitioned by {lost[0]!r}, as the dataset is, so "
                "its readers "
                "would miss that column; nothing was changed; drop the table, or use another table name"
            )

    def _widen(self, transaction: Any, columns: Sequence[str], schema: Any) -> None:
        """Add the columns that are new; those of directories keep the type that the table has."""
        import pyarrow as pa

        known = {field.name for field in self.table.schema().fields}
        schema = pa.schema([one for one in schema if one.name not in columns or one.name not in known])
        try:
            with transaction.update_schema() as update:
                update.union_by_name(schema)
        except Exception as error:
            raise UsageError(
                f"the columns of {self.place.location.url} do not fit those of the Iceberg table {self.name} "
                f"({error}); nothing was changed; drop the table, or use another table name"
            ) from error

    def _data_files(self, transaction: Any, keys: Sequence[str]) -> Iterator[Any]:
        if not keys:
            return
        paths: Mapping[str, str] = {key: path_of(self.place.location, key) for key in keys}
        with ThreadPoolExecutor(min(_AT_ONCE, len(keys))) as pool:
            yield from pool.map(lambda key: data_file(transaction, paths[key], partition_values(key)), keys)
