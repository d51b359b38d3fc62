"""One job for each file that a library writes: begun when it is opened, published when it is closed."""

from __future__ import annotations

import functools
import os
import posixpath
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

from fsspec.spec import AbstractFileSystem

import magicfs
from magicfs.filesystem.upload import DelayedFile
from magicfs.stores.memory.filesystem import MemoryFileSystem
from magicfs.stores.memory.store import World

__all__ = ["COUNT_FILE", "Publication", "in_place", "landing"]

COUNT_FILE = "FOREIGN_COUNT_FILE"
"""Environment variable: where each process adds a byte for each file that was published from a task."""

_RECORDS = ("_SUCCESS", "_magicfs")
_opening = threading.local()  # the publication whose file a thread is opening
_one_at_a_time = threading.RLock()


class Publication:
    """A job with one task and one file.

    Args:
        store: The filesystem that the job wraps.
        bucket: The destination, a whole bucket.
        key: The file.
        published: Called with the task's filesystem after the job commit.
    """

    def __init__(
        self,
        store: AbstractFileSystem,
        bucket: str,
        key: str,
        published: Callable[[AbstractFileSystem], None],
    ) -> None:
        self._store = store
        self._bucket = bucket
        self._final = f"{bucket}/{key}"
        self._published = published
        self._ended = False
        scheme = store.protocol if isinstance(store.protocol, str) else store.protocol[0]
        self._job = magicfs.Job(
            f"{scheme}://{bucket}", filesystem=store, mode="append", options={"unique_names": False}
        )
        with _one_at_a_time:
            self._job.setup()
        self._task = self._job.task(0).setup()
        self.filesystem = self._task.filesystem
        self.path = f"{self._task.path}/{key}"

    def open(self, mode: str, options: dict[str, Any]) -> Any:
        """Open the file in the task; closing it publishes, aborting it aborts the job."""
        _listen_to_files()
        _opening.publication = self
        try:
            return self.filesystem.open(self.path, mode, **options)
        except BaseException:
            self.abort()
            raise
        finally:
            _opening.publication = None

    def write(self, write: Callable[[AbstractFileSystem, str], object]) -> None:
        """Write the file by one call of the filesystem and publish."""
        try:
            write(self.filesystem, self.path)
        except BaseException:
            self.abort()
            raise
        self.publish()

    def publish(self) -> None:
        """Commit task and job."""
        self._ended = True
        commit = self._task.commit()
        with _one_at_a_time:
            # A job that appends replaces nothing; what is overwritten has to go before.
            self._store.rm_file(self._final)
            report = self._job.commit([commit])
            # A suite that lists its bucket expects its own files there.
            for name in _RECORDS:
                self._store.rm(f"{self._bucket}/{name}", recursive=True)
        assert report.files == 1, report
        _count(report.files)
        self._published(self.filesystem)

    def abort(self) -> None:
        """Discard the file and its job."""
        if not self._ended:
            self._ended = True
            self._task.abort()
            self._job.abort()


def in_place(
    store: AbstractFileSystem, path: str, published: Callable[[AbstractFileSystem], None]
) -> Publication:
    """A publication in the very bucket in which the suite expects the file."""
    bucket, _, key = path.partition("/")
    return Publication(store, bucket, key, published)


def landing(path: str, land: Callable[[bytes], None]) -> Publication:
    """A publication in a bucket in memory of its own; its bytes then land where the suite expects them.

    For fsspec's memory filesystem, which cannot delay an upload, and files, which suites name as they like.
    """
    store = MemoryFileSystem(world=World())
    bucket, key = f"foreign-{uuid4().hex}", posixpath.normpath(path.replace("//", "/")).strip("/")
    store.mkdir(bucket)
    return Publication(store, bucket, key, lambda filesystem: land(filesystem.cat_file(f"{bucket}/{key}")))


@functools.cache
def _listen_to_files() -> None:
    """Let every delayed file of this process publish the job that was begun for it, when it is closed."""
    make, abort = DelayedFile.__init__, DelayedFile.abort

    @functools.wraps(make)
    def make_for_publication(self: DelayedFile, *args: Any, **kwargs: Any) -> None:
        self.publication = getattr(_opening, "publication", None)  # type: ignore[attr-defined]
        make(self, *args, **kwargs)

    def then_publish(end: Callable[[DelayedFile], None]) -> Callable[[DelayedFile], None]:
        @functools.wraps(end)
        def end_and_publish(self: DelayedFile) -> None:
            was = self._sink.state
            end(self)
            if was != "committed" and self._sink.state == "committed":
                self.publication.publish()  # type: ignore[attr-defined]

        return end_and_publish

    @functools.wraps(abort)
    def abort_all(self: DelayedFile) -> None:
        abort(self)
        self.publication.abort()  # type: ignore[attr-defined]

    DelayedFile.__init__ = make_for_publication  # type: ignore[method-assign]
    DelayedFile.close = then_publish(DelayedFile.close)  # type: ignore[assignment]
    DelayedFile.commit = then_publish(DelayedFile.commit)  # type: ignore[assignment]
    DelayedFile.abort = abort_all  # type: ignore[method-assign]


def _count(files: int) -> None:
    with Path(os.environ[COUNT_FILE]).open("ab") as file:
        file.write(b"." * files)
