"""The exam of the store of local files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from magicfs.stores.local import LocalStore
from magicfs.stores.local_files import UPLOADS
from magicfs.stores.port import Store
from magicfs.testing.store_exam.suite import FileStoreExam

__all__ = ["LocalFiles", "LocalStoreExam"]


class LocalFiles:
    """The ground of an exam: a directory of its own for each test."""

    @pytest.fixture(autouse=True)
    def _directory(self, tmp_path: Path) -> Iterator[None]:
        self.directory = tmp_path / "bucket"
        self.directory.mkdir()
        yield
        assert not list(tmp_path.rglob("*.tmp")), "a temporary file was left"
        for uploads in tmp_path.rglob(UPLOADS):
            # Those that the test has left open are whole, and nothing else lies beside them.
            left = sorted(uploads.iterdir())
            assert left, "an empty directory of uploads was left"
            assert all((one / "upload.json").is_file() for one in left), "half an upload was left"

    def local_store(self, bucket: str | None = None) -> LocalStore:
        """The store of the directory; another bucket is a directory beside."""
        return LocalStore(str(self.directory.parent / (bucket or self.directory.name)))

    def peek(self, key: str) -> bytes | None:
        """What is in the file."""
        try:
            return (self.directory / key).read_bytes()
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None

    def poke(self, key: str, body: bytes) -> None:
        """Write the file beside and put it in its place, as careful programs do."""
        path = self.directory / key
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = self.directory.parent / "poked"
        beside.write_bytes(body)
        beside.replace(path)


class LocalStoreExam(LocalFiles, FileStoreExam):
    """The exam of the store of local files."""

    def make_store(self, bucket: str | None = None) -> Store:
        """The store under exam."""
        return self.local_store(bucket)
