"""Reading published files as their manifests name them: by their versions, or else by their ETags."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, TypeVar, cast

from magicfs.errors import ObjectNotFound, PermissionDenied, PreconditionFailed
from magicfs.manifests import chain
from magicfs.manifests.comparison import Named, is_file
from magicfs.manifests.kept import places_aside
from magicfs.protocol.paths import prefix_of, relative_to
from magicfs.runtime.interrupt import run_on
from magicfs.stores import resolve

if TYPE_CHECKING:
    from fsspec.spec import AbstractFileSystem

    from magicfs.protocol.paths import Location
    from magicfs.stores.port import Store, VersionStore

_T = TypeVar("_T")


class NamedReads:
    """Reads files behind a filesystem, and raises ObjectNotFound for one that was written over.

    Where a version is not to be had, what lies at its key is read instead, as of files without one: if who
    reads may not read versions, if the files were copied to another bucket, or if the bucket has forgotten
    the version. That must have the ETag that the manifest names. A copy of a whole dataset may have another
    one: each of its files is read by the one that it had at first.

    A file that a later job has moved aside is read there.

    Args:
        filesystem: Where they are read.
        location: The dataset, by whose manifests a copy is known; None for files of none.
        places: Paths of files that are known to lie aside, by their own.
    """

    def __init__(
        self,
        filesystem: AbstractFileSystem,
        location: Location | None = None,
        places: Mapping[str, str] | None = None,
    ) -> None:
        self._filesystem = filesystem
        self._location = location
        self._is_denied = False
        self._is_copy: bool | None = None
        self._places = dict(places or {})
        self._etags: dict[str, str] = {}  # of files that have another than their manifest names

    def read(self, path: str, file: Named, start: int, end: int) -> bytes:
        """The bytes from one to before another."""
        if path not in self._places:
            try:
                return self._read(path, file, start, end)
            except FileNotFoundError:
                if not self._finds_aside(path, file):
                    raise
        return self._filesystem.cat_file(self._places[path], start=start, end=end)  # type: ignore[no-any-return]

    def open_local(self, path: str, file: Named, opener: Callable[[str], _T]) -> _T:
        """Open a file of this machine. Raises ObjectNotFound if it is not the one that is named."""
        if path not in self._places:
            try:
                opened = opener(path)
                self._check_local(path, file)
            except FileNotFoundError:
                if not self._finds_aside(path, file):
                    raise
            else:
                return opened
        return opener(self._places[path])

    def _finds_aside(self, path: str, file: Named) -> bool:
        """Whether a later job has moved a file aside, and its promise is not over."""
        if (at := self._location) is not None and file.etag:
            store, key = resolve.open_store(self._filesystem, at.bucket), relative_to(path, at.path)
            found = self._run(places_aside, store, at.key, chain.READING, {key: file})
            self._places.update((path, prefix_of(at.path) + place) for place in found.values())
        return path in self._places

    def _read(self, path: str, file: Named, start: int, end: int) -> bytes:
        if not (file.version or file.etag):
            body: bytes = self._filesystem.cat_file(path, start=start, end=end)
            return body
        bucket, _, key = path.partition("/")
        store = resolve.open_store(self._filesystem, bucket)
        if file.version and not self._is_denied and store.capabilities.versions:
            try:
                return self._run(_version, store, key, file.version, start, end - start)
            except PermissionDenied:
                self._is_denied = True
            except ObjectNotFound:
                pass
        return self._run(self._by_etag, store, path, key, file, start, end - start)

    def _check_local(self, path: str, file: Named) -> None:
        if not getattr(self._filesystem, "local_file", False) or not file.etag:
            return
        if not resolve.is_unchanged(path, file.etag) and not self._run(self._is_of_a_copy):
            raise _written_over(path)

    def _run(self, work: Callable[..., Coroutine[None, None, _T]], *args: object) -> _T:
        return run_on(resolve.loop_of(self._filesystem), work, *args)

    async def _by_etag(self, store: Store, path: str, key: str, file: Named, start: int, size: int) -> bytes:
        etag = self._etags.get(path, file.etag)
        if not etag:
            return await self._filesystem._cat_file(path, start=start, end=start + size)  # type: ignore[no-any-return]  # noqa: SLF001
        try:
            return await store.get_range(key, start, size, etag=etag)
        except PreconditionFailed as error:
            info = await store.head(key)
            is_first = path not in self._etags and info.size == file.size
            if not is_file(info, file) and not (is_first and await self._is_of_a_copy()):
                raise _written_over(path) from error
            self._etags[path] = info.etag
        return await store.get_range(key, start, size, etag=info.etag)

    async def _is_of_a_copy(self) -> bool:
        """Whether manifests of the dataset name another place than where it lies."""
        place = self._location
        if self._is_copy is None and place is not None:
            store = resolve.open_store(self._filesystem, place.bucket)
            manifests = chain.chain(store, place.key, chain.READING, hidden="none", files=False)
            places = {(one.bucket, one.destination) async for one in manifests}
            self._is_copy = places != {(place.bucket, place.key)}
        return bool(self._is_copy)


def _written_over(path: str) -> ObjectNotFound:
    return ObjectNotFound(
        "read",
        path,
        "it was overwritten since it was published",
        hint="open the dataset again; a job with unique_names=True, the default, never overwrites a file",
    )


async def _version(store: Store, key: str, version: str, start: int, size: int) -> bytes:
    return await cast("VersionStore", store).versions().get_range(key, version, start, size)
