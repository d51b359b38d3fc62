"""The flights of the demo as a table of DuckLake. Run by ``test_ducklake.py``, where its extension is."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import magicfs
from examples.flights import flights
from examples.flights.fingerprint import Fingerprint, fingerprint
from magicfs.catalogs import DuckLake
from magicfs.testing.store_faults import Crash
from proofs.scenes.catalog_scene import CatalogScene, parquet


def checksum(table: pa.Table) -> Fingerprint:
    return fingerprint(table.to_batches())


def test_ducklake_finds_the_flights_before_and_after_a_replace_and_a_rollback(tmp_path: Path):
    (tmp_path / "lake").mkdir()
    scene = CatalogScene(f"{tmp_path}/env=prod/día 50% + #1/flights", tmp_path / "lake")
    table = flights.load(flights.FLIGHTS)
    january = pc.equal(table["month"], 1)
    late = table.filter(january).slice(0, 1000)
    how = {"partition_by": list(flights.PARTITIONS)}
    first = magicfs.write(table, scene.url, mode="append", **how)
    assert scene.register("ducklake").added == first.files
    assert checksum(scene.table_of("ducklake")) == checksum(table)
    assert table.num_rows == 336_776

    magicfs.write(late, scene.url, mode="overwrite_partitions", keep="1d", **how)
    kept = pc.invert(pc.and_(january, pc.is_in(table["carrier"], late["carrier"].unique())))
    replaced = checksum(pa.concat_tables([table.filter(kept), late]))
    assert scene.register("ducklake").changed
    assert checksum(scene.table_of("ducklake")) == replaced != checksum(table)

    scene.rollback(first.job_id)
    assert scene.register("ducklake").changed
    assert checksum(scene.table_of("ducklake")) == checksum(table)
    assert not scene.register("ducklake").changed


class Dying:
    """A connection whose process dies before or after one of its statements."""

    def __init__(self, connection: Any, at: int) -> None:
        self.connection = connection
        self.at = at
        self.passed = 0

    def cursor(self) -> Any:
        real, dying = self.connection.cursor(), self

        class Cursor:
            def execute(self, *args: Any) -> Any:
                dying.moment()
                found = real.execute(*args)
                dying.moment()
                return found

            def __getattr__(self, name: str) -> Any:
                return getattr(real, name)

        return Cursor()

    def moment(self) -> None:
        self.passed += 1
        if self.passed == self.at:
            raise Crash


@pytest.mark.parametrize("mode", [None, "append", "overwrite"])
def test_a_ducklake_call_that_dies_anywhere_is_repeated(tmp_path: Path, mode: str | None):
    at, died = 0, True
    while died:
        at += 1
        (tmp_path / f"{at}").mkdir()
        scene = CatalogScene(f"{tmp_path}/{at}/día 50% + #1/sales", tmp_path / f"{at}")
        scene.publish({"p=a b/f 1.parquet": parquet(1), "p=día #%/f'.parquet": parquet(2)})
        before = None
        if mode is not None:
            scene.register("ducklake")
            before = scene.table_rows("ducklake")
            keep = {"keep": "1d"} if mode == "overwrite" else {}
            scene.publish({"p=+/g.parquet": parquet(3)}, mode=mode, **keep)
        died = False
        try:
            magicfs.Dataset(scene.url).register(DuckLake(Dying(scene.lake, at), "lake", "sales"))
        except Crash:
            died = True
            gc.collect()  # what the process had open ends with it
        if before is not None:
            assert scene.table_rows("ducklake") in (before, scene.rows())
        scene.register("ducklake")
        assert scene.table_rows("ducklake") == scene.rows()
        assert not scene.register("ducklake").changed
    assert at > 10
