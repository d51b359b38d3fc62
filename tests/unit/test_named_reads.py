"""Readers by manifests, where files are written over under their names, copied, moved or restored."""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import magicfs
from magicfs.datasets.connection import open_destination
from magicfs.errors import ObjectNotFound
from magicfs.reading.named_reads import NamedReads
from magicfs.reading.published_file import open_published
from magicfs.stores.memory.store import MemoryStore
from proofs.scenes.job_scene import BUCKET, JobScene
from proofs.scenes.manifests import published_manifest

OVER = "it was overwritten since it was published; open the dataset again"
PLAIN = {"unique_names": False}


def rows(*numbers: int) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"n": numbers}), sink)
    return sink.getvalue()


def opened(scene: JobScene, **how: Any) -> ds.Dataset:
    return magicfs.Dataset(scene.url, filesystem=scene.filesystem).to_arrow(**how)


def values(dataset: ds.Dataset) -> list[int]:
    return sorted(dataset.to_table()["n"].to_pylist())


def replaced(scene: JobScene, number: int, **how: Any) -> magicfs.Job:
    files = {"a.parquet": rows(number), "b.parquet": rows(number)}
    return scene.published(files, mode="overwrite", **PLAIN, **how)


def test_no_reader_gets_other_rows_under_the_same_names() -> None:
    scene = JobScene()
    first = replaced(scene, 1)
    of_then, before = opened(scene, as_of=first.id), opened(scene)
    assert values(before) == [1, 1]
    replaced(scene, 2)
    for one in (of_then, before):
        with pytest.raises(ObjectNotFound, match=OVER):
            values(one)
    assert values(opened(scene)) == [2, 2]


def test_one_scan_of_one_file_is_not_put_together_of_two() -> None:
    def body(number: int) -> bytes:
        sink = io.BytesIO()
        column = np.full(4_000_000, number)
        pq.write_table(
            pa.table({"n": column}), sink, compression="none", use_dictionary=False, row_group_size=50_000
        )
        return sink.getvalue()

    scene = JobScene()
    scene.published({"a.parquet": body(1)}, mode="overwrite", **PLAIN)
    batches = opened(scene).scanner(
        batch_readahead=1,
        fragment_readahead=1,
        use_threads=False,
        batch_size=50_000,
        fragment_scan_options=ds.ParquetFragmentScanOptions(pre_buffer=False),
    )
    read = batches.to_batches()
    assert set(next(read)["n"].to_pylist()) == {1}
    scene.published({"a.parquet": body(2)}, mode="overwrite", **PLAIN)
    with pytest.raises(ObjectNotFound, match=OVER):
        list(read)


def test_a_read_by_its_etag_is_one_request_as_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def noted(name: str) -> Callable[..., Any]:
        inner = getattr(MemoryStore, name)

        async def call(self: MemoryStore, key: str, *args: Any, **how: Any) -> Any:
            if key.endswith(".parquet"):
                asked.append(name)
            return await inner(self, key, *args, **how)

        return call

    scene = JobScene()
    replaced(scene, 1)
    for name in ("get", "get_range", "head"):
        monkeypatch.setattr(MemoryStore, name, noted(name))
    assert values(opened(scene)) == [1, 1]
    assert set(asked) == {"get_range"}


def test_a_file_that_was_rewritten_as_it_was_is_read() -> None:
    scene = JobScene()
    replaced(scene, 1)
    held = opened(scene)
    contents = scene.filesystem.world.find(BUCKET)
    assert contents is not None
    for key, one in list(contents.objects.items()):
        if key.endswith(".parquet"):
            # As another class of storage leaves it: other parts, and so another ETag, and its metadata.
            contents.objects[key] = replace_etag(one)
    assert values(held) == values(opened(scene)) == [1, 1]


def replace_etag(one: Any) -> Any:
    return replace(one, info=replace(one.info, etag='"other-2"'))


def test_a_copy_elsewhere_with_other_etags_is_read_and_never_half_of_two() -> None:
    scene = JobScene()
    replaced(scene, 1)
    scene.filesystem.world.create_bucket("copy")
    for key, (body, _, _) in scene.objects().items():
        scene.filesystem.pipe_file(f"copy/{key}", body)
    contents = scene.filesystem.world.find("copy")
    assert contents is not None
    for key, one in list(contents.objects.items()):
        contents.objects[key] = replace_etag(one)
    url = "memory://copy/sales"
    held = magicfs.Dataset(url, filesystem=scene.filesystem).to_arrow()
    assert values(held) == [1, 1]
    scene.filesystem.pipe_file("copy/sales/a.parquet", rows(7))
    with pytest.raises(ObjectNotFound, match=OVER):
        values(held)
    magicfs.Dataset(url, filesystem=scene.filesystem).compact()
    assert values(magicfs.Dataset(url, filesystem=scene.filesystem).to_arrow()) == [1, 7]


# -- files of this machine ------------------------------------------------------------------------------


@pytest.fixture
def local(tmp_path: Path) -> Path:
    place = tmp_path / "sales"
    published(place, 1)
    return place


def published(place: Path, number: int) -> None:
    with (
        magicfs.Job(place.as_uri(), mode="overwrite", options={"unique_names": False}) as job,
        job.task(0) as task,
    ):
        task.filesystem.pipe_file(f"{task.path}/a.parquet", rows(number))


def test_a_local_file_that_was_written_over_is_an_error(local: Path) -> None:
    held = magicfs.Dataset(local.as_uri()).to_arrow()
    assert values(held) == [1]
    published(local, 2)
    with pytest.raises(ObjectNotFound, match=OVER):
        values(held)
    assert values(magicfs.Dataset(local.as_uri()).to_arrow()) == [2]


@pytest.mark.parametrize("how", ["moved", "copied", "compacted"])
def test_a_local_dataset_elsewhere_is_read(local: Path, tmp_path: Path, how: str) -> None:
    other = tmp_path / "other"
    if how == "moved":
        local.rename(other)
    else:
        shutil.copytree(local, other, copy_function=shutil.copyfile)
    if how == "compacted":
        magicfs.Dataset(other.as_uri()).compact()
    assert values(magicfs.Dataset(other.as_uri()).to_arrow()) == [1]


def test_a_local_file_that_a_backup_restores_is_read(local: Path, tmp_path: Path) -> None:
    [file] = local.glob("*.parquet")
    shutil.copy2(file, tmp_path / "backup")
    file.unlink()
    shutil.copy2(tmp_path / "backup", file)
    assert values(magicfs.Dataset(local.as_uri()).to_arrow()) == [1]
    os.utime(file)
    with pytest.raises(ObjectNotFound, match=OVER):
        values(magicfs.Dataset(local.as_uri()).to_arrow())


def test_checkpoint_readers_get_no_other_file(local: Path) -> None:
    destination = open_destination(local.as_uri(), None, None, for_reading=True)
    [file] = published_manifest(local.as_uri()).files
    reads = NamedReads(destination.filesystem, destination.location)
    with open_published(destination.filesystem, f"{local}/{file.key}", file, reads) as opened_file:
        assert opened_file.read() == rows(1)
    published(local, 2)
    with pytest.raises(ObjectNotFound, match=OVER):
        open_published(destination.filesystem, f"{local}/{file.key}", file, reads)
