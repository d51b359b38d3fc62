"""How fast ``magicfs.write`` is beside each engine's own writer, to the same store.

Each engine is measured in a process of its own, on this machine's files and on a server. Both writers take
turns, with the codec of ``magicfs.write``; the first turn of each is not counted, and of the others the
quickest counts: whatever else the machine does makes turns slower only.
"""

from __future__ import annotations

import gc
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import magicfs
from benchmarks import data
from benchmarks.clock import Clock
from benchmarks.figures import Sample
from benchmarks.place import Keys
from proofs.doubles.servers import Server

__all__ = ["examine", "main"]

WANTED: Final = 0.95
"""The rate of ``magicfs.write`` that is aimed at; an engine's own is 1."""
_ROWS: Final = 2_000_000
_ROUNDS: Final = 3
_SECONDS: Final = 900
_LOCAL_ONLY: Final = frozenset({"duckdb"})  # its client of S3 is an extension, which PyPI does not have
_DISTRIBUTIONS: Final = ("duckdb", "pandas", "polars", "pyarrow")


def examine(server: Server, bucket: str) -> dict[str, Any]:
    """Measure every engine; returns rates by store, engine and shape, and those that are too low.

    Raises AssertionError if a writer has not written every row.
    """
    keys = Keys(server.endpoint, server.access_key, server.secret_key, server.region, bucket)
    rates: dict[str, dict[str, Any]] = {"files": {}, "server": {}}
    with tempfile.TemporaryDirectory(prefix="magicfs-rates-") as directory:
        table = Path(directory) / "rows.arrow"
        data.save_rows(table, _ROWS)
        for engine in _WRITERS:
            rates["files"][engine] = _measured(engine, str(table), f"{directory}/{engine}", None)
            if engine not in _LOCAL_ONLY:
                rates["server"][engine] = _measured(engine, str(table), f"{bucket}/rates/{engine}", keys)
    below = [
        f"{store}, {engine}, {shape}"
        for store, engines in rates.items()
        for engine, shapes in engines.items()
        for shape, told in shapes.items()
        if told["rate_by_cpu"] < WANTED
    ]
    versions = {name: version(name) for name in _DISTRIBUTIONS}
    return {"versions": versions, "rows": _ROWS, "wanted": WANTED, "rates": rates, "below": below}


def _measured(engine: str, table: str, path: str, keys: Keys | None) -> Mapping[str, Any]:
    order = {"engine": engine, "table": table, "path": path, "keys": keys and keys.to_dict()}
    done = subprocess.run(
        [sys.executable, "-m", "proofs.engines.rates"],
        input=json.dumps(order),  # no argument, for errors show those
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=_SECONDS,
    )
    told: Mapping[str, Any] = json.loads(done.stdout.splitlines()[-1])
    for shape, one in told.items():
        sys.stderr.write(f"engines: rates: {path}: {shape}: {one}\n")
    return told


@dataclass(frozen=True, slots=True)
class _Target:
    """A directory of a store, in the words of each client."""

    path: str
    keys: Keys | None  # of a server; None for the files of this machine

    @property
    def url(self) -> str:
        return f"s3://{self.path}" if self.keys else self.path

    @property
    def options(self) -> dict[str, Any] | None:
        """Those of s3fs."""
        return self.keys.s3fs_options if self.keys else None

    @property
    def object_store(self) -> dict[str, str] | None:
        """Those of Polars."""
        return self.keys.object_store if self.keys else None

    def arrow(self) -> Any:
        """The filesystem that pyarrow has itself."""
        from pyarrow.fs import LocalFileSystem

        if self.keys is None:
            return LocalFileSystem()
        return self.keys.arrow(check_directory_existence_before_creation=False)

    def make(self) -> None:
        """Make the directory, where there are directories."""
        if self.keys is None:
            Path(self.path).mkdir(parents=True)

    def count(self) -> int:
        """The rows of the files in it."""
        import pyarrow.dataset as ds

        return int(ds.dataset(self.path, filesystem=self.arrow(), format="parquet").count_rows())

    def delete(self) -> None:
        """Delete the files of this machine, so that few are there at once."""
        if self.keys is None:
            shutil.rmtree(self.path)


# -- what each engine holds, and writes by itself ----------------------------------------------------------


