"""A sealed dataset on a server that speaks S3: its metadata, its ETags and its conditions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import s3fs

import magicfs
from magicfs import seal
from magicfs.errors import SealBroken
from magicfs.protocol.modes import WriteMode
from proofs.doubles.servers import Ministack

KEY = b"a publisher's key of forty bytes or more"
URL = "s3://sealed/sales"
POINTER = "sealed/sales/_magicfs/current.json"


@pytest.fixture(scope="module")
def server() -> Iterator[Ministack]:
    with Ministack() as server:
        server.create_bucket("sealed")
        yield server


@pytest.fixture
def fs(server: Ministack) -> Iterator[s3fs.S3FileSystem]:
    seal.forget()
    yield s3fs.S3FileSystem(**server.storage_options(), use_listings_cache=False)
    seal.forget()


def publish(fs: s3fs.S3FileSystem, mode: WriteMode) -> None:
    job = magicfs.Job(URL, filesystem=fs, mode=mode, options={"seal": True})
    with job, job.task(0) as task:
        task.filesystem.pipe_file(f"{task.path}/day=1/a.csv", b"a\n1\n")


def test_it_is_published_read_taken_in_and_guarded(fs: s3fs.S3FileSystem) -> None:
    seal.use(URL, KEY)
    dataset = magicfs.Dataset(URL, filesystem=fs)
    modes: tuple[WriteMode, ...] = ("append", "overwrite", "append")
    for mode in modes:
        publish(fs, mode)
    files = dataset.files()
    report = dataset.verify(deep=True)
    assert (report.ok, report.confirmed + report.by_store) == (True, 2)
    seal.forget()
    assert dataset.files() == files
    dataset.tag("good")
    seal.use(URL, b"n" * 32, KEY)
    with pytest.raises(SealBroken, match=r"\.tags/good\.json"):
        seal.seal(URL, filesystem=fs, rotate=True)
    assert len(seal.seal(URL, filesystem=fs, accept=True).sealed) == 5
    seal.use(URL, b"n" * 32)
    assert dataset.files() == files
    publish(fs, "append")
    old = fs.cat_file(POINTER)
    publish(fs, "append")
    fs.pipe_file(POINTER, old)
    with pytest.raises(SealBroken, match="put back"):
        dataset.files()
