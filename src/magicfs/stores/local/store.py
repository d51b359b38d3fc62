"""Files of this machine, or of a filesystem that is mounted here, as a store.

The bucket is the empty string and a key is an absolute path without its first slash, so that
``file:///tmp/x/y`` is the key ``tmp/x/y``; or the bucket is the absolute path of a directory, which must be
there. What differs from an object store:

* Names are those of files: nothing lies below an object, and elements are neither empty nor ``.`` nor ``..``.
* ``put`` with ``CREATE`` is atomic, by a hard link. ``Update`` is unsupported: a filesystem has no
  compare-and-swap. ``delete_matching`` looks and then deletes; in between another writer may come.
* An upload is a hidden directory beside the file that it becomes, by one rename; see ``uploads``. It
  takes any number of bytes a part, and has no metadata but in its record. ``complete_upload`` with
  ``if_absent`` is a hard link, and atomic.
* An object has no metadata. Its ETag is made of inode, time and size: it stays the same when the file is
  renamed, and a program that changes a file in place may keep it within one tick of the clock.
* ``delete`` leaves directories, empty ones too; ``Tree.delete_tree`` removes them. Listings do not show them.
  Only directories below a magic one, in which jobs work, go with the last of their files.
* A symbolic link is an object of its own: read and described as the file that it leads to, deleted and
  replaced as a link. Listings do not enter one that leads to a directory, so they never leave the tree; but a
  key that names a place behind it leads there, as for every program.
* A request that is cancelled may take place all the same.
"""

from __future__ import annotations

import builtins
import contextlib
import errno
import io
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from functools import partial
from io import BufferedReader
from pathlib import Path
from typing import Any, TypeVar, TypeVarTuple

from magicfs.errors import (
    ObjectExists,
    ObjectNotFound,
    PreconditionFailed,
    StoreError,
    Unsupported,
    UploadNotFound,
    UsageError,
)
from magicfs.protocol import file_options, paths
from magicfs.protocol.parts import PartLimits, check_number, check_order
from magicfs.stores.local import errors, files, listing, uploads
from magicfs.stores.local import parts as local_parts
from magicfs.stores.local.listing import calls_below
from magicfs.stores.local.parts import OpenUpload, PlacedFile, WrongPartsError
from magicfs.stores.local.tree import LocalTree
from magicfs.stores.object_settings import PlacedPart
from magicfs.stores.port import (
    RIGHTS_OF,
    Body,
    Capabilities,
    ObjectInfo,
    Part,
    PartBody,
    PutMode,
    Update,
    UploadInfo,
    Uploads,
)
from magicfs.stores.tree_port import Tree

_Ts = TypeVarTuple("_Ts")
_T = TypeVar("_T")

_SMALL_BYTES = 2**16  # of a file that is read at once
_RENAME, _MAKE = "choose another name", "make the directory first"
_NO_MATCH = "a filesystem cannot replace a file conditionally"


