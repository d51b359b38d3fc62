"""A dataset at one destination, and what the readers of each catalog find in its tables."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

import magicfs
from magicfs.catalogs import Delta, Iceberg, SymlinkManifest
from magicfs.catalogs.delta_place import options_of, uri_of
from magicfs.catalogs.hive_names import NULL
from magicfs.catalogs.register import RegisterReport
from magicfs.catalogs.symlinks import DIRECTORY
from magicfs.datasets.connection import open_destination
from magicfs.protocol import paths
from proofs.scenes.arranged import arranged

__all__ = ["CatalogScene", "parquet"]

FSSPEC = "pyiceberg.io.fsspec.FsspecFileIO"
"""The FileIO that reads every name."""


def parquet(*values: int, **columns: list[Any]) -> bytes:
    """A file of one column ``n``, and of others."""
    sink = io.BytesIO()
    pq.write_table(pa.table({"n": pa.array(values, pa.int64()), **columns}), sink)
    return sink.getvalue()


class CatalogScene:
    """A dataset, and a catalog of each kind.

    Args:
        url: The destination.
        directory: Where a catalog of Iceberg keeps its database and metadata.
        options: Storage options of the destination.
        iceberg: Properties of the catalog of Iceberg.
    """

    def __init__(
        self,
        url: str,
        directory: Path,
        options: Mapping[str, Any] | None = None,
        iceberg: Mapping[str, str] | None = None,
    ) -> None:
        self.url = url
        self.directory = directory
        self.options = dict(options or {})
        self.place = open_destination(url, self.options, None, for_reading=True)
        self.properties = {"py-io-impl": FSSPEC, **(iceberg or {})}

    # -- what is published -----------------------------------------------------------------------------

    def publish(self, files: Mapping[str, bytes], **how: Any) -> str:
        """Publish files by a job of their own; returns its id.

        What it keeps stays in place, where an older snapshot of a table looks for it.
        """
        if how.get("keep"):
            how = {"keep_in_place": True, **how}
        with (
            magicfs.Job(self.url, storage_options=self.options, **arranged(**how)) as job,
            job.task(0) as task,
        ):
            for name, body in files.items():
                task.filesystem.pipe_file(f"{task.path}/{name}", body)
        return job.id

    def rollback(self, to: str) -> str:
        """Publish an earlier state again, and keep the one that was."""
        dataset = magicfs.Dataset(self.url, storage_options=self.options)
        return dataset.rollback(to, keep="1d", keep_in_place=True).job_id

    def rows(self) -> list[str]:
        """What readers of manifests find."""
        found = magicfs.Dataset(self.url, storage_options=self.options).to_arrow()
        return _sorted(found.to_table(use_threads=False))

    def everything(self) -> dict[str, bytes]:
        """All files below the destination and the directory of the catalog."""
        filesystem = self.place.filesystem
        filesystem.invalidate_cache()
        there = {path: filesystem.cat_file(path) for path in filesystem.find(self.place.location.path)}
        here = {str(path): path.read_bytes() for path in self.directory.rglob("*") if path.is_file()}
        return there | here

    @cached_property
    def lake(self) -> Any:
        """A connection that has attached a lake: one for all, for no other may open its file."""
        import duckdb
        import duckdb_extension_ducklake

        [extension] = Path(duckdb_extension_ducklake.__file__).parent.rglob("*.duckdb_extension")
        connection = duckdb.connect()
        connection.execute(f"LOAD '{extension}'")
        database, data = f"{self.directory}/lake.ducklake", f"{self.directory}/lake"
        connection.execute(f"ATTACH 'ducklake:{database}' AS lake (DATA_PATH '{data}')")
        return connection

    # -- catalogs --------------------------------------------------------------------------------------

    def iceberg_catalog(self) -> Any:
        """The catalog of Iceberg, as of another process."""
        from pyiceberg.catalog.sql import SqlCatalog

        catalog = SqlCatalog(
            "default",
            uri=f"sqlite:///{self.directory}/catalog.db",
            warehouse=f"file://{self.directory}/warehouse",
            **self.properties,
        )
        catalog.create_namespace_if_not_exists("db")
        return catalog

    def catalog(self, kind: str) -> Any:
        """A catalog of one kind, as of another process."""
        if kind == "ducklake":
            from magicfs.catalogs import DuckLake

            return DuckLake(self.lake, "lake", "sales")
        if kind == "iceberg":
            return Iceberg(self.iceberg_catalog(), "db.sales")
        return Delta() if kind == "delta" else SymlinkManifest()

    def register(self, kind: str, **how: Any) -> RegisterReport:
        """``Dataset.register``."""
        return magicfs.Dataset(self.url, storage_options=self.options).register(self.catalog(kind), **how)

    def table_rows(self, kind: str) -> list[str]:
        """What a reader of a catalog finds, in the order of ``rows``."""
        return _sorted(self.table_of(kind))

    def table_of(self, kind: str) -> pa.Table:
        """What a reader of a catalog finds."""
        readers: Mapping[str, Callable[[], pa.Table]] = {
            "delta": self._delta,
            "ducklake": self._ducklake,
            "iceberg": self._iceberg,
            "symlink": self._symlink,
        }
        return readers[kind]()

    def _delta(self) -> pa.Table:
        from deltalake import DeltaTable

        table = DeltaTable(uri_of(self.place.location), storage_options=options_of(self.place))
        return table.to_pyarrow_table()

    def _ducklake(self) -> pa.Table:
        return self.lake.cursor().execute("SELECT * FROM lake.sales").to_arrow_table()

    def _iceberg(self) -> pa.Table:
        return self.iceberg_catalog().load_table("db.sales").scan().to_arrow()

    def _symlink(self) -> pa.Table:
        """As Hive reads them: the list of each partition, whose columns its directory names."""
        filesystem = self.place.filesystem
        filesystem.invalidate_cache()
        root = f"{self.place.location.path}/{DIRECTORY}"
        tables = []
        for manifest in filesystem.find(root):
            partition = manifest.removeprefix(f"{root}/").rpartition("/")[0]
            for line in filesystem.cat_file(manifest).decode().splitlines():
                body = filesystem.cat_file(paths.parse_url(line).path)
                tables.append(_in_partition(pq.read_table(io.BytesIO(body)), partition))
        return pa.concat_tables(tables, promote_options="default") if tables else pa.table({})


def _in_partition(table: pa.Table, partition: str) -> pa.Table:
    for element in filter(None, partition.split("/")):
        name, _, value = element.partition("=")
        values = [None if value == NULL else unquote(value)] * len(table)
        table = table.append_column(unquote(name), pa.array(values, pa.string()))
    return table


def _sorted(table: pa.Table) -> list[str]:
    """Rows as text, for types differ: of partitions one reader says numbers, another text."""
    rows = table.to_pylist()
    return sorted(
        str([(name, None if row[name] is None else str(row[name])) for name in sorted(row)]) for row in rows
    )
