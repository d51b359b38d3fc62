"""pytest plugin: servers for a test session and buckets for a test.

Use it with ``pytest_plugins = ["proofs.doubles.fixtures"]`` in the top ``conftest.py``. A server is
started by the first test that asks for it, and a test session whose server died ends in an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any
from uuid import uuid4

import pytest

from proofs.doubles.adls_server import AdlsDouble
from proofs.doubles.azurite import Azurite
from proofs.doubles.ceph_server import Ceph
from proofs.doubles.environments import EnvironmentNotMade
from proofs.doubles.gcs_server import GcsDouble
from proofs.doubles.server_process import ServerFailed, ServerProcess
from proofs.doubles.servers import SERVERS, Server

__all__ = ["adls", "azurite", "bucket_factory", "gcs", "ministack", "moto", "seaweedfs", "server"]

_KINDS: dict[str, type[ServerProcess]] = {
    **SERVERS,
    AdlsDouble.name: AdlsDouble,
    Azurite.name: Azurite,
    Ceph.name: Ceph,
    GcsDouble.name: GcsDouble,
}


@pytest.fixture(scope="session")
def server() -> Iterator[Callable[[str], Any]]:
    """Return a function from a server's name to the running server, the same one for all the session."""
    started: dict[str, ServerProcess] = {}
    not_installed: dict[str, EnvironmentNotMade] = {}

    with ExitStack() as running:

        def start(name: str) -> ServerProcess:
            if name in not_installed:  # a registry that cannot be reached takes its time to say so
                raise not_installed[name]
            if name not in started:
                try:
                    started[name] = running.enter_context(_KINDS[name]())
                except EnvironmentNotMade as error:
                    not_installed[name] = error
                    raise
            started[name].check_alive()
            return started[name]

        yield start
        for each in started.values():
            each.check_alive()


@pytest.fixture(scope="session")
def ministack(server: Callable[[str], Any]) -> Server:
    """Return the session's ministack."""
    found: Server = server("ministack")
    return found


@pytest.fixture(scope="session")
def moto(server: Callable[[str], Any]) -> Server:
    """Return the session's moto."""
    found: Server = server("moto")
    return found


@pytest.fixture(scope="session")
def seaweedfs(server: Callable[[str], Any]) -> Server:
    """Return the session's SeaweedFS."""
    found: Server = server("seaweedfs")
    return found


@pytest.fixture(scope="session")
def gcs(server: Callable[[str], Any]) -> GcsDouble:
    """Return the session's double of Google Cloud Storage."""
    found: GcsDouble = server("gcs")
    return found


@pytest.fixture(scope="session")
def azurite(server: Callable[[str], Any]) -> Azurite:
    """Return the session's Azurite."""
    found: Azurite = server("azurite")
    return found


@pytest.fixture
def bucket_factory() -> Iterator[Callable[..., str]]:
    """Return ``make(server, stem="test")``, which creates a bucket that goes away with the test.

    Further arguments are those of the server's own ``create_bucket``.
    """
    made: list[tuple[ServerProcess, str]] = []

    def make(on: ServerProcess, stem: str = "test", **how: Any) -> str:
        bucket = on.create_bucket(f"{stem}-{uuid4().hex[:12]}", **how)
        made.append((on, bucket))
        return bucket

    yield make
    for on, bucket in made:
        try:
            on.check_alive()
        except ServerFailed:
            continue  # a test may kill its server, and may leave it dead
        # A bucket left behind costs SeaweedFS whole volumes, and it runs out of them.
        on.remove_bucket(bucket)


@pytest.fixture(scope="session")
def adls(server: Callable[[str], Any]) -> AdlsDouble:
    """Return the session's double of Azure Data Lake Storage."""
    found: AdlsDouble = server("adls")
    return found
