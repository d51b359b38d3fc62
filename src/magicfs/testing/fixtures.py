"""pytest plugin: servers for a test session and buckets for a test.

Use it with ``pytest_plugins = ["magicfs.testing.fixtures"]`` in the top ``conftest.py``. A server is
started by the first test that asks for it, and a test session whose server died ends in an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from uuid import uuid4

import pytest

from magicfs.testing.servers import SERVERS, Server, ServerFailed

__all__ = ["bucket_factory", "ministack", "moto", "seaweedfs", "server"]

_DELETE_BATCH = 1000


@pytest.fixture(scope="session")
def server() -> Iterator[Callable[[str], Server]]:
    """Return a function from a server's name to the running server, the same one for all the session."""
    started: dict[str, Server] = {}

    with ExitStack() as running:

        def start(name: str) -> Server:
            if name not in started:
                started[name] = running.enter_context(SERVERS[name]())
            started[name].check_alive()
            return started[name]

        yield start
        for each in started.values():
            each.check_alive()


@pytest.fixture(scope="session")
def ministack(server: Callable[[str], Server]) -> Server:
    """Return the session's ministack."""
    return server("ministack")


@pytest.fixture(scope="session")
def moto(server: Callable[[str], Server]) -> Server:
    """Return the session's moto."""
    return server("moto")


@pytest.fixture(scope="session")
def seaweedfs(server: Callable[[str], Server]) -> Server:
    """Return the session's SeaweedFS."""
    return server("seaweedfs")


@pytest.fixture
def bucket_factory() -> Iterator[Callable[..., str]]:
    """Return ``make(server, stem="test")``, which creates a bucket that goes away with the test."""
    made: list[tuple[Server, str]] = []

    def make(on: Server, stem: str = "test") -> str:
        bucket = on.create_bucket(f"{stem}-{uuid4().hex[:12]}")
        made.append((on, bucket))
        return bucket

    yield make
    for on, bucket in made:
        try:
            on.check_alive()
        except ServerFailed:
            continue  # a test may kill its server, and may leave it dead
        _remove(on, bucket)


def _remove(on: Server, bucket: str) -> None:
    # A bucket left behind costs SeaweedFS whole volumes, and it runs out of them.
    client = on.s3_client()
    for upload in on.pending_uploads(bucket):
        client.abort_multipart_upload(Bucket=bucket, Key=upload["Key"], UploadId=upload["UploadId"])
    keys = on.all_keys(bucket)
    for start in range(0, len(keys), _DELETE_BATCH):
        batch = [{"Key": key} for key in keys[start : start + _DELETE_BATCH]]
        client.delete_objects(Bucket=bucket, Delete={"Objects": batch, "Quiet": True})
    client.delete_bucket(Bucket=bucket)