def _pandas(frame: Any, target: _Target, columns: list[str]) -> None:
    frame.to_parquet(
        target.url if columns else f"{target.url}/part.parquet",
        partition_cols=columns or None,
        storage_options=target.options,
    )


def _pyarrow(table: Any, target: _Target, columns: list[str]) -> None:
    import pyarrow.dataset as ds

    ds.write_dataset(
        *(table, target.path),
        filesystem=target.arrow(),
        format="parquet",
        partitioning=data.partitioning() if columns else None,
    )


def _polars(frame: Any, target: _Target, columns: list[str]) -> None:
    frame.write_parquet(
        f"{target.url}/" if columns else f"{target.url}/part.parquet",
        partition_by=columns or None,
        storage_options=target.object_store,
        mkdir=True,
    )


def _polars_lazy(frame: Any, target: _Target, columns: list[str]) -> None:
    import polars as pl

    directory = f"{target.url}/"
    frame.sink_parquet(
        pl.PartitionBy(directory, key=columns, include_key=False) if columns else f"{directory}part.parquet",
        storage_options=target.object_store,
        mkdir=True,
    )


def _duckdb(relation: Any, target: _Target, columns: list[str]) -> None:
    options = f", PARTITION_BY ({', '.join(columns)})" if columns else ""
    path = target.path if columns else f"{target.path}/part.parquet"
    relation.query("given", f"COPY given TO '{path}' (FORMAT parquet, COMPRESSION snappy{options})")


def _held_by_polars(table: str) -> Any:
    import polars as pl

    return pl.from_arrow(data.rows(table))


def _held_by_duckdb(table: str) -> Any:
    import duckdb

    return duckdb.connect().from_arrow(data.rows(table))


_Hold = Callable[[str], Any]
_Write = Callable[[Any, _Target, list[str]], None]
_WRITERS: Final[Mapping[str, tuple[_Hold, _Write]]] = {
    "pandas": (lambda table: data.rows(table).to_pandas(), _pandas),
    "pyarrow": (data.rows, _pyarrow),
    "polars": (_held_by_polars, _polars),
    "polars lazy": (lambda table: _held_by_polars(table).lazy(), _polars_lazy),
    "duckdb": (_held_by_duckdb, _duckdb),
}


def _magicfs(held: Any, target: _Target, columns: list[str]) -> None:
    report = magicfs.write(held, target.url, partition_by=columns, storage_options=target.options)
    assert report.rows == _ROWS, report


# -- in a process of its own -------------------------------------------------------------------------------


def main(order: str) -> None:
    """Measure one engine; the last line of stdout is JSON, by shape."""
    told = json.loads(order)
    keys = Keys(**told["keys"]) if told["keys"] else None
    hold, own = _WRITERS[told["engine"]]
    held = hold(told["table"])
    figures = {}
    for shape, columns in (("whole", []), ("partitions", list(data.PARTITION_COLUMNS))):
        samples: dict[str, list[Sample]] = {"own": [], "magicfs": []}
        for turn in range(_ROUNDS + 1):
            for whose, write in (("own", own), ("magicfs", _magicfs)):
                target = _Target(f"{told['path']}-{shape}-{whose}-{turn}", keys)
                samples[whose].append(_sample(write, held, target, columns))
        figures[shape] = _figures(samples["own"][1:], samples["magicfs"][1:])
    print(json.dumps(figures))  # noqa: T201


def _sample(write: _Write, held: Any, target: _Target, columns: list[str]) -> Sample:
    clock = Clock()
    target.make()
    gc.collect()
    with clock():
        write(held, target, columns)
    assert target.count() == _ROWS, f"{target.url} has {target.count()} rows"
    target.delete()
    return clock.samples["whole"]


def _figures(own: list[Sample], ours: list[Sample]) -> dict[str, float]:
    own_s, ours_s = (min(one.wall_s for one in side) for side in (own, ours))
    own_cpu_s, ours_cpu_s = (min(one.cpu_s for one in side) for side in (own, ours))
    return {
        "rate": round(own_s / ours_s, 3),
        "rate_by_cpu": round(own_cpu_s / ours_cpu_s, 3),
        "own_s": round(own_s, 3),
        "magicfs_s": round(ours_s, 3),
        "own_cpu_s": round(own_cpu_s, 3),
        "magicfs_cpu_s": round(ours_cpu_s, 3),
    }


if __name__ == "__main__":
    main(sys.stdin.read())
