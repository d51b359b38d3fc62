"""A store that fails on request: generated from the port, so that no method can be forgotten.

Every request of every actor passes its ``Traffic``, which numbers it, asks its faults what to do to it, and
reports it to ``before`` and ``after``. An *actor* is one process: when a request of it crashes, the whole
process is dead, and nothing that it still tries reaches the store, whatever handlers run on the way down.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, TypeVar

from magicfs.errors import (
    ObjectExists,
    ObjectNotFound,
    PreconditionFailed,
    StoreError,
    Unavailable,
    UploadNotFound,
)
from magicfs.stores.port import Capabilities, PutMode, Store, Update, Version, Versions
from magicfs.stores.tree_port import Entry, Folders, Renamed, Tree, rename_one_by_one
from magicfs.stores.trees import tree_of
from magicfs.testing.store_faults import Actor, ArmedFault, Crash, Fault, Kind, Request

_T = TypeVar("_T")

# Of a tree, which has none of its own.
_PAGES = Capabilities()

# What a repetition of a request that was done already is answered.
_REFUSALS: dict[tuple[str, str], type[StoreError]] = {
    ("put", "if_absent"): ObjectExists,
    ("put", "if_match"): PreconditionFailed,
    ("complete_upload", "if_absent"): ObjectExists,
    ("complete_upload", ""): UploadNotFound,
    ("write", "if_absent"): ObjectExists,
    ("rename", ""): ObjectNotFound,
}


class Traffic:
    """All requests to one world, in the order in which they reach it.

    Args:
        faults: What goes wrong.
        page: Entries of one page of a listing; 0 for the store's own.
        stale: Whether all pages of a listing show the state at the time of the first page.
        latency: Seconds that a request takes; None gives other tasks a turn, and takes no time.
        choose: Called to choose a fault for every request that no given fault catches.
        before: Called before every request.
        after: Called after every request that was done.
    """

    def __init__(
        self,
        faults: Sequence[Fault] = (),
        *,
        page: int = 0,
        stale: bool = False,
        latency: Callable[[Request], float] | None = None,
        choose: Callable[[Request], Fault | None] | None = None,
        before: Callable[[Request], None] | None = None,
        after: Callable[[Request], None] | None = None,
    ) -> None:
        self.page = page
        self.stale = stale
        self.count: int = 0
        self.log: list[Request] = []
        self.met: list[tuple[Fault, Request]] = []
        self.late: set[asyncio.Task[None]] = set()
        self._armed = [ArmedFault(fault, fault.skip, fault.times) for fault in faults]
        self._latency = latency
        self._choose = choose
        self._before = before
        self._after = after

    def fault_for(self, request: Request) -> Fault | None:
        """What goes wrong with a request; at most one thing."""
        # Every fault counts what it matches, whichever comes first.
        caught = [armed.fault for armed in self._armed if armed.catches(request)]
        found = caught[0] if caught else self._choose(request) if self._choose else None
        if found is not None:
            self.met.append((found, request))
        return found

    async def send(
        self,
        actor: Actor,
        operation: str,
        key: str,
        do: Callable[[], Any],
        condition: str = "",
        target: str = "",
    ) -> Any:
        """Let a request through, or do to it what a fault says."""
        self._check(actor)
        if self._latency is None:
            # A request gives other tasks their turn, in memory as on a wire.
            await asyncio.sleep(0)
            self._check(actor)
        self.count += 1
        request = Request(self.count, actor.name, operation, key, condition, target)
        self.log.append(request)
        if self._latency is not None:
            await asyncio.sleep(self._latency(request))
            self._check(actor)
        if self._before is not None:
            self._before(request)
        fault = self.fault_for(request)
        if fault is None:
            return await self._do(request, do)
        return await self._fail(actor, request, fault, do)

    async def _fail(self, actor: Actor, request: Request, fault: Fault, do: Callable[[], Any]) -> Any:
        match fault.kind:
            case Kind.CRASH_BEFORE:
                self._kill(actor)
            case Kind.CRASH_AFTER:
                await self._quietly(request, do)
                self._kill(actor)
            case Kind.ERROR_BEFORE:
                raise _error(Unavailable, request, "500 InternalError, as the test wants")
            case Kind.THROTTLE:
                raise _error(Unavailable, request, "503 SlowDown, as the test wants")
            case Kind.CONFLICT:
                raise _error(Unavailable, request, "409 ConditionalRequestConflict, as the test wants")
            case Kind.REPLY_LOST:
                await self._quietly(request, do)
                raise _error(Unavailable, request, "the reply was lost, as the test wants")
            case Kind.REFUSED:
                result = await self._do(request, do)
                if (kind := _REFUSALS.get((request.operation, request.condition))) is None:
                    return result
                raise _error(kind, request, "refused by its own work, as the test wants")
            case Kind.LATE:
                # The request of a process that died meanwhile is done all the same.
                late = asyncio.ensure_future(self._later(request, fault.seconds, do))
                self.late.add(late)
                late.add_done_callback(self.late.discard)
                await asyncio.sleep(min(fault.seconds, 1.0) / 2)
                self._check(actor)
                raise _error(Unavailable, request, "no answer, as the test wants")
            case Kind.DELAY:
                await asyncio.sleep(fault.seconds)
                self._check(actor)
                return await self._do(request, do)
        return None

    async def settle(self) -> None:
        """Wait for the requests that are still on their way."""
        while self.late:
            await asyncio.wait(set(self.late))

    async def _later(self, request: Request, seconds: float, do: Callable[[], Any]) -> None:
        await asyncio.sleep(seconds)
        await self._quietly(request, do)

    async def _do(self, request: Request, do: Callable[[], Any]) -> Any:
        try:
            return await do()
        finally:
            if self._after is not None:
                self._after(request)

    async def _quietly(self, request: Request, do: Callable[[], Any]) -> None:
        try:
            await self._do(request, do)
        except StoreError:
            return  # nobody hears of it

    def _kill(self, actor: Actor) -> None:
        actor.dead = True
        self._check(actor)

    def _check(self, actor: Actor) -> None:
        if actor.dead:
            raise Crash(f"{actor.name} is dead")


class _Faulty:
    """One actor's way to a port; ``generate`` below makes its methods, which pass through the traffic."""

    def __init__(self, inner: Any, traffic: Traffic, actor: Actor) -> None:
        self.inner = inner
        self.traffic = traffic
        self.actor = actor


