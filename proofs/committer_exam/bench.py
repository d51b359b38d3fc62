"""Where a committer is examined: one empty bucket, and a witness who looks past the committer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any, Protocol, TypeVar
from uuid import uuid4

from fsspec.asyn import get_loop, sync

from magicfs.errors import UsageError
from magicfs.stores.memory import MemoryStore, default_world
from magicfs.testing.bucket_view import BucketView

__all__ = ["Bench", "LocalBench", "MemoryBench", "ServerBench"]

_T = TypeVar("_T")


class Bench(Protocol):
    """One bucket that is empty when a test begins.

    Attributes:
        url: ``scheme://bucket``.
        server_name: Tells the server from others of its kind.
    """

    url: str
    server_name: str

    def options(self) -> dict[str, Any]:
        """What ``Job`` needs to get here; it must survive pickling, so secrets come from the environment."""

    def listed(self, prefix: str = "") -> list[str]:
        """Every key that begins with the prefix, sorted."""

    def pending(self, prefix: str = "") -> set[tuple[str, str]]:
        """Key and id of every open upload whose key begins with the prefix."""

    def read(self, key: str) -> bytes:
        """The body of an object."""

    def metadata(self, key: str) -> dict[str, str]:
        """The user metadata of an object, names in lower case."""

    def write(self, key: str, body: bytes) -> None:
        """Write an object, as somebody else would."""

    def open_upload(self, key: str) -> str:
        """Open an upload, as somebody else would; returns its id."""

    def abort_upload(self, key: str, upload_id: str) -> None:
        """Abort an upload, as somebody else would."""


class MemoryBench:
    """A bucket of ``memory://``; leave it by ``close``."""

    def __init__(self) -> None:
        self.bucket = f"exam-{uuid4().hex[:12]}"
        self.url = f"memory://{self.bucket}"
        self.server_name = ""
        default_world().create_bucket(self.bucket)
        self._store = MemoryStore(self.bucket)

    def close(self) -> None:
        """Forget the bucket."""
        default_world().delete_bucket(self.bucket)

    def options(self) -> dict[str, Any]:
        return {}

    def listed(self, prefix: str = "") -> list[str]:
        return sorted(info.key for info in _run(_collected(self._store.list(prefix))))

    def pending(self, prefix: str = "") -> set[tuple[str, str]]:
        return {(info.key, info.upload_id) for info in _run(_collected(self._store.list_uploads(prefix)))}

    def read(self, key: str) -> bytes:
        return _run(self._store.get(key))

    def metadata(self, key: str) -> dict[str, str]:
        return dict(_run(self._store.head(key)).metadata)

    def write(self, key: str, body: bytes) -> None:
        _run(self._store.put(key, body))

    def open_upload(self, key: str) -> str:
        return _run(self._store.create_upload(key, metadata={}))

    def abort_upload(self, key: str, upload_id: str) -> None:
        _run(self._store.abort_upload(key, upload_id))


class LocalBench:
    """A directory of this machine in the place of a bucket.

    Args:
        directory: Where; it is made.
    """

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True)
        self.directory = directory
        self.url = f"file://{directory}"
        self.server_name = str(directory)

    def options(self) -> dict[str, Any]:
        return {}

    def listed(self, prefix: str = "") -> list[str]:
        keys = (str(path.relative_to(self.directory)) for path in self.directory.rglob("*") if path.is_file())
        return sorted(key for key in keys if key.startswith(prefix))

    def pending(self, prefix: str = "") -> set[tuple[str, str]]:  # noqa: ARG002
        return set()

    def read(self, key: str) -> bytes:
        return (self.directory / key).read_bytes()

    def metadata(self, key: str) -> dict[str, str]:  # noqa: ARG002
        return {}

    def write(self, key: str, body: bytes) -> None:
        path = self.directory / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)

    def open_upload(self, key: str) -> str:
        raise UsageError(f"{key}: a filesystem has no uploads")

    def abort_upload(self, key: str, upload_id: str) -> None:
        raise UsageError(f"{key}: a filesystem has no upload {upload_id}")


class ServerBench:
    """A bucket of an S3 server, watched by plain botocore.

    Args:
        server: Where it is.
        bucket: A new bucket.
        endpoint: Another way to the server, such as a fault proxy; only jobs take it.
    """

    def __init__(self, server: BucketView, bucket: str, endpoint: str | None = None) -> None:
        self.server = server
        self.bucket = bucket
        self.url = f"s3://{bucket}"
        self.server_name = server.endpoint
        self._endpoint = endpoint

    def environment(self) -> dict[str, str]:
        """Environment variables that hold the credentials: no pickle carries them."""
        return {
            "AWS_ACCESS_KEY_ID": self.server.access_key,
            "AWS_SECRET_ACCESS_KEY": self.server.secret_key,
        }

    def options(self) -> dict[str, Any]:
        plain = {k: v for k, v in self.server.storage_options().items() if k not in {"key", "secret"}}
        if self._endpoint is not None:
            plain["endpoint_url"] = self._endpoint
        # s3fs keeps an instance for the same options, with the credentials it once found for them.
        plain["config_kwargs"] = {"user_agent_extra": "magicfs-committer-exam"}
        return {"storage_options": plain}

    def listed(self, prefix: str = "") -> list[str]:
        return self.server.all_keys(self.bucket, prefix)

    def pending(self, prefix: str = "") -> set[tuple[str, str]]:
        return {(u["Key"], u["UploadId"]) for u in self.server.pending_uploads(self.bucket, prefix)}

    def read(self, key: str) -> bytes:
        body: bytes = self._client().get_object(Bucket=self.bucket, Key=key)["Body"].read()
        return body

    def metadata(self, key: str) -> dict[str, str]:
        found = self._client().head_object(Bucket=self.bucket, Key=key)["Metadata"]
        return {name.lower(): value for name, value in found.items()}

    def write(self, key: str, body: bytes) -> None:
        self._client().put_object(Bucket=self.bucket, Key=key, Body=body)

    def open_upload(self, key: str) -> str:
        return str(self._client().create_multipart_upload(Bucket=self.bucket, Key=key)["UploadId"])

    def abort_upload(self, key: str, upload_id: str) -> None:
        self._client().abort_multipart_upload(Bucket=self.bucket, Key=key, UploadId=upload_id)

    def _client(self) -> Any:
        return self.server.s3_client()


def _run(awaitable: Coroutine[Any, Any, _T]) -> _T:
    result: _T = sync(get_loop(), lambda: awaitable)
    return result


async def _collected(items: AsyncIterator[_T]) -> list[_T]:
    return [item async for item in items]
