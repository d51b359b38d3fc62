"""Manifests on a real server: published at once, read through s3fs, verified, adopted."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from fsspec.asyn import sync

import magicfs
from magicfs.formats.manifest import Manifest, ManifestFile
from magicfs.formats.pointer import Pointer
from magicfs.manifests import chain
from magicfs.protocol.readback import WRITE_ID
from magicfs.stores import resolve
from magicfs.stores.conditions import Conditions, conditions_of
from magicfs.stores.port import Store
from proofs.doubles.servers import Server

pytestmark = pytest.mark.sample(most=1)

DEST = "env=prod/día 50%"
HOSTILE = ["p=1/with space.parquet", "p=1/50%.parquet", "p=2/a+b#1.parquet", "p=2/zażółć ☃?x=1&y.parquet"]


def parquet(*values: int) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"n": pa.array(values, pa.int64())}), sink)
    return sink.getvalue()


class Place:
    """A destination on a server."""

    def __init__(self, server: Server, bucket: str) -> None:
        self.options = server.storage_options()
        self.url = f"s3://{bucket}/{DEST}"
        self.bucket = bucket
        self.filesystem = resolve.filesystem("s3", self.options)
        self.client = server.s3_client()

    def run(self, work: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return sync(self.filesystem.loop, work, *args, **kwargs)

    def store(self) -> Store:
        return resolve.open_store(self.filesystem, self.bucket)

    def put(self, key: str, body: bytes, **metadata: str) -> None:
        self.client.put_object(Bucket=self.bucket, Key=f"{DEST}/{key}", Body=body, Metadata=metadata)

    def upload(self, job: str, *keys: str, body: bytes) -> Manifest:
        """What a job leaves: files with write ids, and the manifest that is not yet published."""
        return self.run(self._upload, job, keys, body)

    async def _upload(self, job: str, keys: tuple[str, ...], body: bytes) -> Manifest:
        store, files = self.store(), []
        for key in keys:
            upload = await store.create_upload(f"{DEST}/{key}", metadata={WRITE_ID: f"w-{job}"})
            part = await store.put_part(f"{DEST}/{key}", upload, 1, body)
            info = await store.complete_upload(f"{DEST}/{key}", upload, [part])
            files.append(ManifestFile(key=key, size=len(body), etag=info.etag, write_id=f"w-{job}"))
        return Manifest(
            job_id=job,
            bucket=self.bucket,
            destination=DEST,
            mode="append",
            committed_ms=1,
            files=tuple(files),
        )

    def publish(self, *published: Manifest, conditions: Conditions | None = None) -> list[Pointer]:
        """Publish all of them at once."""
        return self.run(self._publish, published, conditions)

    async def _publish(self, published: tuple[Manifest, ...], conditions: Conditions | None) -> list[Pointer]:
        store = self.store()
        honoured = conditions or await conditions_of(store, f"{DEST}/__magic_job-probe")
        return await asyncio.gather(
            *(chain.publish(store, honoured, DEST, manifest) for manifest in published)
        )

    def jobs(self) -> list[str]:
        async def walk() -> list[str]:
            return [one.job_id async for one in chain.chain(self.store(), DEST, chain.READING)]

        return self.run(walk)


@pytest.fixture
def place(ministack: Server, bucket_factory: Callable[..., str]) -> Place:
    return Place(ministack, bucket_factory(ministack))


def values(dataset: ds.Dataset) -> list[int]:
    return sorted(dataset.to_table(columns=["n"], use_threads=False)["n"].to_pylist())


@pytest.mark.parametrize("numbered", [False, True])
def test_published_at_once_by_many_every_job_is_linked_once(place: Place, numbered: bool):
    conditions = Conditions(put_if_match=False) if numbered else None
    jobs = [place.upload(job, f"p=1/{job}.parquet", body=parquet(number)) for number, job in enumerate("abc")]
    twice = [replace(manifest, committed_ms=moment) for manifest in jobs for moment in (1, 2)]
    moved = place.publish(*twice, conditions=conditions)
    assert len({one.nonce for one in moved}) == 3, "each call returns a version of the pointer"
    newest, *_ = found = place.jobs()
    assert sorted(found) == ["a", "b", "c"]
    again = place.publish(*twice, conditions=conditions)
    assert [one.job_id for one in again] == [newest] * 6
    assert len({one.nonce for one in again}) == 1, "none has moved it"
    assert values(magicfs.Dataset(place.url, storage_options=place.options).to_arrow()) == [0, 1, 2]


def test_hostile_names_are_read_and_verified(place: Place):
    place.publish(place.upload("a", *HOSTILE, body=parquet(1, 2)))
    found = magicfs.Dataset(place.url, storage_options=place.options).to_arrow()
    assert values(found) == [1, 1, 1, 1, 2, 2, 2, 2]
    assert found.count_rows(filter=ds.field("p") == 2) == 4
    assert "env" not in found.schema.names
    assert magicfs.Dataset(place.url, storage_options=place.options).verify().ok


def test_files_that_were_listed_before_are_not_taken_from_a_cache(place: Place):
    place.publish(place.upload("a", "p=1/a.parquet", body=parquet(1)))
    place.filesystem.find(f"{place.bucket}/{DEST}")
    place.filesystem.ls(f"{place.bucket}/{DEST}/p=1")
    place.publish(place.upload("b", "p=1/b.parquet", body=parquet(2)))
    assert values(magicfs.Dataset(place.url, filesystem=place.filesystem).to_arrow()) == [1, 2]
    assert values(magicfs.Dataset(place.url, storage_options=place.options).to_arrow()) == [1, 2]


def test_what_was_changed_is_found(place: Place, capsys: pytest.CaptureFixture[str]):
    place.publish(place.upload("a", *(f"{name}.parquet" for name in "abcd"), body=b"12345"))
    place.client.delete_object(Bucket=place.bucket, Key=f"{DEST}/a.parquet")
    place.put("b.parquet", b"54321")
    place.put("c.parquet", b"12345", **{WRITE_ID: "w-a"})  # as one part, so with another ETag
    place.put("x=1/stray ☃", b"")
    report = magicfs.Dataset(place.url, storage_options=place.options).verify()
    assert (report.missing, report.altered, report.foreign) == (
        *(("a.parquet",), ("b.parquet",)),
        ("x=1/stray ☃",),
    )
    assert (report.files, report.bytes) == (4, 20)
    assert capsys.readouterr().out == ""
