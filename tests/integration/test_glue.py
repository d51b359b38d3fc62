"""Tables of Glue, on moto: their partitions lead to exactly what is published."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import botocore.session
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import magicfs
from magicfs.catalogs import Glue
from magicfs.catalogs.hive_names import NULL
from magicfs.cli.main import main
from magicfs.errors import UsageError
from magicfs.protocol import paths
from magicfs.testing.store_faults import Crash
from proofs.doubles.servers import Moto
from proofs.scenes.catalog_scene import CatalogScene, parquet
from tests.sample import Some

pytestmark = pytest.mark.sample(most=1)

DATABASE = "lake"
STATES = (
    (
        "append",
        {"p=a%20b%25 x+y/f 1 é#.parquet": parquet(1), "p=__HIVE_DEFAULT_PARTITION__/g.parquet": parquet(2)},
    ),
    ("append", {"p=a%20b%25 x+y/f 2.parquet": parquet(3, 4), "p=día/?&.parquet": parquet(5)}),
    ("overwrite_partitions", {"p=a%20b%25 x+y/f 1 é#.parquet": parquet(6)}),
    ("overwrite", {"p=+/f.parquet": parquet(7), "p=día/f.parquet": parquet(8)}),
)


class GlueScene(CatalogScene):
    """A dataset whose catalog is Glue's."""

    def __init__(self, url: str, directory: Path, client: Any, table: str, **how: Any) -> None:
        super().__init__(url, directory, **how)
        self.client = client
        self.name = table
        self.exact = True

    def catalog(self, kind: str = "glue") -> Any:
        return Glue(self.client, DATABASE, self.name, exact=self.exact)

    def table_of(self, kind: str = "glue") -> pa.Table:
        """As Athena reads it: what the lists name to which the partitions lead."""
        at = {"DatabaseName": DATABASE, "TableName": self.name}
        described = self.client.get_table(DatabaseName=DATABASE, Name=self.name)["Table"]
        keys = [one["Name"] for one in described["PartitionKeys"]]
        places = [((), described["StorageDescriptor"]["Location"])]
        if keys:
            pages = self.client.get_paginator("get_partitions").paginate(**at)
            found = [one for page in pages for one in page["Partitions"]]
            places = [(one["Values"], one["StorageDescriptor"]["Location"]) for one in found]
        filesystem = self.place.filesystem
        filesystem.invalidate_cache()
        tables = []
        for values, place in places:
            path = paths.parse_url(place).path
            files = [f"{path}/{name.rpartition('/')[2]}" for name in filesystem.ls(path, detail=False)]
            if self.exact:
                assert files == [f"{path}/manifest"]
                files = [
                    paths.parse_url(one).path for one in filesystem.cat_file(files[0]).decode().splitlines()
                ]
            for file in files:
                table = pq.read_table(io.BytesIO(filesystem.cat_file(file)), partitioning=None)
                for name, value in zip(keys, values, strict=True):
                    text = None if value == NULL else value
                    table = table.append_column(name, pa.array([text] * len(table), pa.string()))
                tables.append(table)
        return pa.concat_tables(tables, promote_options="default") if tables else pa.table({})

    def columns(self) -> dict[str, str]:
        described = self.client.get_table(DatabaseName=DATABASE, Name=self.name)["Table"]
        assert described["StorageDescriptor"]["SerdeInfo"]["SerializationLibrary"].endswith(
            "ParquetHiveSerDe"
        )
        columns = [*described["StorageDescriptor"]["Columns"], *described["PartitionKeys"]]
        return {one["Name"]: one["Type"] for one in columns}


@pytest.fixture(scope="module")
def client(moto: Moto) -> Iterator[Any]:
    made = botocore.session.get_session().create_client(
        "glue",
        region_name="us-east-1",
        endpoint_url=moto.endpoint,
        aws_access_key_id="key",
        aws_secret_access_key="secret",
    )
    made.create_database(DatabaseInput={"Name": DATABASE})
    yield made
    made.delete_database(Name=DATABASE)


@pytest.fixture
def scene(client: Any, tmp_path: Path, request: pytest.FixtureRequest) -> GlueScene:
    return scene_at(client, tmp_path, "sales")


def scene_at(client: Any, directory: Path, name: str) -> GlueScene:
    directory.mkdir(exist_ok=True)
    with_own_name = f"{name}_{abs(hash(str(directory)))}"
    return GlueScene(f"{directory}/día 50% + #1/{name}", directory, client, with_own_name)


def publish_state(scene: GlueScene, number: int) -> str:
    mode, files = STATES[number]
    return scene.publish(files, mode=mode, keep="1d" if number > 1 else None)


@pytest.mark.sample(most=2)
@pytest.mark.parametrize("before", [None, 0, 1, 2, 3])
def test_any_earlier_publication_is_brought_to_each_later_one(scene: GlueScene, before: int | None):
    jobs = []
    for number in range(len(STATES)):
        jobs.append(publish_state(scene, number))
        if before == number:
            assert scene.register("glue").changed
            assert scene.table_rows("glue") == scene.rows()
    report = scene.register("glue")
    assert report.changed == (before != 3)
    assert (report.job_id, report.files) == (jobs[3], 2)
    assert scene.table_rows("glue") == scene.rows()
    for to in (jobs[1], jobs[0], jobs[3], jobs[2]):
        scene.rollback(to)
        assert scene.register("glue").changed
        assert scene.table_rows("glue") == scene.rows()
        assert not scene.register("glue").changed
    assert scene.columns() == {"n": "bigint", "p": "string"}