class LocalStore:
    """Files below a directory; see ``magicfs.stores.port.Store`` for the contract.

    The bucket is empty for the whole machine, or the absolute path of a directory, without a slash at its
    end.
    """

    name = "file"
    capabilities: Capabilities = Capabilities(
        rename="atomic",
        metadata=False,
        directories=True,
        parts=PartLimits(size_min=1),
        uploads=Uploads(placed=True),
        puts_files=False,  # there is no place for the write id of what is put
    )

    def __init__(self, bucket: str = "") -> None:
        if os.name != "posix":
            raise UsageError(
                "file:// needs a POSIX filesystem, and this system has none; use s3:// or memory://, or run "
                "the job on Linux or macOS"
            )
        if bucket and (not bucket.startswith("/") or not paths.can_be_a_file(bucket[1:])):
            raise UsageError(
                f"{bucket!r} is not the absolute path of a directory; write file:///directory/name"
            )
        self.bucket = bucket
        self._root = Path(f"{bucket}/")
        self._calls = calls_below(self._root)

    @property
    def identity(self) -> str:
        return f"file:{self.bucket}/"

    def tree(self) -> Tree:
        """The same files and directories as a tree, in which a rename is one step."""
        return LocalTree(self.bucket)

    async def create_upload(
        self, key: str, *, metadata: Mapping[str, str], options: Mapping[str, Any] | None = None
    ) -> str:
        file_options.check(
            dict(options or {}), self.capabilities.uploads.options, self._place(key), self.name
        )
        return await self._briefly("create_upload", key, self._create_upload, key, metadata)

    def _create_upload(self, key: str, metadata: Mapping[str, str]) -> str:
        with self._said_plainly("create_upload", key):
            return uploads.open_upload(self._root, key, metadata)

    async def put_part(self, key: str, upload_id: str, number: int, body: PartBody) -> Part:
        count_max = self.capabilities.parts.count_max
        if not 1 <= number <= count_max:
            problem = f"part number {number} is not in 1..{count_max}"
            raise StoreError("put_part", self._place(key), problem)
        return await self._run("put_part", key, self._put_part, key, upload_id, number, body)

    def _put_part(self, key: str, upload_id: str, number: int, body: PartBody) -> Part:
        if isinstance(body, io.BytesIO):
            with body.getbuffer() as content:
                return self._put_part(key, upload_id, number, content)
        upload = self._upload("put_part", key, upload_id)
        try:
            return upload.put_part(number, body)
        except FileNotFoundError as error:
            raise self._no_upload("put_part", key, upload_id) from error

    def place_part(self, key: str, upload_id: str) -> PlacedPart | None:
        with errors.translated("put_part", self._place(key)):
            reopen = partial(self._upload, "put_part", key, upload_id)
            return reopen().place(self._place(key), reopen)

    async def put_placed_part(self, key: str, upload_id: str, part: PlacedPart) -> Part:
        assert isinstance(part, PlacedFile)
        return await self._briefly("put_part", key, self._put_placed_part, key, upload_id, part)

    def _put_placed_part(self, key: str, upload_id: str, part: PlacedFile) -> Part:
        part.close()
        upload = self._upload("put_part", key, upload_id)
        try:
            return upload.put_placed(part.size)
        except FileNotFoundError as error:
            raise self._no_upload("put_part", key, upload_id) from error

    async def complete_upload(
        self, key: str, upload_id: str, parts: Sequence[Part], *, if_absent: bool = False
    ) -> ObjectInfo:
        return await self._run(
            "complete_upload", key, self._complete_upload, key, upload_id, parts, if_absent
        )

    def _complete_upload(
        self, key: str, upload_id: str, parts: Sequence[Part], if_absent: bool
    ) -> ObjectInfo:
        upload = self._upload("complete_upload", key, upload_id)
        check_order([part.number for part in parts], self._place(key))
        size_min = self.capabilities.parts.size_min
        try:
            with self._said_plainly("complete_upload", key):
                return upload.complete(parts, size_min, if_absent=if_absent)
        except WrongPartsError as error:
            raise StoreError("complete_upload", self._place(key), str(error)) from error
        except FileNotFoundError as error:
            raise self._no_upload("complete_upload", key, upload_id, str(error.strerror)) from error

    async def abort_upload(self, key: str, upload_id: str) -> None:
        await self._check_bucket("abort_upload", key)
        await self._run("abort_upload", key, uploads.abort, self._root, key, upload_id)

    async def list_uploads(self, prefix: str) -> AsyncIterator[UploadInfo]:
        await self._check_bucket("list_uploads", prefix)
        for upload in await self._run("list_uploads", prefix, uploads.pending, self._root, prefix):
            yield upload

    def _upload(self, operation: str, key: str, upload_id: str) -> OpenUpload:
        upload, is_open = uploads.find(self._root, key, upload_id)
        if upload is None or not is_open:
            if upload is not None:
                upload.remove()  # it was completed or aborted by a process that died before it had tidied up
            if not self._root.is_dir():
                raise FileNotFoundError(errno.ENOENT, f"no directory {self.bucket!r}")
            raise self._no_upload(operation, key, upload_id)
        return upload

    def _no_upload(self, operation: str, key: str, upload_id: str, why: str = "") -> UploadNotFound:
        stopped = f": {why}" if why == local_parts.STOPPED else ""
        return UploadNotFound(operation, self._place(key), f"no upload {upload_id!r} of this key{stopped}")

    async def put(
        self,
        key: str,
        body: Body,
        *,
        metadata: Mapping[str, str] | None = None,
        mode: PutMode | Update = PutMode.OVERWRITE,
    ) -> ObjectInfo:
        if isinstance(mode, Update):
            hint = "write it by one writer at a time"
            raise Unsupported("put", self._place(key), _NO_MATCH, hint=hint)
        source = (metadata or {}).get(RIGHTS_OF)
        return await self._run("put", key, self._put, key, body, mode is PutMode.CREATE, source)

    def _put(self, key: str, body: Body, if_absent: bool, source: str | None) -> ObjectInfo:
        like = None
        if source is not None:
            with self._opened("put", source) as file:
                like = os.fstat(file.fileno())
        fill = partial(files.write_into, body=body)
        return self._write("put", key, fill, if_absent=if_absent, like=like)

    async def copy(
        self, source: str, destination: str, *, etag: str = "", mode: PutMode | Update = PutMode.OVERWRITE
    ) -> int:
        return await self._run("copy", source, self._copy, source, destination, etag, mode)

    def _copy(self, source: str, destination: str, etag: str, mode: PutMode | Update) -> int:
        with self._opened("copy", source) as file, contextlib.ExitStack() as held:
            if etag and files.etag_of(file) != etag:
                raise PreconditionFailed("copy", self._place(source), f"no file of ETag {etag} is there")
            if isinstance(mode, Update):
                import fcntl  # POSIX alone has it

                fcntl.flock(held.enter_context(self._opened("copy", destination)), fcntl.LOCK_EX)
                if self._head("copy", destination).etag != mode.etag:
                    raise PreconditionFailed("copy", self._place(destination), "another file is there")
            may_link = bool(etag) and mode is PutMode.OVERWRITE
            if source == destination or (may_link and files.linked(self._root, source, destination, file)):
                return file.seek(0, 2)
            how = {"if_absent": mode is PutMode.CREATE, "like": os.fstat(file.fileno())}
            return self._write("copy", destination, partial(files.copy_into, source=file), **how).size

    async def get(self, key: str, *, size_max: int | None = None) -> bytes:
        found = await self._briefly("get", key, self._get, key, size_max, _SMALL_BYTES)
        if found is None:
            found = await self._run("get", key, self._get, key, size_max, None)
        return found or b""

    def _get(self, key: str, size_max: int | None, most: int | None) -> bytes | None:
        """None if that were more than ``most`` bytes."""
        with self._opened("get", key) as file:
            is_read = most is None or files.size_of(file, size_max) <= most
            return files.read_from(file, size_max) if is_read else None

    async def get_range(self, key: str, start: int, size: int, *, etag: str) -> bytes:
        return await self._run("get_range", key, self._get_range, key, start, size, etag)

    def _get_range(self, key: str, start: int, size: int, etag: str) -> bytes:
        with self._opened("get_range", key) as file:
            if files.etag_of(file) != etag:
                raise PreconditionFailed("get_range", self._place(key), f"no file of ETag {etag} is there")
            file.seek(start)
            return files.read_from(file, size)

    async def head(self, key: str) -> ObjectInfo:
        return await self._briefly("head", key, self._head, "head", key)

    def _head(self, operation: str, key: str) -> ObjectInfo:
        found = None
        if paths.can_be_a_file(key):
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                found = files.describe(self._root, key)
        if found is None:
            raise self._missing(operation, key)
        return found

    async def checksums(self, key: str, *, etag: str) -> Mapping[str, str]:
        if (await self._briefly("checksums", key, self._head, "checksums", key)).etag != etag:
            raise PreconditionFailed("checksums", self._place(key), f"no file of ETag {etag} is there")
        return {}

    async def list(self, prefix: str, *, limit: int | None = None) -> AsyncIterator[ObjectInfo]:
        await self._check_bucket("list", prefix)
        with errors.translated("list", self._place(prefix)):
            async for page in listing.objects_of(self._calls, self._root, prefix, limit):
                for info in page:
                    yield info

    async def list_directories(self, prefix: str) -> AsyncIterator[str]:
        await self._check_bucket("list_directories", prefix)
        with errors.translated("list_directories", self._place(prefix)):
            found = await listing.directories_of(self._calls, self._root, prefix)
        for directory in found:
            yield directory

    async def delete(self, keys: Sequence[str]) -> None:
        check_number("delete", self.bucket, keys, self.capabilities.bulk_delete_max)
        run = self._briefly if len(keys) <= listing.FEW else self._run
        await run("delete", keys[0] if keys else "", files.remove_all, self._root, keys, self._place)

    async def delete_matching(self, key: str, etag: str) -> None:
        await self._run("delete_matching", key, self._delete_matching, key, etag)

    def _delete_matching(self, key: str, etag: str) -> None:
        with contextlib.suppress(ObjectNotFound):
            if self._head("delete_matching", key).etag != etag:
                raise PreconditionFailed("delete_matching", self._place(key), "another object is there")
            files.remove(self._root, key)

    async def delete_all_matching(self, objects: Sequence[tuple[str, str]]) -> builtins.list[str]:
        keys = [key for key, _ in objects]
        check_number("delete_all_matching", self.bucket, keys, self.capabilities.bulk_delete_max)
        first = keys[0] if keys else ""
        return await self._run("delete_all_matching", first, self._delete_all_matching, objects)

    def _delete_all_matching(self, objects: Sequence[tuple[str, str]]) -> builtins.list[str]:
        left = []
        for key, etag in objects:
            try:
                self._delete_matching(key, etag)
            except PreconditionFailed:
                left.append(key)
        return left

    def _write(self, operation: str, key: str, fill: Callable[[int], object], **how: Any) -> ObjectInfo:
        with self._said_plainly(operation, key):
            return files.write(self._root, key, fill, **how)

    @contextlib.contextmanager
    def _said_plainly(self, operation: str, key: str) -> Iterator[None]:
        """Refuse a key that can be no file, and say what is in the way of one that can."""
        place = self._place(key)
        if not paths.can_be_a_file(key):
            problem = "no file has such a name: an element is empty, '.' or '..', or a character is NUL"
            raise StoreError(operation, place, problem, hint=_RENAME)
        try:
            yield
        except FileExistsError as error:
            raise ObjectExists(operation, place, "something is there") from error
        except IsADirectoryError as error:
            raise StoreError(operation, place, "a directory is there", hint=_RENAME) from error
        except NotADirectoryError as error:
            raise StoreError(operation, place, "a file has the name of a directory", hint=_RENAME) from error

    def _opened(self, operation: str, key: str) -> BufferedReader:
        if paths.can_be_a_file(key):
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                return files.opened(self._root, key)
        raise self._missing(operation, key)

    async def _check_bucket(self, operation: str, key: str) -> None:
        if not await self._calls.brief(self._root.is_dir):
            raise ObjectNotFound(operation, self._place(key), f"no directory {self.bucket!r}", hint=_MAKE)

    async def _run(self, operation: str, key: str, work: Callable[[*_Ts], _T], *args: *_Ts) -> _T:
        with errors.translated(operation, self._place(key)):
            return await self._calls.long(work, *args)

    async def _briefly(self, operation: str, key: str, work: Callable[[*_Ts], _T], *args: *_Ts) -> _T:
        with errors.translated(operation, self._place(key)):
            return await self._calls.brief(work, *args)

    def _missing(self, operation: str, key: str) -> ObjectNotFound:
        return ObjectNotFound(operation, self._place(key), "no such file", hint="check the path")

    def _place(self, key: str) -> str:
        return f"{self.bucket}/{key}"
