"""An alias on a real store that speaks S3: in one copy, in parts, with two drivers, and after a death."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import s3fs
from fsspec.asyn import sync

import magicfs
from magicfs.alias import catch_up
from magicfs.datasets.connection import open_destination
from magicfs.errors import MagicError, PreconditionFailed, UsageError
from magicfs.stores.port import PutMode, Update
from magicfs.stores.s3 import copy as s3_copy
from proofs.doubles.servers import SeaweedFS

URL = "s3://alias/lake 1/sales +#%ü"
NAME = "latest é +#%.csv"
PATH = f"alias/lake 1/{NAME}"

_DIES: str = """
import os, sys, json
import magicfs
from magicfs.stores.s3.store import S3Store

copy = S3Store.copy

async def dies(self, source, destination, **how):
    if "latest" in destination:
        if sys.argv[2] == "after":
            await copy(self, source, destination, **how)
        os._exit(9)
    return await copy(self, source, destination, **how)

S3Store.copy = dies
options = json.loads(sys.argv[1])
job = magicfs.Job(sys.argv[3], mode="overwrite", storage_options=options, options={"alias": sys.argv[4]})
with job, job.task(0) as task:
    task.filesystem.pipe_file(f"{task.path}/a.csv", b"of the dead")
"""


@pytest.fixture(scope="module")
def server() -> Iterator[SeaweedFS]:
    with SeaweedFS() as server:
        server.create_bucket("alias")
        yield server


@pytest.fixture
def fs(server: SeaweedFS) -> s3fs.S3FileSystem:
    return s3fs.S3FileSystem(**server.storage_options(), skip_instance_cache=True, use_listings_cache=False)


def publish(server: SeaweedFS, body: bytes, url: str = URL, **how: Any) -> Any:
    given = {"alias": NAME} | how.pop("options", {})
    job = magicfs.Job(url, mode="overwrite", storage_options=server.storage_options(), options=given, **how)
    with job, job.task(0) as task:
        task.filesystem.pipe_file(f"{task.path}/a.csv", body)
    return job.report


def test_it_follows_publications_rollbacks_and_drops(server: SeaweedFS, fs: s3fs.S3FileSystem) -> None:
    first = publish(server, b"one")
    assert fs.cat_file(PATH) == b"one"
    publish(server, b"two", keep="1d")
    dataset = magicfs.Dataset(URL, storage_options=server.storage_options())
    dataset.rollback(first.job_id)
    assert fs.cat_file(PATH) == b"one"
    assert [one.rpartition("/")[2] for one in fs.glob(f"{URL[5:]}/*.csv")] == [f.key for f in dataset.files()]
    dataset.drop(where=lambda _: True)
    assert not fs.exists(PATH)
    fs.pipe_file(PATH, b"theirs")
    with pytest.raises(UsageError, match="magicfs did not write"):
        publish(server, b"three")
    fs.rm_file(PATH)
    publish(server, b"four")
    assert fs.cat_file(PATH) == b"four"


def test_a_large_file_is_copied_in_parts(
    server: SeaweedFS, fs: s3fs.S3FileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3_copy, "COPY_MAX", 5 * 2**20)
    monkeypatch.setattr(s3_copy, "COPY_PART", 5 * 2**20)
    for letter in (b"a", b"b"):
        body = letter * (11 * 2**20)
        publish(server, body)
        assert fs.cat_file(PATH) == body
        assert fs.info(PATH)["ETag"].endswith('-3"')
    assert not server.uploads("alias", "lake 1/latest")


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_driver_that_dies_around_the_copy(server: SeaweedFS, fs: s3fs.S3FileSystem, moment: str) -> None:
    publish(server, b"before")
    given = [json.dumps(server.storage_options()), moment, URL, NAME]
    done = subprocess.run([sys.executable, "-c", _DIES, *given], check=False)
    assert done.returncode == 9
    assert fs.cat_file(PATH) == (b"before" if moment == "before" else b"of the dead")
    magicfs.Dataset(URL, storage_options=server.storage_options()).recover()
    assert fs.cat_file(PATH) == b"of the dead"
    found = catch_up(URL, storage_options=server.storage_options())
    assert found is not None
    assert found.done == "right"


def test_two_drivers_at_once_leave_what_the_dataset_shows(server: SeaweedFS, fs: s3fs.S3FileSystem) -> None:
    publish(server, b"start")

    def drive(name: str) -> None:
        for number in range(4):
            try:
                publish(server, f"{name} {number}".encode())
            except MagicError:
                continue

    drivers = [threading.Thread(target=drive, args=(name,)) for name in ("one", "two")]
    for one in drivers:
        one.start()
    for one in drivers:
        one.join()
    (file,) = magicfs.Dataset(URL, storage_options=server.storage_options()).files()
    assert fs.cat_file(PATH) == fs.cat_file(file.url[5:])
    found = catch_up(URL, storage_options=server.storage_options())
    assert found is not None
    assert found.done == "right"


def test_the_server_honours_the_condition_of_a_copy(server: SeaweedFS) -> None:
    place = open_destination("s3://alias/x", server.storage_options())
    store = place.engine.store

    async def tried() -> None:
        await store.put("probe/a", b"a")
        there = await store.put("probe/b", b"b")
        for mode in (Update(f'"{"0" * 32}"'), PutMode.CREATE):
            with pytest.raises(PreconditionFailed):
                await store.copy("probe/a", "probe/b", mode=mode)
        assert await store.get("probe/b") == b"b"
        await store.copy("probe/a", "probe/b", mode=Update(there.etag))
        await store.copy("probe/a", "probe/c", mode=PutMode.CREATE)

    sync(place.filesystem.loop, tried)
