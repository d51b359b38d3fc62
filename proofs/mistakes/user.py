"""A user with a bucket of his own in memory: what he does, what he is told, and what lies there then."""

from __future__ import annotations

import asyncio
import io
import logging
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import unquote
from uuid import uuid4

import fsspec
import pyarrow.parquet as pq

import magicfs
from magicfs.datasets.read import files_of_dataset
from magicfs.engine import Engine
from magicfs.errors import MagicError, UsageError
from magicfs.manifests import chain
from magicfs.protocol import paths
from magicfs.stores.conditions import Conditions
from magicfs.stores.local.store import LocalStore
from magicfs.stores.memory.filesystem import MemoryFileSystem
from magicfs.stores.memory.store import MemoryStore, default_world
from magicfs.stores.port import Store
from magicfs.testing.faulty_store import Traffic, faulty
from magicfs.testing.store_faults import Actor, Fault
from proofs.scenes.arranged import arranged

__all__ = ["LocalUser", "Rows", "Seen", "User", "a_local_user", "a_user"]

Rows = Iterable[str]
"""Rows of text, in any order; a row that is there twice counts twice."""


class _Failing(MemoryFileSystem):
    """The memory of this process, through a store that fails as told."""

    def __init__(self, traffic: Traffic) -> None:
        super().__init__()
        self.traffic = traffic

    def store(self, bucket: str) -> Store:
        return faulty(super().store(bucket), self.traffic, Actor("user"))


@dataclass(frozen=True, slots=True)
class Seen:
    """What readers see."""

    listed: tuple[str, ...]  # rows of all files that a listing shows
    published: tuple[str, ...] | None  # rows of the files of the manifests; None if nothing was published
    broken: str = ""  # why the manifests cannot be read
    refused: str = ""  # what a reader of manifests is told in place of rows


@dataclass
class User:
    """Somebody who publishes rows of text at ``memory://BUCKET/sales``."""

    bucket: str
    told: list[str] = field(default_factory=list)
    """Warnings that the user got: of reports, of the log, of Python."""
    before: Seen = field(default_factory=lambda: Seen((), None))
    """What readers saw after the last job that ended well."""

    @property
    def url(self) -> str:
        """The destination."""
        return self.at("sales")

    def at(self, place: str) -> str:
        """The URL of another place in the bucket."""
        return f"memory://{self.bucket}/{place}"

    # -- what users do ---------------------------------------------------------------------------------

    def job(self, mode: Any = "append", *, url: str = "", **options: Any) -> magicfs.Job:
        """A job that is not set up."""
        return magicfs.Job(url or self.url, mode=mode, **arranged(**options))

    def publish(self, rows: Mapping[str, str], mode: Any = "append", **options: Any) -> magicfs.Job:
        """Publish files, a row each, in one task: as it is meant."""
        with self.job(mode, **options) as job, job.task(0) as task:
            self.write(task, rows)
        self.hear(job)
        return job

    def write(self, task: magicfs.Task, rows: Mapping[str, str]) -> None:
        """Write files, a row each, as it is meant."""
        for name, row in rows.items():
            with task.filesystem.open(f"{task.path}/{name}", "w") as file:
                file.write(f"{row}\n")

    def forget_options(self, task: magicfs.Task, rows: Mapping[str, str]) -> None:
        """Write files by their URLs, and leave ``storage_options=task.storage_options`` out."""
        for name, row in rows.items():
            with fsspec.open(task.url(name), "w") as file:
                file.write(f"{row}\n")

    def hear(self, job: magicfs.Job) -> None:
        """Read the warnings in the report of a job that has ended well."""
        self.heard(job.report)

    def heard(self, report: magicfs.JobReport) -> None:
        """Read the warnings in a report."""
        self.told += report.warnings
        self.before = self.sees()

    def failing(self, *faults: Fault) -> MemoryFileSystem:
        """The same bucket, by way of a store that fails."""
        return _Failing(Traffic(faults))

    # -- what happens in the bucket --------------------------------------------------------------------

    @property
    def store(self) -> Store:
        """The bucket, past every protocol."""
        return MemoryStore(self.bucket, default_world())

    def put(self, key: str, body: str) -> None:
        """Write an object past every protocol."""
        asyncio.run(self.store.put(key, body.encode()))

    def move(self, key: str, new: str) -> None:
        """Move an object, as ``aws s3 mv`` does."""

        async def work() -> None:
            seen = await self.store.head(key)
            await self.store.put(new, await self.store.get(key), metadata=seen.metadata)
            await self.store.delete([key])

        asyncio.run(work())

    def delete(self, prefix: str) -> None:
        """Delete every object below a prefix."""

        async def work() -> None:
            await self.store.delete([info.key async for info in self.store.list(prefix)])

        asyncio.run(work())

    def abort_uploads(self) -> None:
        """What a lifecycle rule of the bucket does to uploads that are too old."""

        async def work() -> None:
            for one in [one async for one in self.store.list_uploads("")]:
                await self.store.abort_upload(one.key, one.upload_id)

        asyncio.run(work())

    def keys(self, part: str = "") -> list[str]:
        """The keys of all objects that hold a text."""

        async def work() -> list[str]:
            return [info.key async for info in self.store.list("") if part in info.key]

        return asyncio.run(work())

    def uploads(self) -> list[str]:
        """The keys of all pending uploads."""

        async def work() -> list[str]:
            return [one.key async for one in self.store.list_uploads("")]

        return asyncio.run(work())

    # -- what readers see ------------------------------------------------------------------------------

    def sees(self, destination: str = "sales") -> Seen:
        """What is visible at a destination."""
        return asyncio.run(self._sees(destination))

    async def _sees(self, destination: str) -> Seen:
        location = paths.parse_url(self.at(destination))
        listed = [info.key async for info in self.store.list(paths.prefix_of(location.key))]
        shown = await self._rows(key for key in listed if _is_data(key, location.key))
        try:
            if await chain.view(self.store, location.key, Conditions()) is None:
                return Seen(shown, None)
            files = await files_of_dataset(Engine(self.store, 1), location, False)
            return Seen(shown, await self._rows(paths.join(location.key, name) for name in files))
        except UsageError as error:
            return Seen(shown, None, refused=f"magicfs.Dataset: {error}")
        except (MagicError, FileNotFoundError) as error:
            return Seen(shown, None, f"{type(error).__name__}: {error}")

    async def _rows(self, keys: Iterable[str]) -> tuple[str, ...]:
        bodies = {key: await self.store.get(key) for key in keys}
        return tuple(sorted(row for key, body in bodies.items() for row in _rows_of(key, body)))