class FaultyStore(_Faulty):
    """One actor's way to a store. Where a ``Store`` is asked for, ``faulty`` makes one."""

    def tree(self) -> Any:
        """The tree of the store within, whose requests pass through the same traffic."""
        return FaultyTree(tree_of(self.inner), self.traffic, self.actor)

    def folders(self) -> Any:
        """The folders of the store within, where it may have some; their requests pass as all do."""
        return FaultyFolders(self.inner.folders(), self.traffic, self.actor)

    def versions(self) -> Any:
        """The versions of the store within, whose requests pass through the same traffic."""
        return FaultyVersions(self.inner.versions(), self.traffic, self.actor)


class FaultyFolders(_Faulty):
    """One actor's way to the folders of a bucket."""


class FaultyVersions(_Faulty):
    """One actor's way to the versions of a store."""


class FaultyTree(_Faulty):
    """One actor's way to the tree of a store in which a rename is one step."""

    inner: Tree

    async def is_atomic(self) -> bool:
        """No request: a tree of this kind knows."""
        return await self.inner.is_atomic()

    async def rename_all(self, files: Sequence[tuple[str, str]], concurrency: int) -> Renamed:
        """Requests of their own, so that each can fail."""
        tree: Any = self
        return await rename_one_by_one(tree, files, concurrency)


def faulty(inner: Store, traffic: Traffic, actor: Actor) -> Store:
    """A ``FaultyStore``, as a type checker wants it, which does not see generated methods."""
    made: Any = FaultyStore(inner, traffic, actor)
    return made  # type: ignore[no-any-return]


def generate(port: type, target: type[_T], named: Mapping[str, str] | None = None) -> type[_T]:
    """Give a class every public member of a protocol, each passed on through ``traffic`` to ``inner``.

    ``named``: what requests are called where that is not the name of their member.

    Raises:
        TypeError: A member is none of property, coroutine function and asynchronous iterator.
    """
    for name, member in inspect.getmembers(port):
        if name.startswith("_") or name in vars(target):
            continue
        setattr(target, name, _member(name, member, (named or {}).get(name, name)))
    return target


def _member(name: str, member: Any, request: str) -> Any:
    if isinstance(member, property):
        return property(lambda self: getattr(self.inner, name), doc=member.__doc__)
    if not inspect.isfunction(member):
        raise TypeError(f"the port's {name!r} is neither a property nor a method; add it to generate()")
    signature = inspect.signature(member)
    if inspect.iscoroutinefunction(member):
        return _request(name, member, signature, request)
    if "AsyncIterator" in str(signature.return_annotation):
        return _listing(name, member, signature, request)
    raise TypeError(f"the port's {name!r} is neither a coroutine nor a listing; add it to generate()")


