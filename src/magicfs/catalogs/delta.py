"""Delta Lake: a table at the destination itself, whose log names the published files.

::

    DEST/_delta_log/.magicfs                    marks this log as maintained by magicfs
    DEST/_delta_log/00000000000000000000.json   the first version

Each version that ``register`` makes is one transaction of the application ``magicfs``. Its number is a hash
of the job that the table shows: so the table says what it shows for as long as it exists, and of two calls at
once one is refused.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from shlex import quote
from typing import Any, ClassVar, Final
from urllib.parse import unquote

from magicfs.catalogs.delta_place import mark, options_of, uri_of, warn_of_names
from magicfs.catalogs.difference import difference
from magicfs.catalogs.footers import Footer, all_columns, footers
from magicfs.catalogs.hive_names import partition_columns, partition_values
from magicfs.catalogs.port import CatalogMoved, Changes, Published, Table
from magicfs.catalogs.register import Registers
from magicfs.datasets.connection import Destination
from magicfs.errors import UsageError

_APPLICATION: Final = "magicfs"


@dataclass(frozen=True, slots=True)
class Delta(Registers):
    """A Delta Lake table at the destination. Needs ``pip install 'magicfs[delta]'``.

    Attributes:
        storage_options: Options of ``deltalake`` for the store, such as ``{"AWS_ENDPOINT_URL": …}``; by
            default those of the destination's filesystem on S3, otherwise those of the environment.
    """

    kind: ClassVar[str] = "delta"
    table: ClassVar[str] = ""
    atomic: ClassVar[bool] = True
    storage_options: Mapping[str, str] | None = field(default=None, repr=False)

    def __reduce__(self) -> Any:
        if self.storage_options is not None:
            raise UsageError(
                "Delta(storage_options=…) cannot be pickled, because its options may be secret; create it "
                "where you use it"
            )
        return Delta, ()

    def options(self) -> Mapping[str, str] | None:
        return {} if self.storage_options is None else None  # which may be secret

    def line(self, url: str) -> str:
        if self.storage_options is None:
            return f"magicfs maintain {quote(url)} --register delta"
        return f"magicfs.Dataset({url!r}).register(Delta(storage_options=…))"

    def open(self, place: Destination) -> Table:
        try:
            from deltalake import DeltaTable
            from deltalake.exceptions import TableNotFoundError
        except ImportError as error:
            raise UsageError("Delta needs deltalake; pip install 'magicfs[delta]'") from error
        uri = uri_of(place.location)
        options = dict(options_of(place) if self.storage_options is None else self.storage_options)
        try:
            table = DeltaTable(uri, storage_options=options)
        except TableNotFoundError:
            table = None
        return _DeltaTable(place, uri, options, table)


@dataclass(frozen=True, slots=True)
class _DeltaTable:
    place: Destination
    uri: str
    options: dict[str, str] = field(repr=False)
    table: Any  # a DeltaTable, None before the first version

    def shows(self, job_id: str) -> bool:
        if self.table is None:
            return False
        version = self.table.transaction_version(_APPLICATION)
        return version is not None and version == _number(job_id)

    def bring(self, published: Published) -> Changes:
        held = self._held()
        url = self.place.location.url
        change = difference(held, published, f"the Delta table {url}")
        if not change.changes and self.shows(published.job_id):
            return change.changes
        columns = partition_columns(published.files)
        found = footers(self.place, published.files, change.added, "Delta")
        actions = [
            *self._removals(held, [key for key in change.removed if key not in published.files]),
            *(_add(published, key, found[key]) for key in change.added),
        ]
        if self.table is None:
            self._create(published, columns, found, actions)
        else:
            self._commit(published, columns, found, actions)
        warn_of_names(self.place.location, change.added)
        return change.changes

    def _held(self) -> Mapping[str, Mapping[str, Any]]:
        """The files that the table has, by their keys, as its log describes them."""
        import pyarrow as pa

        rows = [] if self.table is None else pa.table(self.table.get_add_actions()).to_pylist()
        return {unquote(row["path"]): row for row in rows}

    def _removals(self, held: Mapping[str, Mapping[str, Any]], keys: Sequence[str]) -> list[Any]:
        from deltalake.transaction import RemoveAction

        now = int(time.time() * 1000)
        return [RemoveAction(key, True, now, held[key]["size_bytes"], partition_values(key)) for key in keys]

    def _create(
        self,
        published: Published,
        columns: Sequence[str],
        found: Mapping[str, Footer],
        actions: Sequence[Any],
    ) -> None:
        from deltalake import DeltaTable
        from deltalake.transaction import create_table_with_add_actions

        if not found:
            raise UsageError(
                f"{self.place.location.url} has no files, so a Delta table would have no columns; register "
                "it after the first file is published"
            )
        schema = self._schema(published, columns, found)
        self.place.run(mark)
        try:
            create_table_with_add_actions(
                self.uri,
                schema,
                actions,
                mode="error",
                partition_by=list(columns),
                storage_options=self.options,
                commit_properties=_commit_properties(published.job_id),
            )
        except Exception as error:
            if DeltaTable.is_deltatable(self.uri, storage_options=self.options):
                raise CatalogMoved from error
            raise

    def _commit(
        self,
        published: Published,
        columns: Sequence[str],
        found: Mapping[str, Footer],
        actions: Sequence[Any],
    ) -> None:
        from deltalake.exceptions import CommitFailedError

        if self.table.metadata().partition_columns != list(columns) and published.files:
            raise UsageError(
                f"the Delta table {self.place.location.url} is partitioned by "
                f"{self.table.metadata().partition_columns}, and the dataset by {list(columns)}; nothing was "
                "changed; remove _delta_log, and register the dataset again"
            )
        try:
            if found:
                self._widen(self._schema(published, columns, found))
            self.place.run(mark)
            self.table.create_write_transaction(
                list(actions),
                "append",
                self.table.schema(),
                list(self.table.metadata().partition_columns),
                commit_properties=_commit_properties(published.job_id),
            )
        except CommitFailedError as error:
            raise CatalogMoved from error

    def _schema(self, published: Published, columns: Sequence[str], found: Mapping[str, Footer]) -> Any:
        """The columns of files, those of directories last."""
        import pyarrow as pa
        from deltalake import Schema

        there = () if self.table is None else [_field(self.table.schema(), one) for one in columns]
        known = {one.name: pa.field(one.to_arrow()).type for one in there if one is not None}
        schema = all_columns(found, published.files, columns, known)
        try:
            return Schema.from_arrow(schema)
        except Exception as error:
            raise UsageError(f"Delta cannot hold these columns ({error}); nothing was changed") from error

    def _widen(self, schema: Any) -> None:
        """Add the columns that are new. Raises UsageError where a type is another one."""
        there = self.table.schema()
        new = []
        for one in schema.fields:
            known = _field(there, one.name)
            if known is None:
                new.append(one)
            elif known.type != one.type:
                raise UsageError(
                    f"the Delta table {self.place.location.url} has column {one.name!r} as {known.type}, but "
                    f"the new files have {one.type}; nothing was changed; remove _delta_log, and register "
                    "the dataset again"
                )
        if new:
            self.table.alter.add_columns(new)
            raise CatalogMoved


def _field(schema: Any, name: str) -> Any:
    return next((one for one in schema.fields if one.name == name), None)


def _add(published: Published, key: str, footer: Footer) -> Any:
    from deltalake.transaction import AddAction

    return AddAction(
        path=key,
        size=published.files[key].size,
        partition_values=partition_values(key),
        modification_time=int(time.time() * 1000),
        data_change=True,
        stats=json.dumps({"numRecords": footer.rows}),
    )


def _commit_properties(job_id: str) -> Any:
    from deltalake import CommitProperties, Transaction

    return CommitProperties(
        custom_metadata={"magicfsJobId": job_id},
        max_commit_retries=0,  # a commit that was moved past another one could take the table back
        app_transactions=[Transaction(_APPLICATION, _number(job_id))],
    )


def _number(job_id: str) -> int:
    """A job as a number of a transaction: 63 bits of a hash."""
    return int.from_bytes(hashlib.sha256(job_id.encode()).digest()[:8]) >> 1
