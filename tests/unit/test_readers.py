"""Readers of manifests: the published files, whatever else lies there."""

from __future__ import annotations

import io
import json
import pickle
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from fsspec.asyn import sync

import magicfs
from magicfs.cli import main as cli
from magicfs.errors import CommitDenied, FormatError, ObjectNotFound, UsageError
from magicfs.filesystem import MagicFileSystem
from magicfs.formats.manifest import Manifest, ManifestFile
from magicfs.manifests import chain
from magicfs.protocol.readback import WRITE_ID
from magicfs.report import VerifyReport
from magicfs.stores.conditions import Conditions
from magicfs.stores.memory.filesystem import MemoryFileSystem
from magicfs.stores.memory.store import MemoryStore, default_world
from magicfs.testing.strategies import HOSTILE_KEYS
from proofs.scenes.manifests import published_manifest

DEST = "env=prod/día 50%"
READS = (
    magicfs.Dataset.files,
    magicfs.Dataset.to_arrow,
    magicfs.Dataset.verify,
    magicfs.Dataset.adopt,
)
NUMBERED = Conditions(put_if_match=False, delete=False, bulk_delete=False)
VISIBLE_KEYS = [
    key for key in HOSTILE_KEYS if not any(part.startswith(("_", ".")) for part in key.split("/"))
]


def parquet(*values: int) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"n": pa.array(values, pa.int64())}), sink)
    return sink.getvalue()


