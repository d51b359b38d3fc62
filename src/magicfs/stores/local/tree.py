"""The tree of files of this machine, or of a filesystem that is mounted here."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import stat
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from magicfs.errors import ObjectExists, ObjectNotFound, StoreError
from magicfs.protocol import paths
from magicfs.runtime.parallel import gathered
from magicfs.stores.local import errors
from magicfs.stores.local import files as local_files
from magicfs.stores.local.held import NOT_EMPTY
from magicfs.stores.local.places import NotOursError, Places, is_own
from magicfs.stores.port import ObjectInfo
from magicfs.stores.tree_port import Entry, Renamed, check_path

_T = TypeVar("_T")

# Somebody who writes into what is deleted may be faster; nobody is so for ever.
_TRIES = 500
_ELSEWHERE = "choose another path"
# Renames of one thread: a thread for each would take longer than most of them do.
_AT_ONCE = 64


class LocalTree:
    """Files and directories below a directory; see ``magicfs.stores.tree_port.Tree`` for the contract.

    The path that a call names is followed where it is a symbolic link to a directory; links that are found
    in directories are files, whatever they lead to, and are renamed and deleted as links.

    A rename is rename(2): one step, also between programs; on a network filesystem as far as that keeps
    it. Where a directory leads to another device, a file is copied there and then deleted, which is two
    steps, and a directory cannot be renamed. Temporary files of writers are not shown, but keep a directory
    from being empty until they are gone.
    """

    name = "file"

    def __init__(self, bucket: str = "") -> None:
        self.bucket = bucket
        self._root = Path(f"{bucket}/")

    async def is_atomic(self) -> bool:
        return True

    async def make_directory(self, path: str) -> None:
        await self._run("make_directory", path, self._make_directory)

    def _make_directory(self, path: str) -> None:
        try:
            local_files.make_directories_of(self._root, f"{path}/")
        except NotADirectoryError as error:
            problem = "there is a file, or a parent is a file"
            raise ObjectExists("make_directory", self._place(path), problem, hint=_ELSEWHERE) from error

    async def look(self, path: str) -> Entry | None:
        return await self._run("look", path, self._look)

    def _look(self, path: str) -> Entry | None:
        if not is_own(path) and self._path(path).is_dir():
            return Entry(path, "directory")
        try:
            return _entry(path, local_files.describe(self._root, path))
        except (FileNotFoundError, NotADirectoryError):
            self._require_bucket()
            return None

    async def entries(self, path: str) -> AsyncIterator[Entry]:
        for entry in await self._run("entries", path, self._entries):
            yield entry

    def _entries(self, path: str) -> list[Entry]:
        prefix = paths.prefix_of(path)
        try:
            found = local_files.children(self._root, path, prefix)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise self._missing("entries", path, "no such directory") from error
        return [_entry(f"{prefix}{name}", info) for name, info in found]

    async def rename(self, source: str, destination: str) -> None:
        for path in (source, destination):
            self._check("rename", path, whole_bucket=False)
        if paths.is_under(destination, source):
            problem = f"{destination!r} lies below it"
            raise StoreError("rename", self._place(source), problem, hint=_ELSEWHERE)
        await self._run("rename", source, partial(self._rename, destination=destination))

    def _rename(self, source: str, destination: str) -> bool:
        """Rename a file or directory; whether it was copied to another device."""
        with Places(self._root) as sources, Places(self._root) as targets:
            try:
                name, directory = sources.at(source)
                target, target_directory = targets.at(destination)
                try:
                    os.rename(name, target, src_dir_fd=directory, dst_dir_fd=target_directory)
                    return False
                except OSError as error:
                    held = os.stat(name, dir_fd=directory, follow_symlinks=False)
                    if error.errno != errno.EXDEV or not stat.S_ISREG(held.st_mode):
                        raise
                    self._move_to_other_device(source, destination)
                    os.unlink(name, dir_fd=directory)
                    return True
            except NotOursError:
                raise
            except OSError as error:
                raise self._why(error, source, destination) from error

    def _move_to_other_device(self, source: str, destination: str) -> None:
        """Copy a file, which appears whole; who deletes the source then may begin again after a death."""
        with local_files.opened(self._root, source) as file:
            held = os.fstat(file.fileno())
            fill = partial(local_files.copy_into, source=file)
            # By its time the copy is told to be the file.
            local_files.write(self._root, destination, fill, changed_ns=held.st_mtime_ns, like=held)

    def _why(self, error: OSError, source: str, destination: str) -> StoreError:
        """What stood in the way of a rename."""
        parent, _, _ = destination.rpartition("/")
        if not self._is_there(source):
            return self._missing("rename", source, "no such file or directory")
        if error.errno in {errno.ENOENT, errno.ENOTDIR} and not self._path(parent).is_dir():
            return self._missing("rename", destination, f"no directory {parent!r}", "create it first")
        if error.errno in NOT_EMPTY:
            problem = "there is a directory that is not empty"
            return ObjectExists("rename", self._place(destination), problem, hint=_ELSEWHERE)
        if error.errno in {errno.EISDIR, errno.ENOTDIR}:
            kind = "directory" if error.errno == errno.EISDIR else "file"
            return ObjectExists("rename", self._place(destination), f"a {kind} is there", hint=_ELSEWHERE)
        return errors.translate(error, "rename", self._place(source))

    async def rename_all(self, files: Sequence[tuple[str, str]], concurrency: int) -> Renamed:
        for one in files:
            for path in one:
                self._check("rename", path, whole_bucket=False)
        found: Renamed = {}
        failed: list[StoreError] = []

        def work(start: int) -> None:
            with Places(self._root) as sources, Places(self._root) as targets:
                for place, (source, destination) in enumerate(files[start : start + _AT_ONCE], start):
                    if failed:
                        return
                    found[place] = met = self._rename_into(sources, source, targets, destination)
                    if isinstance(met, StoreError) and not isinstance(met, ObjectNotFound):
                        failed.append(met)

        starts = range(0, len(files), _AT_ONCE)
        await gathered(starts, lambda start: asyncio.to_thread(work, start), concurrency)
        return found

    def _rename_into(
        self, sources: Places, source: str, targets: Places, destination: str
    ) -> StoreError | str | None:
        try:
            try:
                name, directory = sources.at(source)
                target, target_directory = targets.at(destination)
                os.rename(name, target, src_dir_fd=directory, dst_dir_fd=target_directory)
            except NotOursError:
                raise
            except OSError:
                if self._is_there(source):
                    self._make_directory(destination.rpartition("/")[0])
                if self._rename(source, destination):
                    return local_files.info_of(destination, self._path(destination).stat()).etag
        except StoreError as error:
            return error
        except OSError as error:
            return errors.translate(error, "rename", self._place(source))
        return None

    async def delete(self, path: str) -> bool:
        return await self._run("delete", path, self._delete, whole_bucket=False)

    def _delete(self, path: str) -> bool:
        try:
            return self._removed(path, os.rmdir, again={errno.EISDIR})
        except OSError as error:
            if error.errno not in NOT_EMPTY:
                raise
            hint = "delete its contents first"
            raise StoreError("delete", self._place(path), "the directory is not empty", hint=hint) from error

    async def delete_tree(self, path: str) -> bool:
        return await self._run("delete_tree", path, self._delete_tree, whole_bucket=False)

    def _delete_tree(self, path: str) -> bool:
        # Rmtree raises an error without a number where a directory is another one than a moment ago.
        return self._removed(path, shutil.rmtree, again={errno.EISDIR, None, *NOT_EMPTY})

    def _removed(self, path: str, remove: Callable[..., object], again: Collection[int | None]) -> bool:
        """Delete a directory by a function, or a file; whether something was there."""
        there = False
        for _ in range(_TRIES):
            try:
                with Places(self._root) as places:
                    name, directory = places.at(path)
                    if stat.S_ISDIR(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
                        remove(name, dir_fd=directory)
                    else:
                        os.unlink(name, dir_fd=directory)
            except (FileNotFoundError, NotADirectoryError):
                if not self._is_there(path):
                    self._require_bucket()
                    return there
            except OSError as error:
                if error.errno not in again:
                    raise
            else:
                return True
            there = True  # and others write or delete here meanwhile
        raise OSError(errno.EBUSY, f"other processes wrote here each of {_TRIES} times")

    async def write(self, path: str, body: bytes, *, if_absent: bool = False) -> None:
        work = partial(self._write, body=body, if_absent=if_absent)
        await self._run("write", path, work, whole_bucket=False)

    def _write(self, path: str, body: bytes, if_absent: bool) -> None:
        fill = partial(local_files.write_into, body=body)
        try:
            local_files.write(self._root, path, fill, if_absent=if_absent)
        except (FileExistsError, IsADirectoryError, NotADirectoryError) as error:
            problem = "there is something, or a parent is a file"
            raise ObjectExists("write", self._place(path), problem, hint=_ELSEWHERE) from error

    async def read(self, path: str, *, size_max: int | None = None) -> bytes:
        return await self._run("read", path, partial(self._read, size_max=size_max), whole_bucket=False)

    def _read(self, path: str, size_max: int | None) -> bytes:
        try:
            with local_files.opened(self._root, path) as file:
                return local_files.read_from(file, size_max)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise self._missing("read", path, "no such file") from error

    async def _run(
        self, operation: str, path: str, work: Callable[[str], _T], *, whole_bucket: bool = True
    ) -> _T:
        self._check(operation, path, whole_bucket=whole_bucket)
        with errors.translated(operation, self._place(path)):
            return await asyncio.to_thread(work, path)

    def _check(self, operation: str, path: str, *, whole_bucket: bool) -> None:
        check_path(operation, self.bucket, path, whole_bucket=whole_bucket)

    def _is_there(self, path: str) -> bool:
        try:
            with Places(self._root) as places:
                name, directory = places.at(path)
                os.stat(name, dir_fd=directory, follow_symlinks=False)
        except OSError:
            return False
        return True

    def _require_bucket(self) -> None:
        if not self._root.is_dir():
            raise FileNotFoundError(errno.ENOENT, f"no directory {self.bucket!r}")

    def _missing(
        self, operation: str, path: str, problem: str, hint: str = "check the path"
    ) -> ObjectNotFound:
        return ObjectNotFound(operation, self._place(path), problem, hint=hint)

    def _path(self, path: str) -> Path:
        return self._root / path

    def _place(self, path: str) -> str:
        return f"{self.bucket}/{path}"


def _entry(path: str, info: ObjectInfo | None) -> Entry:
    return Entry(path, "directory") if info is None else Entry(path, "file", info.size, info.etag)
