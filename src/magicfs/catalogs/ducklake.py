"""DuckLake: a table with the published files, in a lake that a DuckDB connection has attached.

A publication is one transaction of the lake. The comment of the table names the job: as every call changes
it, the lake refuses the second of two transactions at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from magicfs.catalogs.deadline import ANSWER_S, within
from magicfs.catalogs.difference import difference
from magicfs.catalogs.footers import all_columns, footers
from magicfs.catalogs.hive_names import partition_columns, partition_values
from magicfs.catalogs.port import CatalogMoved, Changes, Published, Table
from magicfs.catalogs.register import Registers
from magicfs.catalogs.symlinks import reader_url
from magicfs.datasets.connection import Destination
from magicfs.errors import UsageError

_COMMENT: Final = "shows a dataset of magicfs, as published by job "
_PATTERN: Final = frozenset("*?[")
"""What DuckDB takes for a pattern of names, or of a URL for its options."""


@dataclass(frozen=True, slots=True)
class DuckLake(Registers):
    """A table of DuckLake. Needs ``pip install 'magicfs[ducklake]'`` and DuckDB's extension ``ducklake``.

    Attributes:
        connection: A DuckDB connection that has attached the lake and can read the files: for S3 it needs the
            extension ``httpfs`` and a secret.
        lake: The name under which the lake is attached.
        name: The table. It is created if necessary; its schema must exist.
        schema: The schema of the table.
    """

    kind: ClassVar[str] = "ducklake"
    atomic: ClassVar[bool] = True
    connection: Any = field(repr=False)
    lake: str
    name: str
    schema: str = "main"

    @property
    def table(self) -> str:
        return f"{self.lake}.{self.schema}.{self.name}"

    def options(self) -> Mapping[str, str] | None:
        return None  # the owner of the connection attaches the lake

    def line(self, url: str) -> str:
        table = f"{self.lake!r}, {self.name!r}, {self.schema!r}"
        return f"magicfs.Dataset({url!r}).register(DuckLake(connection, {table}))"

    def open(self, place: Destination) -> Table:
        """Begin the transaction for all changes: it is refused if others change the table meanwhile."""
        if place.location.scheme == "memory":
            raise UsageError(
                "DuckDB does not support memory://; a DuckLake table can be on S3, other clouds and local "
                "files"
            )
        try:
            import pyarrow as pa  # noqa: F401 - a new table's columns go to DuckDB by it
        except ImportError as error:
            raise UsageError("DuckLake needs pyarrow; pip install 'magicfs[ducklake]'") from error
        cursor = self.connection.cursor()

        def begin() -> Table:
            cursor.execute("BEGIN")
            return _LakeTable(place, self, cursor)

        return within(ANSWER_S, self.table, begin)


class _LakeTable:
    def __init__(self, place: Destination, lake: DuckLake, cursor: Any) -> None:
        self._place = place
        self._lake = lake
        self._cursor = cursor
        self._quoted = ".".join(map(_quoted, (lake.lake, lake.schema, lake.name)))
        rows = self._all(
            "SELECT comment FROM duckdb_tables() WHERE database_name = ? AND schema_name = ? AND table_name "
            "= ?",
            [lake.lake, lake.schema, lake.name],
        )
        self._is_there = bool(rows)
        self._comment = rows[0][0] if rows else None
        self._held = self._held_files() if rows else {}

    def shows(self, job_id: str) -> bool:
        return self._comment == f"{_COMMENT}{job_id}"

    def bring(self, published: Published) -> Changes:
        try:
            return self._brought(published)
        finally:
            self._cursor.close()  # and what was not committed is rolled back

    def _brought(self, published: Published) -> Changes:
        from duckdb import TransactionException

        change = difference(self._held, published, f"the DuckLake table {self._lake.table}")
        if not change.changes and self.shows(published.job_id):
            return change.changes
        urls = [self._url(key) for key in change.added]
        columns = partition_columns(published.files)
        found = footers(self._place, published.files, change.added, "DuckLake")
        schema = all_columns(found, published.files, columns) if found else None
        try:
            self._prepare(columns, schema)
            if self._is_there:
                self._keep_rows_in_files()
            for key in change.removed:
                self._cursor.execute(f"DELETE FROM {self._quoted} WHERE filename = ?", [self._held[key]])  # noqa: S608 - quoted
            if urls:
                self._add(urls)
            self._cursor.execute(f"COMMENT ON TABLE {self._quoted} IS '{_COMMENT}{published.job_id}'")
            self._cursor.execute("COMMIT")
            if not self._is_there:
                self._keep_rows_in_files()  # no table takes this in the transaction that makes it
        except TransactionException as error:
            raise CatalogMoved from error
        return change.changes

    def _keep_rows_in_files(self) -> None:
        """Otherwise DuckLake keeps small changes in the catalog, where no list of files shows them."""
        self._cursor.execute(
            "CALL ducklake_set_option(?, 'data_inlining_row_limit', 0, schema => ?, table_name => ?)",
            [self._lake.lake, self._lake.schema, self._lake.name],
        )

    def _all(self, query: str, given: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = self._cursor.execute(query, list(given)).fetchall()
        return rows

    def _held_files(self) -> Mapping[str, str]:
        """The data files that the table has: their names there, by keys in the dataset or whole names."""
        base = self._url("")
        names = self._all(
            "SELECT data_file, delete_file FROM ducklake_list_files(?, ?, schema => ?)",
            [self._lake.lake, self._lake.name, self._lake.schema],
        )
        if any(deleted is not None for _, deleted in names):
            raise UsageError(
                f"rows of the DuckLake table {self._lake.table} were deleted, so it no longer matches the "
                "dataset; nothing was changed; drop the table, and register the dataset again"
            )
        return {name.removeprefix(base): name for name, _ in names}

    def _url(self, key: str) -> str:
        """How DuckDB names a file; raises UsageError for a name that it would take for a pattern."""
        place = self._place.location
        if found := _PATTERN.intersection(key):
            raise UsageError(
                f"DuckDB reads {min(found)!r} in the name {key!r} as a glob pattern; nothing was changed; "
                "publish without such names to register the dataset with DuckLake"
            )
        return f"{place.path}/{key}" if place.scheme in {"file", "local"} else reader_url(place, key)

    def _prepare(self, columns: Sequence[str], schema: Any) -> None:
        """Create the table, or check its columns and add those that are new."""
        if not self._is_there:
            if schema is None:
                raise UsageError(
                    f"{self._place.location.url} has no files, so a table would have no columns; register it "
                    "after the first file is published"
                )
            described = ", ".join(f"{_quoted(name)} {type_}" for name, type_ in self._types(schema).items())
            self._cursor.execute(f"CREATE TABLE {self._quoted} ({described})")
            if columns:
                by = ", ".join(map(_quoted, columns))
                self._cursor.execute(f"ALTER TABLE {self._quoted} SET PARTITIONED BY ({by})")
        elif schema is not None:
            self._widen(columns, schema)

    def _widen(self, columns: Sequence[str], schema: Any) -> None:
        known = {name: type_ for name, type_, *_ in self._all(f"DESCRIBE {self._quoted}")}
        if gone := [name for name in known if name not in schema.names and name in self._partitions()]:
            raise UsageError(
                f"the DuckLake table {self._lake.table} is partitioned by {gone[0]!r}, and the dataset by "
                f"{list(columns)}; nothing was changed; drop the table, and register the dataset again"
            )
        for name, type_ in self._types(schema).items():
            if name not in known:
                self._cursor.execute(f"ALTER TABLE {self._quoted} ADD COLUMN {_quoted(name)} {type_}")
            elif known[name] != type_ and name not in columns:
                raise UsageError(
                    f"the DuckLake table {self._lake.table} has column {name!r} as {known[name]}, but the "
                    f"new files have {type_}; nothing was changed; drop the table, and register the dataset "
                    "again"
                )

    def _partitions(self) -> set[str]:
        """The partition columns of the files that the table has."""
        return {name for key in self._held for name in partition_values(key)}

    def _types(self, schema: Any) -> dict[str, str]:
        """DuckDB's types for columns of Arrow."""
        described = self._cursor.from_arrow(schema.empty_table())
        return dict(zip(described.columns, map(str, described.types), strict=True))

    def _add(self, urls: Sequence[str]) -> None:
        self._cursor.execute(
            "CALL ducklake_add_data_files(?, ?, ?, schema => ?, hive_partitioning => true, allow_missing => "
            "true)",
            [self._lake.lake, self._lake.name, list(urls), self._lake.schema],
        )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
