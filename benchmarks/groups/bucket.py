"""A server of a group's own, and what a turn leaves there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pyarrow.dataset as ds
from pyarrow.fs import S3FileSystem

from benchmarks import data
from benchmarks.place import Place
from benchmarks.session import Session
from benchmarks.stub import Stub, TlsStub
from proofs.doubles.servers import SeaweedFS, Server

__all__ = ["Bucket", "on_seaweedfs", "on_stub", "on_tls_stub"]

_BATCH = 1000


@dataclass(frozen=True, slots=True)
class Bucket:
    """An empty bucket of a server that serves nobody else."""

    server: Server
    place: Place

    def take(self, where: str, *, files: int, size: int) -> None:
        """Hold what a turn has left against what it should have left, and delete it."""
        keys = self.server.visible_keys(self.place.bucket, f"{where}/")
        assert len(keys) == files, f"{where}: {len(keys)} files are there, not {files}"
        found = self.server.s3_client().head_object(Bucket=self.place.bucket, Key=keys[-1])
        assert found["ContentLength"] == size, (
            f"{where}: a file has {found['ContentLength']} bytes, not {size}"
        )
        self.clear(where)

    def take_rows(self, where: str, *, rows: int) -> int:
        """The same of a dataset; returns the bytes of its files."""
        endpoint = self.server.endpoint.removeprefix("http://")
        filesystem = S3FileSystem(
            access_key=self.server.access_key,
            secret_key=self.server.secret_key,
            region=self.server.region,
            scheme="http",
            endpoint_override=endpoint,
        )
        found = ds.dataset(f"{self.place.bucket}/{where}", filesystem=filesystem, partitioning="hive")
        assert set(data.PARTITION_COLUMNS) <= set(found.schema.names), f"{where}: no partitions"
        count = found.count_rows()
        assert count == rows, f"{where}: {count} rows are there, not {rows}"
        size = sum(int(one.size) for one in filesystem.get_file_info(found.files))
        self.clear(where)
        return size

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
def on_tls_stub(session: Session) -> Iterator[Bucket]:
    """The same, by TLS."""
    server = TlsStub()
    with _started(session, server) as bucket:
        place = replace(bucket.place, endpoint=server.tls_endpoint(), certificates=str(server.certificates()))
        yield replace(bucket, place=place)


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