class Scene:
    """A destination in memory, to which jobs are published by their manifests alone."""

    def __init__(self, destination: str = DEST, conditions: Conditions | None = None) -> None:
        self.bucket = f"r-{uuid4().hex[:12]}"
        default_world().create_bucket(self.bucket)
        self.store = MemoryStore(self.bucket)
        self.destination = destination
        self.conditions = conditions or Conditions()
        self.url = f"memory://{self.bucket}/{destination}".rstrip("/")
        self.loop = MemoryFileSystem().loop

    def run(self, work: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return sync(self.loop, work, *args, **kwargs)

    def key(self, key: str) -> str:
        return f"{self.destination}/{key}" if self.destination else key

    def put(self, key: str, body: bytes = b"x", **metadata: str) -> Any:
        return self.run(self.store.put, self.key(key), body, metadata=metadata)

    def delete(self, key: str) -> None:
        self.run(self.store.delete, [self.key(key)])

    def keys(self) -> list[str]:
        async def listed() -> list[str]:
            return [info.key async for info in self.store.list("")]

        return self.run(listed)

    def publish(self, job: str, *keys: str, body: bytes = b"x", **changes: Any) -> Manifest:
        files = []
        for key in keys:
            write_id = f"{job} {len(files)}"
            info = self.put(key, body, **{WRITE_ID: write_id})
            files.append(ManifestFile(key=key, size=info.size, etag=info.etag, write_id=write_id))
        manifest = Manifest(
            job_id=job,
            bucket=self.bucket,
            destination=self.destination,
            mode="append",
            committed_ms=1,
            files=tuple(files),
        )
        manifest = replace(manifest, **changes)
        self.run(chain.publish, self.store, self.conditions, self.destination, manifest)
        return manifest


@pytest.fixture(params=["if-match", "numbered"])
def scene(request: pytest.FixtureRequest) -> Iterator[Scene]:
    made = Scene(conditions=NUMBERED if request.param == "numbered" else None)
    yield made
    default_world().delete_bucket(made.bucket)


@pytest.fixture
def root() -> Iterator[Scene]:
    """A destination that is a whole bucket."""
    made = Scene("")
    yield made
    default_world().delete_bucket(made.bucket)


def values(dataset: ds.Dataset) -> list[int]:
    return sorted(dataset.to_table(columns=["n"], use_threads=False)["n"].to_pylist())


class TestReadManifest:
    def test_the_last_one_or_one_by_its_id(self, scene: Scene):
        first = scene.publish("a", "a.parquet", run_id="monday")
        second = scene.publish("b", "b.parquet")
        assert published_manifest(scene.url) == replace(second, previous="a")
        assert published_manifest(scene.url, "a") == first
        assert published_manifest(scene.url, job="a", filesystem=MemoryFileSystem()) == first

    def test_no_such_job(self, scene: Scene):
        scene.publish("a")
        with pytest.raises(ObjectNotFound, match="no job or run b was published"):
            published_manifest(scene.url, "b")
        with pytest.raises(UsageError, match="id"):
            published_manifest(scene.url, "../a")

    def test_nothing_was_published(self, scene: Scene):
        with pytest.raises(FileNotFoundError, match="no job was published"):
            published_manifest(scene.url)

    def test_a_manifest_of_the_future(self, scene: Scene):
        manifest = scene.publish("a")
        key = chain.manifest_key(scene.destination, "a")
        raw = manifest.to_bytes().replace(b"magicfs.manifest/1", b"magicfs.manifest/4")
        scene.run(scene.store.put, key, raw)
        for read in READS:
            with pytest.raises(FormatError, match="use a newer magicfs"):
                read(magicfs.Dataset(scene.url))

    @pytest.mark.parametrize("read", READS)
    def test_arguments(self, read: Any):
        with pytest.raises(UsageError, match="not both"):
            magicfs.Dataset("memory://b/d", storage_options={"x": 1}, filesystem=MemoryFileSystem())
        with pytest.raises(UsageError, match="already a magic filesystem"):
            read(magicfs.Dataset("memory://b/d", filesystem=MagicFileSystem(MemoryFileSystem())))
        with pytest.raises(UsageError, match="has no store for ftp://"):
            read(magicfs.Dataset("ftp://b/d"))
        with pytest.raises(UsageError):
            read(magicfs.Dataset("b/d"))


class TestDataset:
    def test_all_published_files_and_no_others(self, scene: Scene):
        scene.publish("a", "p=1/a.parquet", body=parquet(1))
        scene.publish("b", "p=1/b.parquet", "p=2/b.parquet", body=parquet(2, 3))
        scene.put("p=2/stray.parquet", parquet(99))
        scene.put("p=3/not-parquet", b"no")
        found = magicfs.Dataset(scene.url).to_arrow()
        assert values(found) == [1, 2, 2, 3, 3]
        assert found.schema.names == ["n", "p"]
        assert found.schema.field("p").type == pa.int32(), "the destination's own env=prod is no partition"
        assert values(found.filter(ds.field("p") == 2)) == [2, 3]
        prefix = f"{scene.bucket}/{scene.destination}"
        assert found.files == [
            f"{prefix}/p=1/a.parquet",
            f"{prefix}/p=1/b.parquet",
            f"{prefix}/p=2/b.parquet",
        ]

    def test_last(self, scene: Scene):
        scene.publish("a", "a.parquet", body=parquet(1))
        scene.publish("b", "b.parquet", body=parquet(2))
        assert values(magicfs.Dataset(scene.url).to_arrow(last=True)) == [2]

    def test_replaced_files_are_gone_at_once_though_they_are_still_there(self, scene: Scene):
        scene.publish("a", "a.parquet", body=parquet(1))
        scene.publish("late", "late.parquet", body=parquet(7))
        scene.publish("b", "b.parquet", body=parquet(2), mode="overwrite", hides="all", replaced="a")
        assert values(magicfs.Dataset(scene.url).to_arrow()) == [2, 7]

    def test_hidden_names_are_published_and_no_data(self, scene: Scene):
        scene.publish("a", "_metadata", body=b"PAR1")
        scene.publish("b", "p=1/.crc", "p=1/b.parquet", body=parquet(2))
        assert values(magicfs.Dataset(scene.url).to_arrow()) == [2]

    def test_a_column_whose_name_begins_with_an_underscore_is_data(self, scene: Scene):
        """As Spark reads it: ``_day=1`` is a partition, ``_tmp`` is nobody's data."""
        scene.publish("a", "_day=1/a.parquet", body=parquet(1))
        assert values(magicfs.Dataset(scene.url).to_arrow()) == [1]
        scene.put("_day=2/b.parquet", parquet(2))
        scene.put("_tmp/c.parquet", parquet(3))
        assert magicfs.Dataset(scene.url).verify().foreign == ("_day=2/b.parquet",)
        assert magicfs.Dataset(scene.url).adopt().adopted == ("_day=2/b.parquet",)
        assert sorted(values(magicfs.Dataset(scene.url).to_arrow())) == [1, 2]

    def test_other_formats_and_partitionings(self, scene: Scene):
        scene.publish("a", "2026/x.csv", body=b"n\n1\n")
        found = magicfs.Dataset(scene.url).to_arrow(
            format="csv", partitioning=ds.partitioning(field_names=["year"])
        )
        assert found.to_table(use_threads=False).to_pylist() == [{"n": 1, "year": 2026}]
        flat = magicfs.Dataset(scene.url).to_arrow(format="csv", partitioning=None)
        assert flat.schema.names == ["n"]

    def test_without_files_a_schema_is_needed(self, scene: Scene):
        scene.publish("a", "a.parquet", body=parquet(1))
        scene.publish("b", mode="overwrite", hides="all", replaced="a")
        with pytest.raises(UsageError, match=r"to_arrow\(schema=…\) reads it as empty"):
            magicfs.Dataset(scene.url).to_arrow()
        empty = magicfs.Dataset(scene.url).to_arrow(schema=pa.schema({"n": pa.int64()}))
        assert values(empty) == []
        assert empty.schema.names == ["n"]

    def test_a_schema_is_taken(self, scene: Scene):
        scene.publish("a", "a.parquet", body=parquet(1))
        schema = pa.schema({"n": pa.int64(), "new": pa.string()})
        assert magicfs.Dataset(scene.url).to_arrow(schema=schema).to_table(use_threads=False).to_pylist() == [
            {"n": 1, "new": None}
        ]

    def test_a_whole_bucket(self, root: Scene):
        root.publish("a", "p=1/a.parquet", body=parquet(1))
        assert values(magicfs.Dataset(root.url).to_arrow()) == [1]
        assert magicfs.Dataset(root.url).verify().ok

    def test_files_from_before_the_first_job_are_an_error_until_they_are_adopted(self, scene: Scene):
        scene.put("old.parquet", parquet(5))
        with pytest.raises(UsageError, match=r"call magicfs\.Dataset\(.*\)\.adopt\(\)"):
            magicfs.Dataset(scene.url).to_arrow()
        scene.publish("a", "a.parquet", body=parquet(1), older_files=True)
        with pytest.raises(UsageError, match=r"call magicfs\.Dataset\(.*\)\.adopt\(\)"):
            magicfs.Dataset(scene.url).to_arrow()
        assert values(magicfs.Dataset(scene.url).to_arrow(last=True)) == [1]
        magicfs.Dataset(scene.url).adopt()
        scene.publish("b", "b.parquet", body=parquet(2))
        assert values(magicfs.Dataset(scene.url).to_arrow()) == [1, 2, 5]

    def test_a_file_that_was_deleted_since_is_not_found(self, scene: Scene):
        scene.publish("a", "a.parquet", "b.parquet", body=parquet(1))
        found = magicfs.Dataset(scene.url).to_arrow()
        scene.delete("b.parquet")
        with pytest.raises(FileNotFoundError):
            found.to_table(use_threads=False)

    def test_hostile_names(self, scene: Scene):
        keys = [f"{key}.parquet" for key in VISIBLE_KEYS if len(key) < 300]
        scene.publish("a", *keys, body=parquet(1))
        found = magicfs.Dataset(scene.url).to_arrow(partitioning=None)
        assert {path.removeprefix(f"{scene.bucket}/{DEST}/") for path in found.files} == set(keys)
        assert values(found) == [1] * len(keys)

    def test_a_dataset_pickles(self, scene: Scene):
        scene.publish("a", "a.parquet", body=parquet(1))
        assert values(pickle.loads(pickle.dumps(magicfs.Dataset(scene.url).to_arrow()))) == [1]


def test_the_lines_of_the_page_run(scene: Scene) -> None:
    page = (Path(__file__).parents[2] / "docs" / "manifests.md").read_text()
    code, checksums, _ = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    scene.publish("a", "a.parquet", body=parquet(1))
    exec(code.replace("s3://bucket/sales", scene.url), {})
    exec(checksums.replace("memory://bucket/checked", f"memory://{uuid4().hex}/checked"), {})


class TestVerify:
    def test_as_published(self, scene: Scene):
        scene.publish("a", "p=1/a", "_metadata", body=b"12345")
        scene.publish("b", "p=2/b", body=b"1")
        scene.put("_SUCCESS", b"{}")
        scene.put("__magic_job-x/job-x/00/tasks/t/__base/a", b"")
        report = magicfs.Dataset(scene.url).verify()
        assert report == VerifyReport(scene.url, "b", 3, 11)
        assert report.ok

    def test_whatever_is_wrong_is_named(self, scene: Scene):
        scene.publish("a", *"abcdefg", body=b"12345")
        scene.delete("b")
        scene.put("c", b"123456", **{WRITE_ID: "a 2"})
        scene.put("d", b"54321")
        scene.put("e", b"54321", **{WRITE_ID: "another's"})
        scene.put("f", b"54321", **{WRITE_ID: "a 5"})
        scene.put("x=1/stray 50%", b"x")
        scene.put(".hidden", b"x")
        report = magicfs.Dataset(scene.url).verify()
        assert (report.missing, report.altered, report.foreign) == (
            ("b",),
            ("c", "d", "e"),
            ("x=1/stray 50%",),
        )
        assert (report.files, report.bytes, report.ok) == (7, 35, False)
        assert json.dumps(report.to_dict())

    def test_the_same_content_written_by_another_is_the_same(self, scene: Scene):
        scene.publish("a", "a", body=b"1")
        scene.put("a", b"1")
        assert magicfs.Dataset(scene.url).verify().ok

    def test_without_write_ids_only_etags_tell(self, scene: Scene):
        info = scene.put("a", b"1")
        unseen = ManifestFile(key="b", size=1, etag="")
        scene.put("b", b"1")
        quoted = ManifestFile(key="a", size=1, etag=info.etag.strip('"'))
        scene.publish("j", files=(quoted, unseen))
        assert magicfs.Dataset(scene.url).verify().ok
        scene.put("a", b"2", **{WRITE_ID: "w"})
        assert magicfs.Dataset(scene.url).verify().altered == ("a",)

    def test_replaced_files_that_are_still_there_are_foreign(self, scene: Scene):
        scene.publish("a", "a")
        scene.publish("b", "b", mode="overwrite", hides="all", replaced="a")
        assert magicfs.Dataset(scene.url).verify().foreign == ("a",)

    def test_directories_beside_are_not_looked_at(self, scene: Scene):
        scene.publish("a", "a")
        scene.run(scene.store.put, f"{scene.destination}0/x", b"")
        scene.run(scene.store.put, f"{scene.destination}x", b"")
        assert magicfs.Dataset(scene.url).verify().ok

    def test_nothing_was_published(self, scene: Scene):
        with pytest.raises(ObjectNotFound):
            magicfs.Dataset(scene.url).verify()
        scene.put("old")
        with pytest.raises(UsageError, match="adopt"):
            magicfs.Dataset(scene.url).verify()


class TestAdopt:
    def test_files_older_than_the_first_job(self, scene: Scene):
        for key in (*VISIBLE_KEYS, "_hidden", "p=1/.crc", "dir/"):
            scene.put(key, b"old")
        report = magicfs.Dataset(scene.url).adopt()
        adopted = published_manifest(scene.url)
        assert set(report.adopted) == {file.key for file in adopted.files} == set(VISIBLE_KEYS)
        assert report.manifest == f"{scene.url}/_magicfs/{adopted.job_id}.json"
        assert magicfs.Dataset(scene.url).verify().ok
        before = scene.keys()
        assert magicfs.Dataset(scene.url).adopt().manifest is None
        assert scene.keys() == before
        assert not [key for key in before if "probe" in key]

    def test_what_a_job_has_replaced_does_not_come_back(self, scene: Scene):
        scene.put("old")
        scene.publish("a", "a", older_files=True)
        scene.publish("b", "b", mode="overwrite", hides="all", replaced="a")
        scene.publish("c", "c", mode="overwrite_partitions", hides="keys", deleted=("deleted",))
        scene.put("deleted")
        assert magicfs.Dataset(scene.url).adopt().adopted == ("old",)
        assert [file.key for file in published_manifest(scene.url).files] == ["old"]

    def test_older_files_that_are_gone_by_now(self, scene: Scene):
        scene.publish("a", "a.parquet", body=parquet(1), older_files=True)
        report = magicfs.Dataset(scene.url).adopt()
        assert (report.adopted, report.files, report.manifest is None) == ((), 1, False)
        assert values(magicfs.Dataset(scene.url).to_arrow()) == [1]

    def test_nothing_there(self, scene: Scene):
        assert magicfs.Dataset(scene.url).adopt().manifest is None
        assert scene.keys() == []

    def test_beside_an_unfinished_job_it_is_refused(self, scene: Scene):
        scene.put("old")
        scene.put("__magic_job-j/job-j/job.json", b"{}")
        before = scene.keys()
        with pytest.raises(UsageError, match=r"job j .*unfinished"):
            magicfs.Dataset(scene.url).adopt()
        assert scene.keys() == before

    def test_a_table_is_refused(self, scene: Scene):
        scene.put("a.parquet")
        scene.put("_delta_log/00000.json")
        with pytest.raises(UsageError, match="Delta Lake"):
            magicfs.Dataset(scene.url).adopt()

    def test_names_that_no_manifest_can_hold_are_hidden_ones(self, scene: Scene):
        scene.put("a/../b")
        scene.put("./a")
        assert magicfs.Dataset(scene.url).adopt().manifest is None

    def test_a_job_that_is_published_meanwhile(self, scene: Scene, monkeypatch: pytest.MonkeyPatch):
        scene.put("old")
        filesystem = MemoryFileSystem()
        store = MemoryStore(scene.bucket)

        class Racing(MemoryStore):
            async def list(self, prefix: str, *, limit: int | None = None) -> Any:
                async for info in super().list(prefix, limit=limit):
                    yield info
                manifest = Manifest(
                    job_id="racing", bucket="b", destination=DEST, mode="append", committed_ms=1
                )
                await chain.publish(store, scene.conditions, DEST, manifest)

        monkeypatch.setattr(filesystem, "store", Racing)
        with pytest.raises(CommitDenied, match="meanwhile"):
            magicfs.Dataset(scene.url, filesystem=filesystem).adopt()
        assert published_manifest(scene.url).job_id == "racing"


class TestCommands:
    def run(self, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
        code = cli.main(list(arguments))
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    def test_verify(self, scene: Scene, capsys: pytest.CaptureFixture[str]):
        scene.publish("a", "p=1/a", "p=1/b", body=b"12345")
        code, out, err = self.run(capsys, "verify", scene.url)
        assert (code, err) == (0, "")
        assert "2 files (10 B)" in out
        assert "as published" in out
        scene.delete("p=1/a")
        scene.put("p=1/b", b"x")
        scene.put("stray\n1")
        code, out, err = self.run(capsys, "verify", scene.url)
        assert code == 1
        rows = [line.split() for line in out.splitlines()]
        assert ["missing", "p=1/a"] in rows
        assert ["altered", "p=1/b"] in rows
        assert ["foreign", "stray\\n1"] in rows
        code, out, err = self.run(capsys, "verify", scene.url, "--json")
        assert (code, err, out.count("\n")) == (1, "", 1)
        found = json.loads(out)
        assert (found["ok"], found["missing"], found["altered"], found["foreign"]) == (
            *(False, ["p=1/a"], ["p=1/b"]),
            ["stray\n1"],
        )

    def test_verify_of_nothing(self, scene: Scene, capsys: pytest.CaptureFixture[str]):
        code, out, err = self.run(capsys, "verify", scene.url)
        assert (code, out) == (3, "")
        assert "no job was published" in err
        scene.put("old")
        code, out, err = self.run(capsys, "verify", scene.url)
        assert (code, out) == (2, "")
        assert "adopt" in err

    def test_verify_of_a_broken_chain(self, scene: Scene, capsys: pytest.CaptureFixture[str]):
        scene.publish("a", "a")
        scene.run(scene.store.delete, [chain.manifest_key(scene.destination, "a")])
        code, out, err = self.run(capsys, "verify", scene.url)
        assert (code, out) == (7, "")
        assert "missing" in err

    def test_show(self, scene: Scene, capsys: pytest.CaptureFixture[str]):
        scene.publish("a", "a", run_id="monday")
        scene.publish(
            *("b", "p=1/b"),
            mode="overwrite_partitions",
            hides="keys",
            deleted=("p=1/a",),
            partitions=("p=1",),
            older_files=True,
            run_id="tuesday",
        )
        base = f"memory://{scene.bucket}/{DEST}/_magicfs"
        code, out, err = self.run(capsys, "show", f"{base}/b.json")
        assert (code, err) == (0, "")
        for shown in ("manifest", "tuesday", "p=1/b", "previous job", "overwrite_partitions", "older files"):
            assert shown in out
        pointer = "current.json" if scene.conditions.put_if_match else "current.00001.json"
        code, out, err = self.run(capsys, "show", f"{base}/{pointer}")
        assert (code, err) == (0, "")
        assert out.splitlines()[-2].split() == ["b", "tuesday"]
        code, out, err = self.run(capsys, "show", f"{base}/a.json", "--json")
        shown = json.loads(out)
        assert (shown["kind"], shown["document"]["runId"]) == ("manifest", "monday")
