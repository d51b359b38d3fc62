"""A bucket that keeps versions: what manifests say of them, and who reads by them."""

from __future__ import annotations

import io
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

import magicfs
from magicfs.errors import MagicError, PermissionDenied
from magicfs.formats.manifest import ManifestFile
from magicfs.protocol.identity import etag_and_version, object_id
from magicfs.reading.named_reads import NamedReads
from magicfs.reading.published_file import PublishedFile
from magicfs.stores.memory.store import MemoryVersions
from magicfs.testing.store_faults import Fault, Kind
from proofs.scenes.job_scene import BUCKET, JobScene
from proofs.scenes.manifests import published_manifest

DEST = "env=prod/día 50% + #1"


def rows(*values: int) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"n": pa.array(values, pa.int64())}), sink)
    return sink.getvalue()


@pytest.fixture
def scene() -> JobScene:
    made = JobScene(DEST)
    made.filesystem.world.keep_versions(BUCKET)
    return made


def opened(scene: JobScene) -> pa.dataset.Dataset:
    return magicfs.Dataset(scene.url, filesystem=scene.filesystem).to_arrow()


def values(dataset: pa.dataset.Dataset) -> list[int]:
    found: list[int] = dataset.to_table(columns=["n"], use_threads=False)["n"].to_pylist()
    return sorted(found)


def manifest_of(scene: JobScene, job: str | None = None) -> dict[str, ManifestFile]:
    found = published_manifest(scene.url, job, filesystem=scene.filesystem)
    return {file.key: file for file in found.files}


def there(scene: JobScene) -> dict[str, str]:
    """The version that each visible file has now."""
    contents = scene.filesystem.world.find(BUCKET)
    assert contents is not None
    return {name: contents.objects[f"{DEST}/{name}"].info.version for name in scene.data()}


@pytest.mark.parametrize("how", [{}, {"tracking": "memory"}, {"tracking": "memory", "small_files": 100}])
def test_a_manifest_names_the_version_of_each_file(scene: JobScene, how: dict[str, Any]) -> None:
    scene.published({"a.bin": b"1", "b/c.bin": b"22"}, {"p=1/d.bin": b""}, **how)
    told = {key: file.version for key, file in manifest_of(scene).items()}
    assert told == there(scene)
    assert None not in told.values()


def test_files_that_were_copied_to_their_names_have_none(scene: JobScene) -> None:
    with magicfs.Job(scene.url, committer="file", filesystem=scene.filesystem) as job, job.task(0) as task:
        task.filesystem.pipe_file(f"{task.path}/a.bin", b"1")
    assert [file.version for file in manifest_of(scene).values()] == [None]


def test_without_versions_a_manifest_says_nothing_of_them() -> None:
    scene = JobScene(DEST)
    for keeping in (None, "Suspended"):
        scene.filesystem.world.keep_versions(BUCKET, keeping)  # type: ignore[arg-type]
        scene.published({"a.bin": b"1"})
        assert {file.version for file in manifest_of(scene).values()} == {None}
    assert not any(b'"version"' in body for body, _, _ in scene.objects().values())


@pytest.mark.parametrize("kind", [Kind.CRASH_BEFORE, Kind.CRASH_AFTER, Kind.REPLY_LOST])
def test_a_job_that_was_cut_anywhere_names_the_versions(kind: Kind) -> None:
    published = 0
    for number in range(1, 100):
        scene = JobScene(DEST)
        scene.filesystem.world.keep_versions(BUCKET)
        job = scene.job(small_files=2, tracking="memory")
        commits = scene.wrote(job, {"a.bin": b"1", "b.bin": b"22"}, {"c.bin": b"333", "d.bin": b"4444"})
        traffic = scene.traffic(Fault(kind, number=number))
        report = None
        with suppress(MagicError):
            report = scene.commit(job, commits, traffic=traffic)
        if report is None:
            scene.recover()
        if scene.data():
            told = {key: file.version for key, file in manifest_of(scene).items()}
            assert (told, len(told)) == (there(scene), 4), number
            published += 1
        if not traffic.met:
            break
    assert (number > 20, published > 5) == (True, True)


def test_whoever_holds_the_list_reads_on_after_the_files_were_deleted(scene: JobScene) -> None:
    scene.published({"a.parquet": rows(1, 2)}, {"p=1/b.parquet": rows(3)})
    held = opened(scene)
    scene.published({"a.parquet": rows(9)}, mode="overwrite")
    assert len(scene.data()) == 1
    assert values(held) == [1, 2, 3]
    assert values(opened(scene)) == [9]


def test_a_file_that_was_written_over_is_read_as_it_was_published(scene: JobScene) -> None:
    scene.published({"a.parquet": rows(1)}, unique_names=False)
    held = opened(scene)
    scene.published({"a.parquet": rows(2)}, mode="overwrite", unique_names=False)
    assert (values(held), values(opened(scene))) == ([1], [2])


def test_a_sum_of_manifests_names_the_versions(scene: JobScene) -> None:
    scene.published({"a.parquet": rows(1)})
    scene.published({"b.parquet": rows(2)})
    before = manifest_of(scene)
    magicfs.Dataset(scene.url, filesystem=scene.filesystem).compact()
    held = opened(scene)
    scene.published({"c.parquet": rows(3)}, mode="overwrite")
    assert values(held) == [1, 2]
    assert all(file.version for file in before.values())


def test_who_may_not_read_versions_reads_what_is_at_the_key(
    scene: JobScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.published({"a.parquet": rows(1)})
    asked = []

    async def denied(_self: MemoryVersions, key: str, *_: object) -> bytes:
        asked.append(key)
        raise PermissionDenied("get_version", key, "no s3:GetObjectVersion")

    monkeypatch.setattr(MemoryVersions, "get_range", denied)
    held = opened(scene)
    assert values(held) == values(held) == [1]
    assert len(asked) == 1, "a reader asks once"


def test_files_that_were_copied_to_another_bucket_are_read_there(scene: JobScene) -> None:
    scene.published({"a.parquet": rows(1, 2)})
    world = scene.filesystem.world
    world.create_bucket("copy")
    for key, (body, _, _) in scene.objects().items():
        scene.filesystem.pipe_file(f"copy/{key}", body)
    found = magicfs.Dataset(f"memory://copy/{DEST}", filesystem=scene.filesystem).to_arrow()
    assert values(found) == [1, 2]


def test_a_version_is_read_in_any_range(scene: JobScene) -> None:
    body = bytes(range(256)) * 12_000
    scene.published({"a.bin": body})
    [(key, file)] = manifest_of(scene).items()
    scene.delete(key)
    path = f"{BUCKET}/{DEST}/{key}"
    one = PublishedFile(NamedReads(scene.filesystem), path, file)
    for start, size in ((0, 10), (2_999_999, 5), (len(body) - 3, 9), (1, len(body))):
        one.seek(start)
        assert one.read(size) == body[start : start + size]


def test_an_etag_and_a_version_are_one_text() -> None:
    for etag, version in (('"e-1"', "v 1=="), ('"e"', ""), ("", "")):
        assert etag_and_version(object_id(etag, version)) == (etag, version)
    assert object_id("", "v") == "", "a HEAD has to tell both"