def test_without_partitions_and_with_columns_that_come_later(scene: GlueScene):
    scene.publish({"f.parquet": parquet(1)})
    scene.register("glue")
    assert scene.table_rows("glue") == scene.rows()
    scene.publish({"f.parquet": parquet(2, Z=["x"])}, mode="append")
    scene.register("glue")
    assert scene.columns() == {"n": "bigint", "z": "string"}
    assert len(scene.table_rows("glue")) == 2
    scene.publish({"f.parquet": parquet(2, Z=[1.5])}, mode="overwrite", keep="1d", keep_in_place=True)
    before = scene.table_rows("glue")
    with pytest.raises(UsageError, match="'z' as string, but the new files have double; nothing was"):
        scene.register("glue")
    assert scene.table_rows("glue") == before


def test_directories_in_place_of_lists(scene: GlueScene):
    scene.exact = False
    publish_state(scene, 0)
    publish_state(scene, 1)
    scene.register("glue")
    assert scene.table_rows("glue") == scene.rows()
    scene.publish(STATES[3][1], mode="overwrite")
    report = scene.register("glue")
    assert (report.added, report.removed) == (1, 2)
    assert scene.table_rows("glue") == scene.rows()


def test_what_is_somebody_elses_is_refused(scene: GlueScene, client: Any, tmp_path: Path):
    publish_state(scene, 0)
    client.create_table(
        DatabaseName=DATABASE,
        TableInput={"Name": scene.name, "StorageDescriptor": {"Columns": [], "Location": "s3://else/where"}},
    )
    with pytest.raises(UsageError, match=r"magicfs did not register it.*--force"):
        scene.register("glue")
    client.delete_table(DatabaseName=DATABASE, Name=scene.name)
    scene.register("glue")
    other = GlueScene(f"{tmp_path}/other", tmp_path, client, scene.name)
    other.publish({"p=1/f.parquet": parquet(1)})
    with pytest.raises(UsageError, match=r"which is not part of file://.*/other; nothing was changed"):
        other.register("glue")
    other.register("glue", force=True)
    assert other.table_rows("glue") == other.rows()


def test_no_such_database(scene: GlueScene, client: Any):
    publish_state(scene, 0)
    with pytest.raises(UsageError, match="no database 'nowhere'"):
        magicfs.Dataset(scene.url).register(Glue(client, "nowhere", "sales"))


class Dying:
    """A client whose process dies before or after one of its requests that change something."""

    def __init__(self, client: Any, at: int | None) -> None:
        self._client = client
        self._at = at
        self.passed = 0

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._client, name)
        if not name.startswith(("create_", "update_", "batch_")):
            return real

        def watched(**given: Any) -> Any:
            self._moment()
            found = real(**given)
            self._moment()
            return found

        return watched

    def _moment(self) -> None:
        self.passed += 1
        if self.passed == self._at:
            raise Crash


@pytest.mark.sample(most=1)
@pytest.mark.parametrize("later", [None, 1, 3])
def test_a_call_that_dies_anywhere_is_repeated(client: Any, tmp_path: Path, later: int | None, some: Some):
    def die(at: int | None) -> int:
        scene = scene_at(client, tmp_path / f"{at}", f"sales{later}")
        publish_state(scene, 0)
        if later is not None:
            scene.register("glue")
            publish_state(scene, later)
        dying = Dying(client, at)
        with nullcontext() if at is None else pytest.raises(Crash):
            magicfs.Dataset(scene.url).register(Glue(dying, DATABASE, scene.name))
        scene.register("glue")
        assert scene.table_rows("glue") == scene.rows()
        assert not scene.register("glue").changed
        return dying.passed

    moments = die(None)
    assert moments > 3
    for at in some(range(1, moments + 1), 4):
        die(at)


@pytest.mark.nightly
def test_on_s3(moto: Any, bucket_factory: Callable[..., str], client: Any, tmp_path: Path):
    url = f"s3://{bucket_factory(moto)}/env=prod/día 50% + #1"
    scene = GlueScene(url, tmp_path, client, "on_s3", options=moto.storage_options())
    first = scene.publish({"p=a%20b%25 x+y/f 1 é#.parquet": parquet(1)})
    scene.register("glue")
    described = client.get_table(DatabaseName=DATABASE, Name="on_s3")["Table"]["StorageDescriptor"]
    assert described["Location"] == f"{url}/_symlink_format_manifest/"
    scene.publish({"p=+/f.parquet": parquet(2)}, mode="overwrite", keep="1d")
    for _ in range(2):
        scene.register("glue")
        assert scene.table_rows("glue") == scene.rows()
        scene.rollback(first)


def test_the_types_of_hive() -> None:
    from magicfs.catalogs.hive_types import hive_type

    types = {
        "array<struct<a:int,b:decimal(9,2)>>": pa.list_(
            pa.struct([("a", pa.int32()), ("b", pa.decimal128(9, 2))])
        ),
        "map<string,timestamp>": pa.map_(pa.string(), pa.timestamp("us")),
        "string": pa.dictionary(pa.int32(), pa.large_string()),
        "date": pa.date32(),
    }
    assert {hive_type(type_, "c") for type_ in types.values()} == types.keys()
    with pytest.raises(UsageError, match="no type for the column 'c' of uint64"):
        hive_type(pa.uint64(), "c")


def test_the_command(
    moto: Any,
    scene: GlueScene,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    publish_state(scene, 0)
    settings = {
        "AWS_ENDPOINT_URL_GLUE": moto.endpoint,
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    words = ["maintain", scene.url, "--register", "glue", "--table"]
    assert main([*words, f"{DATABASE}.{scene.name}"]) == 0
    assert f"glue {DATABASE}.{scene.name}" in capsys.readouterr().out
    assert scene.table_rows("glue") == scene.rows()
    assert main([*words, "sales"]) == 2
    assert "write it as db.sales" in capsys.readouterr().out
