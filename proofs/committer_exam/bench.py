"""Where a committer is examined: one empty bucket, and a witness who looks past the committer."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any, Protocol, TypeVar
from uuid import uuid4

from fsspec.asyn import get_loop, sync
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.local import LocalFileSystem

from magicfs.stores.local.held import UPLOADS
from magicfs.stores.local.store import LocalStore
from magicfs.stores.local.tree import LocalTree
from magicfs.stores.memory.store import MemoryStore, default_world
from magicfs.stores.port import Store
from proofs.doubles.bucket_view import BucketView

__all__ = ["Bench", "DirectoryBench", "LocalBench", "MemoryBench", "NumberedServerBench", "ServerBench"]

_T = TypeVar("_T")

_VERSION = re.compile(r"\.\d{5,9}\.json$")


class Bench(Protocol):
    """One bucket that is empty when a test begins.

    Attributes:
        url: ``scheme://bucket``.
        server_name: Tells the server from others of its kind.
        uploads_apart: As in ``Capabilities`` of its store.
    """

    url: str
    server_name: str
    uploads_apart: bool

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
        self.uploads_apart = True
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
        self._store = LocalStore(str(directory))
        self.uploads_apart = True

    def options(self) -> dict[str, Any]:
        return {}

    def listed(self, prefix: str = "") -> list[str]:
        keys = (str(path.relative_to(self.directory)) for path in self.directory.rglob("*") if path.is_file())
        return sorted(key for key in keys if key.startswith(prefix) and UPLOADS not in key)

    def pending(self, prefix: str = "") -> set[tuple[str, str]]:
        uploads = _run(_collected(self._store.list_uploads(prefix)))
        return {(info.key, info.upload_id) for info in uploads}

    def read(self, key: str) -> bytes:
        return (self.directory / key).read_bytes()

    def metadata(self, key: str) -> dict[str, str]:  # noqa: ARG002
        return {}

    def write(self, key: str, body: bytes) -> None:
        path = self.directory / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)

    def open_upload(self, key: str) -> str:
        return _run(self._store.create_upload(key, metadata={}))

    def abort_upload(self, key: str, upload_id: str) -> None:
        _run(self._store.abort_upload(key, upload_id))


class FilesBelow(DirFileSystem):
    """The directories in a directory as buckets: their files have short keys, as on a store."""

    protocol = "files"
    async_impl = False
    asynchronous = False

    def store(self, bucket: str) -> Store:
        """The store behind one of the directories."""
        return DirectoryStore(Path(self.path) / bucket)


class DirectoryStore(LocalStore):
    """A directory as a bucket of its own name, by which jobs call it as on a store."""

    def __init__(self, directory: Path) -> None:
        super().__init__(str(directory))
        self.bucket = directory.name
        self._directory = str(directory)

    @property
    def identity(self) -> str:
        return f"directory:{self._directory}"

    def tree(self) -> LocalTree:
        """As files and directories."""
        return LocalTree(self._directory)


class DirectoryBench(LocalBench):
    """The same, where jobs take the directory for a bucket and so name their files as the exam does.

    The versions of the job object, and of the pointer, count as one file: the newest.
    """

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.url = f"files://{directory.name}"

    def options(self) -> dict[str, Any]:
        return {"filesystem": FilesBelow(str(self.directory.parent), LocalFileSystem(auto_mkdir=True))}

    def listed(self, prefix: str = "") -> list[str]:
        return _without_versions(super().listed(prefix))

    def read(self, key: str) -> bytes:
        return super().read(_newest(key, super().listed))


class ServerBench:
    """A bucket of a server, watched by plain clients of its kind.

    Args:
        server: Where it is.
        bucket: A new bucket.
        endpoint: Another way to the server, such as a fault proxy; only jobs take it.
    """

    def __init__(self, server: BucketView, bucket: str, endpoint: str | None = None) -> None:
        self.server = server
        self.bucket = bucket
        self.url = f"{server.scheme}://{bucket}"
        self.server_name = server.endpoint
        self.uploads_apart = server.uploads_apart
        self._endpoint = endpoint or server.endpoint

    def environment(self) -> dict[str, str]:
        """Environment variables that hold the credentials: no pickle carries them."""
        return self.server.credentials()

    def options(self) -> dict[str, Any]:
        return {"storage_options": self.server.plain_options(self._endpoint)}

    def listed(self, prefix: str = "") -> list[str]:
        return self.server.all_keys(self.bucket, prefix)

    def pending(self, prefix: str = "") -> set[tuple[str, str]]:
        return self.server.uploads(self.bucket, prefix)

    def read(self, key: str) -> bytes:
        body = self.server.read(self.bucket, key)
        assert body is not None, f"nothing is at {key}"
        return body

    def metadata(self, key: str) -> dict[str, str]:
        return self.server.metadata(self.bucket, key)

    def write(self, key: str, body: bytes) -> None:
        self.server.write(self.bucket, key, body)

    def open_upload(self, key: str) -> str:
        return self.server.open_upload(self.bucket, key)

    def abort_upload(self, key: str, upload_id: str) -> None:
        self.server.abort_upload(self.bucket, key, upload_id)


class NumberedServerBench(ServerBench):
    """A bucket of a server that honours no If-Match; versions count as one file, as in ``DirectoryBench``."""

    def listed(self, prefix: str = "") -> list[str]:
        return _without_versions(super().listed(prefix))

    def read(self, key: str) -> bytes:
        return super().read(_newest(key, super().listed))


def _without_versions(keys: list[str]) -> list[str]:
    return [key for key in keys if not _VERSION.search(key)]


def _newest(key: str, listed: Callable[[str], list[str]]) -> str:
    """The newest version of what may be numbered."""
    stem = key.removesuffix(".json")
    if stem == key:
        return key
    versions = [one for one in listed(f"{stem}.") if _VERSION.fullmatch(one, len(stem))]
    return versions[-1] if versions else key


def _run(awaitable: Coroutine[Any, Any, _T]) -> _T:
    result: _T = sync(get_loop(), lambda: awaitable)
    return result


async def _collected(items: AsyncIterator[_T]) -> list[_T]:
    return [item async for item in items]