def _request(name: str, member: Any, signature: inspect.Signature, operation: str) -> Any:
    key, target = _first(signature), _argument(signature, "destination")
    conditions = [one for one in signature.parameters if one.startswith("if_")]

    @functools.wraps(member)
    async def request(self: Any, *args: Any, **kwargs: Any) -> Any:
        return await self.traffic.send(
            self.actor,
            operation,
            _key(key(args, kwargs)),
            lambda: getattr(self.inner, name)(*args, **kwargs),
            _mode(kwargs.get("mode")) or next((one for one in conditions if kwargs.get(one)), ""),
            target(args, kwargs),
        )

    return request


def _listing(name: str, member: Any, signature: inspect.Signature, operation: str) -> Any:
    key = _first(signature)

    @functools.wraps(member)
    def listing(self: Any, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        ask = functools.partial(getattr(self.inner, name), *args, **kwargs)
        return _Listing(self, operation, _key(key(args, kwargs)), ask)

    return listing


def _mode(mode: Any) -> str:
    """The condition of a ``put`` in the words of those requests that take it as an argument."""
    if isinstance(mode, Update):
        return "if_match"
    return "if_absent" if mode is PutMode.CREATE else ""


def _first(signature: inspect.Signature) -> Callable[..., Any]:
    names = [*signature.parameters][1:]
    return _argument(signature, names[0] if names else "")


def _argument(signature: inspect.Signature, name: str) -> Callable[..., Any]:
    """What takes one argument out of those of a call; an empty text if the call has none such."""
    names = [*signature.parameters][1:]
    if name not in names:
        return lambda _args, _kwargs: ""
    place = names.index(name)
    return lambda args, kwargs: args[place] if len(args) > place else kwargs.get(name, "")


def _key(found: Any) -> str:
    """What a request is about: its first argument, or the key of the first object in it."""
    while not isinstance(found, str) and isinstance(found, Sequence):
        found = found[0] if found else ""
    return str(found)


class _Listing(AsyncIterator[Any]):
    """The entries of one listing, page by page. Each page asks the store again, unless pages are to be stale.

    After an error it can be asked again, and goes on where it was.
    """

    def __init__(self, store: Any, operation: str, key: str, ask: Callable[[], AsyncIterator[Any]]) -> None:
        self._store = store
        self._operation = operation
        self._key = key
        self._ask = ask
        self._seen: set[tuple[str, str]] = set()
        self._kept: list[Any] | None = None
        self._page: list[Any] = []
        self._more = True

    async def __anext__(self) -> Any:
        while not self._page:
            if not self._more:
                raise StopAsyncIteration
            traffic: Traffic = self._store.traffic
            page, self._more = await traffic.send(self._store.actor, self._operation, self._key, self._next)
            self._seen.update(map(_name, page))
            self._page = page[::-1]
        return self._page.pop()

    async def _next(self) -> tuple[list[Any], bool]:
        traffic: Traffic = self._store.traffic
        size = traffic.page or getattr(self._store, "capabilities", _PAGES).list_page_max
        if self._kept is None or not traffic.stale:
            self._kept = [entry async for entry in self._ask()]
        if not self._seen:
            return self._kept[:size], len(self._kept) > size
        # Listings go by the bytes of keys, and continue behind the last key that they gave.
        last = max((key.encode() for key, _ in self._seen), default=b"")
        left = [one for one in self._kept if _name(one)[0].encode() >= last and _name(one) not in self._seen]
        return left[:size], len(left) > size


def _name(entry: Any) -> tuple[str, str]:
    if isinstance(entry, str):
        return entry, ""
    if isinstance(entry, Entry):
        return entry.path, entry.kind
    if isinstance(entry, Version):
        return entry.key, entry.version
    return entry.key, getattr(entry, "upload_id", "")


def _error(kind: type[StoreError], request: Request, problem: str) -> StoreError:
    return kind(request.operation, request.key, problem)


generate(Store, FaultyStore)
generate(Tree, FaultyTree)
generate(
    Folders,
    FaultyFolders,
    {"exist": "folders_exist", "make": "make_directory", "move": "rename", "delete": "delete_directory"},
)
generate(
    Versions,
    FaultyVersions,
    {
        "are_kept": "versions_kept",
        "head": "head_version",
        "get_range": "get_version",
        "delete": "delete_versions",
        "list": "list_versions",
    },
)
