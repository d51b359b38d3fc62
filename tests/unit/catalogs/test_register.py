"""A table of each catalog shows exactly what is published, from wherever it was before."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import magicfs
from magicfs.catalogs import Delta, SymlinkManifest
from magicfs.cli.main import main
from magicfs.errors import ObjectNotFound, UsageError
from magicfs.stores.memory.store import MemoryStore
from proofs.scenes.catalog_scene import CatalogScene, parquet
from proofs.scenes.job_scene import JobScene

KINDS = tuple(os.environ.get("MAGICFS_CATALOGS", "symlink,delta,iceberg").split(","))
"""Of DuckLake in an environment of its own: see tests/integration/test_ducklake.py."""
TABLES = tuple(kind for kind in KINDS if kind != "symlink")

STATES = (
    (
        "append",
        {"p=a%20b%25 x+y/f 1 é#.parquet": parquet(1), "p=__HIVE_DEFAULT_PARTITION__/g.parquet": parquet(2)},
    ),
    ("append", {"p=a%20b%25 x+y/f 2.parquet": parquet(3, 4), "p=día/&=.parquet": parquet(5)}),
    ("overwrite_partitions", {"p=a%20b%25 x+y/f 1 é#.parquet": parquet(6)}),
    ("overwrite", {"p=+/f.parquet": parquet(7), "p=día/f.parquet": parquet(8)}),
)


@pytest.fixture
def scene(tmp_path: Path) -> CatalogScene:
    (tmp_path / "catalog").mkdir()
    return CatalogScene(f"{tmp_path}/env=prod/día 50% + #1/sales", tmp_path / "catalog")


def publish_state(scene: CatalogScene, number: int) -> str:
    mode, files = STATES[number]
    return scene.publish(files, mode=mode, keep="1d" if number > 1 else None)


class Overtaken:
    """A catalog where others publish and register as soon as it was read, twice."""

    table = "db.sales"

    def __init__(self, scene: CatalogScene, kind: str) -> None:
        self.scene = scene
        self.kind = kind
        self.atomic = scene.catalog(kind).atomic
        self.opened = 0

    def options(self) -> None:
        return None

    def line(self, url: str) -> str:
        return url

    def open(self, place: Any) -> Any:
        found = self.scene.catalog(self.kind).open(place)
        self.opened += 1
        if self.opened <= 2:
            publish_state(self.scene, self.opened)
            self.scene.register(self.kind)
        return found


@pytest.mark.sample
@pytest.mark.parametrize("kind", KINDS)
class TestEveryKind:
    @pytest.mark.parametrize("before", [None, 0, 1, 2, 3])
    def test_any_earlier_publication_is_brought_to_each_later_one(
        self, scene: CatalogScene, kind: str, before: int | None
    ):
        jobs = []
        for number in range(len(STATES)):
            jobs.append(publish_state(scene, number))
            if before == number:
                assert scene.register(kind).changed
                assert scene.table_rows(kind) == scene.rows()
        report = scene.register(kind)
        assert report.changed == (before != 3)
        assert (report.job_id, report.files, report.catalog) == (jobs[3], 2, kind)
        assert scene.table_rows(kind) == scene.rows()
        for to in (jobs[1], jobs[0], jobs[3], jobs[2]):
            scene.rollback(to)
            report = scene.register(kind)
            assert report.changed
            assert scene.table_rows(kind) == scene.rows()

    def test_a_second_call_changes_nothing(self, scene: CatalogScene, kind: str):
        publish_state(scene, 0)
        assert scene.register(kind).added == 2
        before = scene.everything()
        again = scene.register(kind)
        assert (again.changed, again.added, again.removed, again.files) == (False, 0, 0, 2)
        assert scene.everything() == before

    def test_a_file_that_was_written_anew_under_its_name(self, scene: CatalogScene, kind: str):
        scene.publish({"f.parquet": parquet(1)}, unique_names=False)
        scene.register(kind)
        scene.publish({"f.parquet": parquet(2)}, unique_names=False, mode="overwrite")
        scene.register(kind)
        assert scene.table_rows(kind) == scene.rows() == ["[('n', '2')]"]
        assert not scene.register(kind).changed

    def test_a_rollback_to_what_is_there(self, scene: CatalogScene, kind: str):
        first = publish_state(scene, 0)
        scene.register(kind)
        second = scene.rollback(first)
        report = scene.register(kind)
        assert (report.job_id, report.changed) == (second, False)
        before = scene.everything()
        scene.register(kind)
        assert scene.everything() == before
        publish_state(scene, 1)
        scene.register(kind)
        assert scene.table_rows(kind) == scene.rows()

    def test_a_compaction_of_manifests_changes_nothing(self, scene: CatalogScene, kind: str):
        publish_state(scene, 0)
        publish_state(scene, 1)
        scene.register(kind)
        magicfs.Dataset(scene.url).compact()
        before = scene.everything()
        assert not scene.register(kind).changed
        assert scene.everything() == before
        publish_state(scene, 2)
        assert scene.register(kind).removed == 2
        assert scene.table_rows(kind) == scene.rows()

    def test_a_neighbour_whose_name_begins_alike(self, scene: CatalogScene, kind: str, tmp_path: Path):
        (tmp_path / "other").mkdir()
        other = CatalogScene(f"{scene.url}0", tmp_path / "other")
        publish_state(other, 0)
        publish_state(scene, 3)
        other.register(kind)
        before = other.everything()
        scene.register(kind)
        assert scene.table_rows(kind) == scene.rows()
        assert other.everything() == before

    def test_no_data_any_more(self, scene: CatalogScene, kind: str):
        publish_state(scene, 0)
        scene.register(kind)
        with magicfs.Job(scene.url, mode="overwrite", options={"allow_empty": True}):
            pass
        assert scene.register(kind).removed == 2
        assert scene.table_rows(kind) == []
        publish_state(scene, 1)
        scene.register(kind)
        assert scene.table_rows(kind) == scene.rows()

    def test_a_call_that_is_overtaken_does_not_take_the_table_back(self, scene: CatalogScene, kind: str):
        publish_state(scene, 0)

        catalog = Overtaken(scene, kind)
        magicfs.Dataset(scene.url).register(catalog)
        assert catalog.opened >= 3
        assert scene.table_rows(kind) == scene.rows()

    def test_nothing_was_published(self, scene: CatalogScene, kind: str):
        with pytest.raises(ObjectNotFound, match="no job was published"):
            scene.register(kind)

    def test_a_report_says_where_the_dataset_is(self, scene: CatalogScene, kind: str):
        with magicfs.Job(scene.url) as job, job.task(0) as task:
            task.filesystem.pipe_file(f"{task.path}/f.parquet", parquet(1))
        assert magicfs.Dataset(job.report.destination).register(scene.catalog(kind)).job_id == job.id
        assert scene.table_rows(kind) == scene.rows()

    def test_names_that_look_like_patterns(self, scene: CatalogScene, kind: str):
        scene.publish({"[a]*?x=1.parquet": parquet(1), "b.parquet": parquet(2)})
        if kind == "ducklake":
            with pytest.raises(UsageError, match="as a glob pattern"):
                scene.register(kind)
        else:
            scene.register(kind)
            assert scene.table_rows(kind) == scene.rows()

    def test_partitions_of_numbers_read_alike(self, scene: CatalogScene, kind: str):
        scene.publish({"year=2026/month=1/f.parquet": parquet(1), "year=2025/month=12/f.parquet": parquet(2)})
        scene.register(kind)
        assert scene.table_rows(kind) == scene.rows()


@pytest.mark.parametrize("kind", TABLES)
class TestTables:
    def test_a_new_column_is_added(self, scene: CatalogScene, kind: str):
        scene.publish({"f.parquet": parquet(1)})
        scene.register(kind)
        scene.publish({"f.parquet": parquet(2, z=["x"])}, mode="append")
        assert scene.register(kind).added == 1
        assert scene.table_rows(kind) == ["[('n', '1'), ('z', None)]", "[('n', '2'), ('z', 'x')]"]

    def test_a_column_of_another_type_is_refused(self, scene: CatalogScene, kind: str):
        scene.publish({"f.parquet": parquet(1, z=["x"])})
        scene.register(kind)
        scene.publish({"f.parquet": parquet(2, z=[1.5])}, mode="overwrite", keep="1d")
        before = scene.everything()
        with pytest.raises(UsageError, match="nothing was changed"):
            scene.register(kind)
        assert scene.everything() == before

    def test_files_that_disagree_on_a_column_are_refused(self, scene: CatalogScene, kind: str):
        scene.publish({"f.parquet": parquet(1, z=["x"]), "g.parquet": parquet(1, z=[1.5])})
        with pytest.raises(UsageError, match="different types for one column"):
            scene.register(kind)

    def test_what_is_no_parquet_is_refused(self, scene: CatalogScene, kind: str):
        scene.publish({"f.csv": b"n\n1\n"})
        scene.catalog(kind)
        before = scene.everything()
        with pytest.raises(UsageError, match="is not a Parquet file"):
            scene.register(kind)
        assert scene.everything() == before

    def test_partitions_by_other_columns_are_refused(self, scene: CatalogScene, kind: str):
        scene.publish({"p=1/f.parquet": parquet(1)})
        scene.register(kind)
        scene.publish({"q=1/f.parquet": parquet(1)}, mode="overwrite", keep="1d")
        before = scene.everything()
        with pytest.raises(UsageError, match="partitioned by"):
            scene.register(kind)
        assert scene.everything() == before
        scene.publish({"p=1/f.parquet": parquet(1)}, mode="append")
        with pytest.raises(UsageError, match="same partition columns"):
            scene.register(kind)

    def test_an_empty_dataset_makes_no_table(self, scene: CatalogScene, kind: str):
        with magicfs.Job(scene.url, mode="overwrite", options={"allow_empty": True}):
            pass
        with pytest.raises(UsageError, match="no files"):
            scene.register(kind)

    @pytest.mark.slow
    def test_what_others_did_to_the_table_is_told_and_can_be_undone(self, scene: CatalogScene, kind: str):
        publish_state(scene, 0)
        scene.register(kind)
        more = pa.table({"n": pa.array([99], pa.int64()), "p": ["z"]})
        if kind == "delta":
            from deltalake import write_deltalake

            write_deltalake(scene.url, more, mode="append")
        elif kind == "ducklake":
            scene.lake.cursor().execute("INSERT INTO lake.sales VALUES (99, 'z')")
        else:
            scene.iceberg_catalog().load_table("db.sales").append(more)
        before = scene.everything()
        for number in (None, 1):
            if number is not None:
                publish_state(scene, number)
                before = scene.everything()
            with pytest.raises(UsageError, match=r"1 files were added and 0 removed.*--force"):
                scene.register(kind)
            assert scene.everything() == before
        assert scene.register(kind, force=True).removed == 1
        assert scene.table_rows(kind) == scene.rows()
        assert not scene.register(kind).changed


class TestDelta:
    def test_jobs_go_on_publishing_at_a_table_that_magicfs_keeps(self, scene: CatalogScene):
        publish_state(scene, 0)
        scene.register("delta")
        for number in (1, 2, 3):
            publish_state(scene, number)
            scene.register("delta")
            assert scene.table_rows("delta") == scene.rows()
        Path(scene.url, "_delta_log/.magicfs").unlink()
        with pytest.raises(UsageError, match="is a table of Delta Lake"):
            publish_state(scene, 1)
        scene.register("delta", force=True)

    def test_a_lost_pointer_is_made_again_there(self, scene: CatalogScene):
        publish_state(scene, 0)
        scene.register("delta")
        Path(scene.url, "_magicfs/current.json").unlink()
        magicfs.Dataset(scene.url).adopt()
        publish_state(scene, 1)
        scene.register("delta")
        assert scene.table_rows("delta") == scene.rows()

    def test_a_job_above_is_still_told_of_the_dataset(self, scene: CatalogScene):
        publish_state(scene, 0)
        scene.register("delta")
        above = str(Path(scene.url).parent)
        with pytest.raises(UsageError, match="another dataset"):
            magicfs.Job(above, mode="overwrite").setup()

    def test_a_job_below_meets_the_dataset_as_such(self, scene: CatalogScene):
        publish_state(scene, 0)
        scene.register("delta")
        below = CatalogScene(f"{scene.url}/p=new", scene.directory)
        below.publish({"f.parquet": parquet(1)}, mode="overwrite")
        assert below.rows() == ["[('n', '1')]"]

    def test_what_deltalake_cannot_reach_is_refused(self):
        memory = JobScene("sales")
        memory.published({"f.parquet": parquet(1)})
        with pytest.raises(UsageError, match="deltalake does not support memory://"):
            magicfs.Dataset(memory.url, filesystem=memory.filesystem).register(Delta())

    def test_a_table_of_somebody_else_is_refused(self, scene: CatalogScene):
        from deltalake import write_deltalake

        publish_state(scene, 0)
        write_deltalake(scene.url, pa.table({"n": [1]}))
        with pytest.raises(UsageError, match="magicfs has registered none of them"):
            scene.register("delta")


class TestIceberg:
    def test_a_table_that_iceberg_rolled_back_is_brought_forward(self, scene: CatalogScene):
        publish_state(scene, 0)
        scene.register("iceberg")
        table = scene.iceberg_catalog().load_table("db.sales")
        first = table.current_snapshot().snapshot_id
        publish_state(scene, 1)
        scene.register("iceberg")
        scene.iceberg_catalog().load_table("db.sales").manage_snapshots().rollback_to_snapshot(first).commit()
        assert scene.table_rows("iceberg") != scene.rows()
        scene.register("iceberg")
        assert scene.table_rows("iceberg") == scene.rows()

    @pytest.mark.slow
    def test_an_older_snapshot_is_the_publication_of_then(self, scene: CatalogScene):
        jobs, rows = [], []
        for number in (0, 1, 2):
            jobs.append(publish_state(scene, number))
            rows.append(len(scene.rows()))
            scene.register("iceberg")
        table = scene.iceberg_catalog().load_table("db.sales")
        found = {one.summary["magicfs.job-id"]: one.snapshot_id for one in table.snapshots()}
        assert list(found) == jobs
        then = [len(table.scan(snapshot_id=found[job]).to_arrow()) for job in jobs]
        assert then == rows

    def test_names_that_the_file_io_of_pyarrow_cannot_read_are_refused(self, tmp_path: Path):
        (tmp_path / "catalog").mkdir()
        io = {"py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO"}
        scene = CatalogScene(f"{tmp_path}/sales", tmp_path / "catalog", iceberg=io)
        scene.publish({"a#1.parquet": parquet(1)})
        with pytest.raises(UsageError, match="FsspecFileIO"):
            scene.register("iceberg")
        scene.publish({"día 50% +.parquet": parquet(1)}, mode="overwrite")
        scene.register("iceberg")
        assert scene.table_rows("iceberg") == scene.rows()

    def test_a_table_without_the_partitions_is_refused(self, scene: CatalogScene):
        scene.iceberg_catalog().create_table("db.sales", pa.schema([("n", pa.int64()), ("p", pa.string())]))
        publish_state(scene, 0)
        with pytest.raises(UsageError, match="is not partitioned by 'p'"):
            scene.register("iceberg")

    def test_types_of_partitions_are_those_of_a_table_that_is_there(self, scene: CatalogScene):
        catalog = scene.iceberg_catalog()
        table = catalog.create_table("db.sales", pa.schema([("n", pa.int64()), ("p", pa.date32())]))
        with table.update_spec() as spec:
            spec.add_identity("p")
        scene.publish({"p=2026-01-31/f.parquet": parquet(1)})
        scene.register("iceberg")
        assert scene.table_rows("iceberg") == scene.rows() == ["[('n', '1'), ('p', '2026-01-31')]"]
        scene.publish({"p=never/f.parquet": parquet(1)}, mode="append")
        with pytest.raises(UsageError, match="'never' is not a valid date"):
            scene.register("iceberg")

    def test_no_namespace(self, scene: CatalogScene):
        publish_state(scene, 0)
        catalog = magicfs.catalogs.Iceberg(scene.iceberg_catalog(), "nowhere.sales")
        with pytest.raises(UsageError, match="create_namespace"):
            magicfs.Dataset(scene.url).register(catalog)


class TestSymlinks:
    def test_any_format_and_no_file_beside(self, tmp_path: Path):
        url = f"{tmp_path}/sales"
        scene = CatalogScene(url, tmp_path)
        scene.publish({"p=1/f.csv": b"n\n1\n", "_hidden": b"x"})
        magicfs.Dataset(url).register(SymlinkManifest())
        [manifest] = Path(url, "_symlink_format_manifest").rglob("*manifest*")
        [line] = manifest.read_text().splitlines()
        assert manifest.parent.name == "p=1"
        assert line.startswith(f"file://{url}/p=1/f-")

    def test_only_the_manifests_of_partitions_that_changed_are_written(self, monkeypatch: pytest.MonkeyPatch):
        memory = JobScene("env=prod/día 50% + #1")
        memory.published({f"p={number}/f.parquet": b"1" for number in range(40)})
        magicfs.Dataset(memory.url, filesystem=memory.filesystem).register(SymlinkManifest())
        memory.published({"p=7/f.parquet": b"2"}, mode="overwrite_partitions")

        before = memory.objects()
        get, turns = MemoryStore.get, itertools.cycle(range(50, 0, -1))

        async def first_answers_last(store: MemoryStore, key: str, **how: Any) -> bytes:
            for _ in range(next(turns)):
                await asyncio.sleep(0)
            return await get(store, key, **how)

        with monkeypatch.context() as late:
            late.setattr(MemoryStore, "get", first_answers_last)
            magicfs.Dataset(memory.url, filesystem=memory.filesystem).register(SymlinkManifest())
        written = [key for key, object_ in memory.objects().items() if object_ != before.get(key)]
        assert written == [f"{memory.destination}/_symlink_format_manifest/p=7/manifest"]

    def test_on_a_store_that_ignores_conditions(self):
        ignores = frozenset({"put_if_match", "delete", "bulk_delete"})
        memory = JobScene("env=prod/día 50% + #1", ignores=ignores)
        memory.published({"p=1/f.parquet": b"1", "p=2/f.parquet": b"2"})
        magicfs.Dataset(memory.url, filesystem=memory.filesystem).register(SymlinkManifest())
        memory.published({"p=1/f.parquet": b"3"}, mode="overwrite")
        magicfs.Dataset(memory.url, filesystem=memory.filesystem).register(SymlinkManifest())
        [only] = memory.below("_symlink_format_manifest")
        [line] = memory.objects()[f"{memory.destination}/{only}"][0].decode().splitlines()
        assert {line.removeprefix(f"{memory.url}/")} == memory.manifest_files()


class TestCommand:
    @pytest.mark.parametrize("kind", ["symlink", "delta"])
    def test_it_registers_and_tells(self, scene: CatalogScene, kind: str, capsys: pytest.CaptureFixture[str]):
        job = publish_state(scene, 0)
        words = ["maintain", scene.url, "--only", "register", "--register", kind]
        assert main([*words, "--dry-run"]) == 1
        assert f"would let {kind} show the dataset" in capsys.readouterr().out
        assert main([*words, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["register"] == {
            "url": f"file://{scene.url}",
            "catalog": kind,
            "table": "",
            "job_id": job,
            "changed": True,
            "added": 2,
            "removed": 0,
            "files": 2,
        }
        assert main(words) == 0
        assert "nothing to do" in capsys.readouterr().out

    @pytest.mark.process
    def test_iceberg_by_the_name_of_a_catalog(self, scene: CatalogScene):
        publish_state(scene, 0)
        scene.iceberg_catalog()  # whose namespace the command does not create
        properties = {
            "URI": f"sqlite:///{scene.directory}/catalog.db",
            "TYPE": "sql",
            "PY_IO_IMPL": scene.properties["py-io-impl"],
            "WAREHOUSE": f"file://{scene.directory}/warehouse",
        }
        named = {f"PYICEBERG_CATALOG__DEFAULT__{name}": value for name, value in properties.items()}

        def command(*more: str) -> subprocess.CompletedProcess[str]:
            line = [
                sys.executable,
                "-m",
                "magicfs.cli",
                "maintain",
                scene.url,
                "--register",
                "iceberg",
                *more,
            ]
            return subprocess.run(
                line, env={**os.environ, **named}, capture_output=True, text=True, check=False
            )

        assert command("--table", "db.sales").returncode == 0
        assert scene.table_rows("iceberg") == scene.rows()
        without, unknown = command(), command("--table", "db.sales", "--catalog-name", "other")
        assert (without.returncode, unknown.returncode) == (2, 2)
        assert "--table" in without.stderr
        assert "no catalog 'other'" in unknown.stdout

    def test_a_table_where_there_is_none(self, scene: CatalogScene, capsys: pytest.CaptureFixture[str]):
        assert main(["maintain", scene.url, "--register", "delta", "--table", "db.sales"]) == 2
        assert "--table is for iceberg, glue and hive" in capsys.readouterr().err
