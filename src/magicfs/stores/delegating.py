"""A store around a store: everything passes through one hook."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial, wraps
from typing import Any, ClassVar, Final, Generic, Self, TypeVar, cast

from magicfs.stores import object_settings
from magicfs.stores.object_settings import ObjectSettings, PlacedPart, PlacingStore
from magicfs.stores.port import Capabilities, Store, Upkeep, Versions, VersionStore, upkeep_of
from magicfs.stores.tree_port import Folders, Renamed, Tree, rename_one_by_one

_T = TypeVar("_T")
_Method = TypeVar("_Method", bound=Callable[..., Any])


def _request(method: _Method, operation: str = "") -> _Method:
    """A method of a port that asks the one within, through the hook, which calls it ``operation``."""
    name = method.__name__

    @wraps(method)
    def ask(self: Any, *args: Any, **kwargs: Any) -> Any:
        request = getattr(self.inner, name)
        if self.has_no_hook:
            return request(*args, **kwargs)
        return self._around(operation or name, _first_key(*args), partial(request, *args, **kwargs))

    return cast("_Method", ask)


def _listing(method: _Method, operation: str = "") -> _Method:
    """The same of a listing, each step of which goes through the hook."""
    name = method.__name__

    @wraps(method)
    def steps(self: Any, prefix: str, **kwargs: Any) -> Any:
        return self._steps(operation or name, prefix, getattr(self.inner, name)(prefix, **kwargs))

    return cast("_Method", steps)


def _first_key(given: Any = "", *_: Any) -> str:
    """The key that a request is about: of several objects, or of pairs of key and version, the first."""
    while not isinstance(given, str):
        given = given[0] if given else ""
    return given


def acting_for(store: Store, job: str) -> Store:
    """The store whose requests say that they are made for a job, where it has a place for that."""
    make: Callable[[str], Store] | None = getattr(store, "acting_for", None)
    return store if make is None else make(job)


class DelegatingStore:
    """Passes the whole port on to the store within.

    A subclass overrides ``_around``, through which every request goes, and every step of a listing.
    """

    has_no_hook: ClassVar[bool] = True

    def __init_subclass__(cls) -> None:
        cls.has_no_hook = cls._around is DelegatingStore._around

    def __init__(self, inner: Store) -> None:
        self.inner = inner

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def bucket(self) -> str:
        return self.inner.bucket

    @property
    def identity(self) -> str:
        return self.inner.identity

    @property
    def capabilities(self) -> Capabilities:
        return self.inner.capabilities

    @property
    def object_settings(self) -> ObjectSettings:
        """Those of the store within."""
        return object_settings.of_store(self.inner)

    def with_object_settings(self, settings: ObjectSettings) -> Self:
        """The same around a store within that has these settings."""
        return self._twin(object_settings.store_with(self.inner, settings))

    def acting_for(self, job: str) -> Self:
        """The same around a store within whose requests say that they are made for a job."""
        return self._twin(acting_for(self.inner, job))

    def _twin(self, inner: Store) -> Self:
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__, inner=inner)
        return twin

    def place_part(self, key: str, upload_id: str) -> PlacedPart | None:
        """That of the store within; no request."""
        inner: PlacingStore = self.inner  # type: ignore[assignment]  # asked for where it is one
        return inner.place_part(key, upload_id)

    create_upload = _request(Store.create_upload)
    put_part = _request(Store.put_part)
    put_placed_part = _request(PlacingStore.put_placed_part, "put_part")
    complete_upload = _request(Store.complete_upload)
    abort_upload = _request(Store.abort_upload)
    list_uploads = _listing(Store.list_uploads)
    put = _request(Store.put)
    copy = _request(Store.copy)
    get = _request(Store.get)
    get_range = _request(Store.get_range)
    head = _request(Store.head)
    checksums = _request(Store.checksums)
    list = _listing(Store.list)
    list_directories = _listing(Store.list_directories)
    delete = _request(Store.delete)
    delete_matching = _request(Store.delete_matching)
    delete_all_matching = _request(Store.delete_all_matching)

    def tree(self) -> Tree:
        """The tree of the store within; its requests go through the hook, too."""
        from magicfs.stores.trees import tree_of  # few jobs need any

        return DelegatingTree(tree_of(self.inner), self)

    def folders(self) -> Folders:
        """The folders of the store within; its requests go through the hook, too."""
        inner: Folders = self.inner.folders()  # type: ignore[attr-defined]  # asked for where there are some
        return DelegatingFolders(inner, self)

    def versions(self) -> Versions:
        """The versions of the store within; their requests go through the hook, too."""
        inner: VersionStore = self.inner  # type: ignore[assignment]  # asked for where it is one
        return DelegatingVersions(inner.versions(), self)

    def upkeep(self) -> Upkeep:
        """The upkeep of the store within; its requests go through the hook, too."""
        return DelegatingUpkeep(upkeep_of(self.inner), self)

    async def _around(self, operation: str, key: str, request: Callable[[], Awaitable[_T]]) -> _T:  # noqa: ARG002
        """Make a request, by the port's name of it; it may be made again."""
        return await request()

    def _steps(self, operation: str, prefix: str, items: AsyncIterator[_T]) -> AsyncIterator[_T]:
        """The entries of a listing, each fetched through ``_around``."""

        async def step(request: Callable[[], Awaitable[_T | None]]) -> _T | None:
            return await self._around(operation, prefix, request)

        return Steps(items, step)


