"""A server of a group's own, and what a turn leaves there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks.place import Place
from benchmarks.session import Session
from benchmarks.stub import Stub
from magicfs.testing.servers import SeaweedFS, Server

__all__ = ["Bucket", "on_seaweedfs", "on_stub"]

_BATCH = 1000


@dataclass(frozen=True, slots=True)
class Bucket:
    """An empty bucket of a server that serves nobody else."""

    server: Server
    place: Place

    def clear(self, where: str) -> None:
        """Delete what lies below a key; that is not measured."""
        client, bucket = self.server.s3_client(), self.place.bucket
        keys = self.server.all_keys(bucket, where)
        for start in range(0, len(keys), _BATCH):
            batch = [{"Key": key} for key in keys[start : start + _BATCH]]
            client.delete_objects(Bucket=bucket, Delete={"Objects": batch, "Quiet": True})


@contextmanager
def on_stub(session: Session) -> Iterator[Bucket]:
    """A bucket of the stub."""
    with _started(session, Stub()) as bucket:
        yield bucket


@contextmanager
def on_seaweedfs(session: Session) -> Iterator[Bucket]:
    """A bucket of SeaweedFS."""
    with _started(session, SeaweedFS()) as bucket:
        yield bucket


@contextmanager
def _started(session: Session, server: Server) -> Iterator[Bucket]:
    with server:
        session.versions[server.name] = server.version
        yield Bucket(server, Place.of(server, server.create_bucket("bench")))