@dataclass
class LocalUser(User):
    """The same at ``file://``, in a directory of this machine, whose path is ``bucket``."""

    def at(self, place: str) -> str:
        """The URL of another place in the directory."""
        return f"file://{self.bucket}/{place}"

    @property
    def store(self) -> Store:
        """The files of this machine."""
        return LocalStore("")


def _rows_of(key: str, body: bytes) -> list[str]:
    """The lines of a file; of a Parquet file its rows, each behind the partition that its directory names."""
    if not key.endswith(".parquet"):
        return body.decode().splitlines()
    names = [unquote(name) for name in key.split("/") if "=" in name]
    table = pq.ParquetFile(io.BytesIO(body)).read()
    values = [[f"{name}={value}" for name, value in row.items()] for row in table.to_pylist()]
    return [" ".join([*names, *row]) for row in values]


def _is_data(key: str, destination: str) -> bool:
    """As Spark decides: a name that begins with ``_`` or ``.`` is hidden, unless it is a partition's."""
    names = paths.relative_to(key, destination).split("/")
    return not any(name[:1] in {"_", "."} and "=" not in name for name in names)


@contextmanager
def a_user() -> Iterator[User]:
    """A user whose bucket is forgotten afterwards; warnings reach him."""
    user = User(f"mistakes-{uuid4().hex[:8]}")
    default_world().create_bucket(user.bucket)
    try:
        with _hearing(user):
            yield user
    finally:
        default_world().delete_bucket(user.bucket)


@contextmanager
def a_local_user() -> Iterator[User]:
    """A user whose directory is removed afterwards; warnings reach him."""
    with TemporaryDirectory(prefix="mistakes-") as directory, _hearing(LocalUser(directory)) as user:
        yield user


@contextmanager
def _hearing(user: User) -> Iterator[User]:
    handler = _Hears(user.told.append)
    log = logging.getLogger("magicfs")
    log.addHandler(handler)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield user
        user.told += [str(one.message) for one in caught if not issubclass(one.category, ResourceWarning)]
    finally:
        log.removeHandler(handler)


class _Hears(logging.Handler):
    def __init__(self, hear: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._hear = hear

    def emit(self, record: logging.LogRecord) -> None:
        self._hear(record.getMessage())
