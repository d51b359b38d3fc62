"""Tables of catalogs on a real server: the flights of the demo, and names that are hard to write."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest

import magicfs
from examples.flights import flights
from examples.flights.fingerprint import Fingerprint, fingerprint
from proofs.doubles.servers import Server
from proofs.scenes.arranged import arranged
from proofs.scenes.catalog_scene import CatalogScene, parquet

# tests/unit/catalogs asks the same in memory.
pytestmark = pytest.mark.nightly

KINDS = ("symlink", "delta", "iceberg")


@pytest.fixture
def scene(seaweedfs: Server, bucket_factory: Callable[..., str], tmp_path: Path) -> CatalogScene:
    return CatalogScene(
        f"s3://{bucket_factory(seaweedfs)}/env=prod/día 50% + #1",
        tmp_path,
        seaweedfs.storage_options(),
        {
            "s3.endpoint": seaweedfs.endpoint,
            "s3.access-key-id": seaweedfs.access_key,
            "s3.secret-access-key": seaweedfs.secret_key,
            "s3.region": seaweedfs.region,
        },
    )


def write(scene: CatalogScene, table: pa.Table, mode: str, **how: object) -> str:
    options = {"mode": mode, "storage_options": scene.options, **how}
    with magicfs.Job(scene.url, **arranged(**options)) as job, job.task(0) as task:  # type: ignore[arg-type]
        ds.write_dataset(
            table,
            task.path,
            filesystem=task.filesystem,
            format="parquet",
            partitioning=list(flights.PARTITIONS),
            partitioning_flavor="hive",
            basename_template="part-{i}.parquet",
            max_partitions=2000,
            existing_data_behavior="overwrite_or_ignore",
        )
    return job.id


def checksum(table: pa.Table) -> Fingerprint:
    """Of the rows, whatever type a reader gives to partition columns."""
    for name in flights.PARTITIONS:
        type_ = flights.FLIGHTS.arrow_types[name]
        table = table.set_column(table.column_names.index(name), name, table[name].cast(type_))
    return fingerprint(table.to_batches())


@pytest.mark.slow
@pytest.mark.parametrize("is_whole", [False, True])
def test_every_reader_finds_the_flights_before_and_after_a_replace_and_a_rollback(
    scene: CatalogScene, is_whole: bool
):
    table = flights.load(flights.FLIGHTS)
    if not is_whole:
        table = table.filter(pc.less_equal(table["month"], 2))
    january = pc.equal(table["month"], 1)
    late = table.filter(january).slice(0, 1000)
    first = write(scene, table, "append")
    expected = checksum(table)
    assert expected.rows == (336_776 if is_whole else 51_955)
    assert found(scene) == dict.fromkeys(KINDS, expected)

    write(scene, late, "overwrite_partitions", keep="1d")
    carriers = late["carrier"].unique()
    kept = pc.invert(pc.and_(january, pc.is_in(table["carrier"], carriers)))
    replaced = checksum(pa.concat_tables([table.filter(kept), late]))
    assert replaced != expected
    assert found(scene) == dict.fromkeys(KINDS, replaced)

    scene.rollback(first)
    assert found(scene) == dict.fromkeys(KINDS, expected)


def found(scene: CatalogScene) -> dict[str, Fingerprint]:
    for kind in KINDS:
        assert scene.register(kind).changed
        assert not scene.register(kind).changed
    return {kind: checksum(scene.table_of(kind)) for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS)
def test_names_that_are_hard_to_write(scene: CatalogScene, kind: str):
    files = {
        "p=a%20b%25 x+y/f 1 é#.parquet": parquet(1),
        "p=__HIVE_DEFAULT_PARTITION__/zażółć ☃&=.parquet": parquet(2),
        "p=+/50%.parquet": parquet(3),
    }
    first = scene.publish(files)
    assert scene.register(kind).added == 3
    assert scene.table_rows(kind) == scene.rows()
    scene.publish({"p=a%20b%25 x+y/f 1 é#.parquet": parquet(4)}, mode="overwrite", keep="1d")
    report = scene.register(kind)
    assert (report.added, report.removed) == (1, 3)
    assert scene.table_rows(kind) == scene.rows()
    scene.rollback(first)
    scene.register(kind)
    assert scene.table_rows(kind) == scene.rows()
    assert not scene.register(kind).changed