_Port = TypeVar("_Port")


class _Part(Generic[_Port]):
    """Passes on the port of a part of a store, through the hook of that.

    What it asks is ``Final``: only then do all type checkers infer its type.
    """

    def __init__(self, inner: _Port, store: DelegatingStore) -> None:
        self.inner = inner
        self._around = store._around  # noqa: SLF001 - the hooks of this module
        self._steps = store._steps  # noqa: SLF001
        self.has_no_hook = store.has_no_hook


class DelegatingTree(_Part[Tree]):
    """Passes the whole port of trees on to the tree within, through the hook of a store."""

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def bucket(self) -> str:
        return self.inner.bucket

    async def is_atomic(self) -> bool:
        return await self.inner.is_atomic()

    async def rename_all(self, files: Sequence[tuple[str, str]], concurrency: int) -> Renamed:
        return await rename_one_by_one(self, files, concurrency)

    make_directory: Final = _request(Tree.make_directory)
    look: Final = _request(Tree.look)
    entries: Final = _listing(Tree.entries)
    rename: Final = _request(Tree.rename)
    delete: Final = _request(Tree.delete)
    delete_tree: Final = _request(Tree.delete_tree)
    write: Final = _request(Tree.write)
    read: Final = _request(Tree.read)


class DelegatingFolders(_Part[Folders]):
    """Passes the whole port of folders on, through the hook of a store."""

    exist: Final = _request(Folders.exist, "folders_exist")
    look: Final = _request(Folders.look)
    entries: Final = _listing(Folders.entries)
    make: Final = _request(Folders.make, "make_directory")
    move: Final = _request(Folders.move, "rename")
    rename: Final = _request(Folders.rename)
    delete: Final = _request(Folders.delete, "delete_directory")
    delete_tree: Final = _request(Folders.delete_tree)


class DelegatingVersions(_Part[Versions]):
    """Passes the whole port of versions on, through the hook of a store."""

    are_kept: Final = _request(Versions.are_kept, "versions_kept")
    head: Final = _request(Versions.head, "head_version")
    get_range: Final = _request(Versions.get_range, "get_version")
    copy_part: Final = _request(Versions.copy_part)
    delete: Final = _request(Versions.delete, "delete_versions")
    list: Final = _listing(Versions.list, "list_versions")


class DelegatingUpkeep(_Part[Upkeep]):
    """Passes the whole port of upkeep on, through the hook of a store."""

    clock: Final = _request(Upkeep.clock)
    written: Final = _request(Upkeep.written)
    rules: Final = _request(Upkeep.rules)


class Steps(AsyncIterator[_T], Generic[_T]):
    """A listing whose every step goes through a function.

    The function is given what fetches the next entry, or None at the end, and returns what that returned.
    Unlike a generator the listing is still there after a step has failed: the same step can be asked for
    again if ``items`` allows it.
    """

    def __init__(
        self,
        items: AsyncIterator[_T],
        step: Callable[[Callable[[], Awaitable[_T | None]]], Awaitable[_T | None]],
    ) -> None:
        self.items = items
        self._step = step

    async def __anext__(self) -> _T:
        found = await self._step(self._next)
        if found is None:
            raise StopAsyncIteration
        return found

    async def _next(self) -> _T | None:
        return await anext(self.items, None)
