"""Tables in a metastore of Hive, a real one: their partitions lead to what is published."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import magicfs
from magicfs.catalogs import Hive, hive
from magicfs.catalogs.hive_names import NULL
from magicfs.cli.main import main
from magicfs.errors import UsageError
from magicfs.protocol import paths
from magicfs.testing.store_faults import Crash
from proofs.scenes.catalog_scene import CatalogScene, parquet
from proofs.scenes.hive_metastore import HiveMetastore
from proofs.scenes.java import skip_without_java
from tests.sample import Some

pytestmark = pytest.mark.nightly  # a JVM; tests/integration/test_glue.py asks the same of its twin

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


@pytest.fixture(scope="module")
def metastore(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HiveMetastore]:
    skip_without_java()
    from hive_metastore.ttypes import Database

    directory = tmp_path_factory.mktemp("metastore")
    with HiveMetastore(directory) as server:
        with hive._client(server.uri) as client:
            client.create_database(Database(DATABASE, "", f"file://{directory}/{DATABASE}", {}))
        yield server


class HiveScene(CatalogScene):
    """A dataset whose catalog is a metastore of Hive."""

    def __init__(self, url: str, directory: Path, uri: str, table: str, *, exact: bool) -> None:
        super().__init__(url, directory)
        self.hive = Hive(uri, DATABASE, table, exact=exact)

    def catalog(self, kind: str = "hive") -> Any:
        return self.hive

    def table_of(self, kind: str = "hive") -> pa.Table:
        """As Trino reads it, by the lists to which the partitions lead; or by the directories."""
        filesystem = self.place.filesystem
        filesystem.invalidate_cache()
        with hive._client(self.hive.uri) as client:
            described = client.get_table(DATABASE, self.hive.name)
            places = [((), described.sd.location)]
            if keys := [one.name for one in described.partitionKeys]:
                found = client.get_partitions(DATABASE, self.hive.name, -1)
                places = [(one.values, one.sd.location) for one in found]
        tables = []
        for values, place in places:
            path = paths.parse_url(hive._place(place)).path.rstrip("/")
            files = [f"{path}/{name.rpartition('/')[2]}" for name in filesystem.ls(path, detail=False)]
            files = [one for one in files if not one.rpartition("/")[2].startswith((".", "_"))]
            if self.hive.exact:
                assert files == [f"{path}/manifest"]
                lines = filesystem.cat_file(files[0]).decode().splitlines()
                files = [paths.parse_url(one).path for one in lines]
            for file in files:
                table = pq.read_table(io.BytesIO(filesystem.cat_file(file)), partitioning=None)
                for name, value in zip(keys, values, strict=True):
                    text = None if value == NULL else value
                    table = table.append_column(name, pa.array([text] * len(table), pa.string()))
                tables.append(table)
        return pa.concat_tables(tables, promote_options="default") if tables else pa.table({})

    def columns(self) -> dict[str, str]:
        with hive._client(self.hive.uri) as client:
            described = client.get_table(DATABASE, self.hive.name)
        return {one.name: one.type for one in [*described.sd.cols, *described.partitionKeys]}


def scene_at(metastore: HiveMetastore, directory: Path, *, exact: bool = True) -> HiveScene:
    directory.mkdir(exist_ok=True)
    name = f"sales_{abs(hash(str(directory)))}"
    return HiveScene(f"{directory}/día 50% + #1/sales", directory, metastore.uri, name, exact=exact)


def publish_state(scene: HiveScene, number: int) -> str:
    mode, files = STATES[number]
    keep = "1d" if number > 1 and scene.hive.exact else None
    return scene.publish(files, mode=mode, keep=keep)


@pytest.mark.sample(most=1)
@pytest.mark.parametrize("before", [None, 0, 2])
def test_any_earlier_publication_is_brought_to_each_later_one(
    metastore: HiveMetastore, tmp_path: Path, before: int | None
):
    scene = scene_at(metastore, tmp_path)
    jobs = []
    for number in range(len(STATES)):
        jobs.append(publish_state(scene, number))
        if before == number:
            assert scene.register("hive").changed
            assert scene.table_rows("hive") == scene.rows()
    report = scene.register("hive")
    assert (report.changed, report.job_id, report.files) == (True, jobs[3], 2)
    assert scene.table_rows("hive") == scene.rows()
    for to in (jobs[1], jobs[0], jobs[3]):
        scene.rollback(to)
        assert scene.register("hive").changed
        assert scene.table_rows("hive") == scene.rows()
        assert not scene.register("hive").changed
    assert scene.columns() == {"n": "bigint", "p": "string"}


def test_directories_and_columns_that_come_later(metastore: HiveMetastore, tmp_path: Path):
    scene = scene_at(metastore, tmp_path, exact=False)
    for number in range(len(STATES)):
        job = publish_state(scene, number)
        assert scene.register("hive").job_id == job
        assert scene.table_rows("hive") == scene.rows()
        assert not scene.register("hive").changed
    scene.publish({"p=x/f.parquet": parquet(9, Z=["x"])}, mode="append")
    scene.register("hive")
    assert scene.columns() == {"n": "bigint", "z": "string", "p": "string"}


def test_what_is_refused(metastore: HiveMetastore, tmp_path: Path):
    scene = scene_at(metastore, tmp_path)
    publish_state(scene, 0)
    with pytest.raises(UsageError, match="no database 'nowhere'"):
        magicfs.Dataset(scene.url).register(Hive(metastore.uri, "nowhere", "sales"))
    with pytest.raises(UsageError, match="write it as thrift://host:9083"):
        magicfs.Dataset(scene.url).register(Hive("localhost:9083", DATABASE, "sales"))
    scene.register("hive")
    other = HiveScene(f"{tmp_path}/other", tmp_path, metastore.uri, scene.hive.name, exact=True)
    other.publish({"p=1/f.parquet": parquet(1)})
    with pytest.raises(UsageError, match=r"which is not part of file://.*/other; nothing was changed"):
        other.register("hive")
    with hive._client(metastore.uri) as client:
        described = client.get_table(DATABASE, scene.hive.name)
        del described.parameters["magicfs.job-id"]
        client.alter_table(DATABASE, scene.hive.name, described)
    with pytest.raises(UsageError, match=r"magicfs did not register it.*--force"):
        scene.register("hive")
    other.register("hive", force=True)
    assert other.table_rows("hive") == other.rows()


class Dying:
    """A client whose process dies before or after one of its requests that change something."""

    def __init__(self, at: int | None) -> None:
        self.passed = 0
        self._at = at

    @contextmanager
    def connected(self, uri: str) -> Iterator[Any]:
        with REAL(uri) as client:
            self._client = client
            yield self

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._client, name)
        if not name.startswith(("create_", "alter_", "add_", "drop_")):
            return real

        def watched(*given: Any, **named: Any) -> Any:
            self._moment()
            found = real(*given, **named)
            self._moment()
            return found

        return watched

    def _moment(self) -> None:
        self.passed += 1
        if self.passed == self._at:
            raise Crash


REAL = hive._client


@pytest.mark.sample(most=1)
@pytest.mark.parametrize("later", [None, 3])
def test_a_call_that_dies_anywhere_is_repeated(
    metastore: HiveMetastore, tmp_path: Path, later: int | None, monkeypatch: pytest.MonkeyPatch, some: Some
):
    def die(at: int | None) -> int:
        scene = scene_at(metastore, tmp_path / f"{at}")
        publish_state(scene, 0)
        if later is not None:
            scene.register("hive")
            publish_state(scene, later)
        client = Dying(at)
        with monkeypatch.context() as patch:
            patch.setattr(hive, "_client", client.connected)
            with nullcontext() if at is None else pytest.raises(Crash):
                scene.register("hive")
        scene.register("hive")
        assert scene.table_rows("hive") == scene.rows()
        assert not scene.register("hive").changed
        return client.passed

    moments = die(None)
    assert moments > 3
    for at in some(range(1, moments + 1), 4):
        die(at)


def test_the_command_and_a_job_whose_driver_died(
    metastore: HiveMetastore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    scene = scene_at(metastore, tmp_path)
    publish_state(scene, 0)
    words = ["maintain", scene.url, "--register", "hive", "--table", scene.hive.table, "--exact"]
    assert main([*words, "--metastore", metastore.uri]) == 0
    assert f"hive {scene.hive.table}" in capsys.readouterr().out
    assert main(words) == 2
    assert "--metastore thrift://host:9083" in capsys.readouterr().err
    assert scene.table_rows("hive") == scene.rows()
    killed_before_it_registers(scene.url, f"Hive({metastore.uri!r}, {DATABASE!r}, {scene.hive.name!r}, True)")
    assert scene.table_rows("hive") != scene.rows()
    assert main(["recover", scene.url, "--json"]) == 1, "nobody has said that it is ours"
    assert scene.table_rows("hive") != scene.rows()
    capsys.readouterr()
    assert main(["recover", scene.url, "--metastore", metastore.uri, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [one["done"] for one in told["catalogs"]] == ["registered"]
    assert scene.table_rows("hive") == scene.rows()


def killed_before_it_registers(url: str, catalog: str) -> None:
    """A driver that publishes, and is killed by SIGKILL before it has its catalog show that."""
    program = (
        "import os, signal, magicfs\n"
        "from magicfs.catalogs import Hive\n"
        "import magicfs.catalogs.register\n"
        "import sys\n"
        "room = sys.modules['magicfs.catalogs.register']\n"
        "room.show = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"with magicfs.Job({url!r}, mode='append', catalogs=[{catalog}]) as job, job.task(0) as task:\n"
        f"    task.filesystem.pipe_file(task.path + '/p=late/f.parquet', {parquet(9)!r})\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=120, check=False)
    assert done.returncode == -9, done.stderr


SPARK = """
import json, sys
from pyspark.sql import SparkSession

uri, table = sys.argv[1:]
spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.ui.enabled", "false")
    .config("spark.hadoop.hive.metastore.uris", uri)
    .enableHiveSupport()
    .getOrCreate()
)
rows = spark.sql(f"SELECT n, p FROM {table}").collect()
print(json.dumps(sorted([row.n, row.p] for row in rows)))
"""


@pytest.mark.nightly
def test_spark_reads_what_the_directories_hold(metastore: HiveMetastore, tmp_path: Path):
    scene = scene_at(metastore, tmp_path, exact=False)
    scene.publish({"p=a b/f.parquet": parquet(1), "p=día/f.parquet": parquet(2)})
    scene.publish({"p=día/g.parquet": parquet(3)}, mode="overwrite_partitions")
    scene.publish({"p=+/g.parquet": parquet(4)}, mode="append")
    scene.register("hive")
    done = subprocess.run(
        [sys.executable, "-c", SPARK, metastore.uri, scene.hive.table],
        capture_output=True,
        timeout=300,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout.splitlines()[-1]) == [[1, "a b"], [3, "día"], [4, "+"]]
