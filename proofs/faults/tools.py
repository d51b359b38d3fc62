"""The writers that are compared. A new one is a row here and a function in ``proofs.faults.sides``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from typing import Any

__all__ = ["TOOLS", "Tool"]


@dataclass(frozen=True)
class Tool:
    """One writer."""

    name: str  # what the table calls it
    side: str  # ``module:function``, called with a place and rows
    packages: tuple[str, ...]  # whose versions are told, the first one the writer's own
    requirements: tuple[str, ...] = ()  # of an environment of its own; none for that of this run
    ours: bool = False
    takes_source: bool = True
    """Whether it draws the rows itself, so that their source can fail while it writes."""
    log: str | None = None  # what reads by the writer's own log: ``module:function``, called with a place

    def write(self) -> Callable[[Any, Any], None]:
        """The function that writes."""
        found: Callable[[Any, Any], None] = _named(self.side)
        return found

    def read(self, place: Any) -> list[int]:
        """The ids of all rows, as readers of its log see them."""
        assert self.log is not None
        ids: list[int] = _named(self.log)(place)
        return ids

    def versions(self) -> dict[str, str]:
        """What is installed; called where the writer runs."""
        return {one: version(one) for one in self.packages}


def _named(where: str) -> Any:
    module, _, function = where.partition(":")
    return getattr(import_module(f"proofs.faults.sides.{module}"), function)


_ARROW = "pyarrow>=22"

TOOLS = (
    Tool("magicfs: Job, fsspec file", "ours:fsspec_file", ("magicfs", "s3fs"), ours=True),
    Tool("magicfs: pyarrow write_dataset", "ours:write_dataset", ("magicfs", "pyarrow"), ours=True),
    Tool("magicfs: pandas to_parquet", "ours:pandas_to_parquet", ("magicfs", "pandas"), ours=True),
    Tool("magicfs: Polars write_parquet", "ours:polars_write_parquet", ("magicfs", "polars"), ours=True),
    Tool("magicfs: DuckDB COPY", "ours:duckdb_copy", ("magicfs", "duckdb"), ours=True),
    Tool("magicfs.write", "ours:write", ("magicfs", "pyarrow"), ours=True),
    Tool("magicfs.dask.to_parquet", "ours:dask", ("magicfs", "dask"), ours=True),
    Tool("magicfs.ray.write_parquet", "ours:ray", ("magicfs", "ray"), ours=True),
    Tool(
        "magicfs.daft.write_parquet",
        "ours:daft",
        ("magicfs", "daft"),
        ours=True,
        takes_source=False,
    ),
    Tool("s3fs: remove, then write", "peers:s3fs_files", ("s3fs",)),
    Tool("s3fs: the same in fs.transaction", "peers:s3fs_transaction", ("s3fs",)),
    Tool("pyarrow write_dataset, s3fs", "peers:pyarrow_s3fs", ("pyarrow", "s3fs")),
    Tool("pyarrow write_dataset, own S3", "peers:pyarrow_native", ("pyarrow",)),
    Tool("Polars sink_parquet", "peers:polars", ("polars",)),
    Tool(
        "awswrangler overwrite_partitions",
        "peers:awswrangler",
        ("awswrangler",),
        ("awswrangler>=3.17",),
        takes_source=False,
    ),
    Tool("Dask to_parquet", "peers:dask", ("dask",), ("dask[dataframe]>=2026.8", "s3fs", _ARROW)),
    Tool(
        "deltalake overwrite",
        "peers:deltalake",
        ("deltalake",),
        ("deltalake>=1.6", _ARROW),
        log="peers:deltalake_ids",
    ),
    Tool(
        "DuckDB COPY",
        "peers:duckdb",
        ("duckdb",),
        ("duckdb==1.5.5", "duckdb-extensions", "duckdb-extension-httpfs==1.5.5", _ARROW),
    ),
    Tool("Daft write_parquet", "peers:daft", ("daft",), ("daft>=0.7.26", _ARROW), takes_source=False),
    Tool("Ray Data write_parquet", "peers:ray", ("ray",), ("ray[data]>=2.50", "s3fs", _ARROW)),
)
