"""A model of an object store that is far away, for a loop with virtual time.

Every request takes its time to the store and back; a copy takes as long as its bytes need; and a prefix takes
only so many writes and reads a second, as S3's does. What comes too early is answered SlowDown. Contents are
those of the memory store, so the code that runs on it is the shipped code, and only the clock is not real.

The whole bucket is one prefix: the worst that can happen to a dataset. A bulk delete counts as many writes as
it has keys. A request is counted when it reaches the store, half a latency after it was sent. One that is
refused costs its sender the latency, and the store nothing.
"""

from __future__ import annotations

import asyncio
import bisect
import itertools
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from magicfs.errors import Unavailable
from magicfs.runtime.parallel import REQUESTS_MAX
from magicfs.stores.conditions import Conditions, assume
from magicfs.stores.delegating import DelegatingStore, DelegatingTree, Steps
from magicfs.stores.memory.store import MemoryStore, World
from magicfs.stores.port import Capabilities, ObjectInfo
from magicfs.stores.tree_port import Tree
from magicfs.stores.trees import ObjectTree

__all__ = ["BUCKET", "READS", "Budget", "LatencyStore", "Rates", "Server", "SlowDown", "Tally"]

BUCKET: Final = "bucket"
"""The bucket of every server."""

START: Final = 1_780_000_000.0
"""What the clock shows when virtual time begins, in seconds since the epoch."""

READS: Final = frozenset(
    {
        "head",
        "checksums",
        "get",
        "get_range",
        "list",
        "list_directories",
        "list_uploads",
        "look",
        "entries",
        "read",
    }
)
"""Operations that count as reads; all others count as writes."""

_MEGABYTE: Final = 1_000_000
_T = TypeVar("_T")
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Rates:
    """How fast a store is.

    Attributes:
        latency_s: What a request takes, on average.
        jitter: How far a request may be from that, as a share of it.
        copy_mb_s: The slowest and the fastest copy, in megabytes a second.
        writes_s: Writes that a prefix takes in a second; 0 for any number.
        reads_s: Likewise for reads.
        burst_s: For how many seconds a prefix saves what it was not asked for.
        object_mb: Megabytes that each object stands for when it is copied, whatever its length here.
    """

    latency_s: float = 0.15
    jitter: float = 0.25
    copy_mb_s: tuple[float, float] = (6.0, 10.0)
    writes_s: float = 3500.0
    reads_s: float = 5500.0
    burst_s: float = 0.1
    object_mb: float = 0.0

    @property
    def copy_s(self) -> float:
        """Seconds that an average copy takes beyond its latency."""
        slow, fast = self.copy_mb_s
        # The mean of 1/rate where the rate is drawn evenly, near enough for a range as small as this.
        return self.object_mb * (1 / slow + 4 * 2 / (slow + fast) + 1 / fast) / 6


class SlowDown(Unavailable):
    """The prefix takes no more for now."""

    throttled = True


class Budget:
    """So many requests a second; what is not used is saved for a short time."""

    def __init__(self, rate: float, burst_s: float) -> None:
        self.rate = rate
        self._most = max(rate * burst_s, 1.0)
        self._left = self._most
        self._at = 0.0

    def take(self, now: float, number: int = 1) -> bool:
        """Whether a request that counts for ``number`` is let in now. A large one is paid for afterwards."""
        if not self.rate:
            return True
        self._left = min(self._left + (now - self._at) * self.rate, self._most)
        self._at = now
        # What adding up floats has lost is no reason to refuse.
        if self._left < 1 - 1e-9:
            return False
        self._left -= number
        return True


@dataclass(slots=True)
class Tally:
    """What a server was asked.

    Attributes:
        counts: Requests that were let in, by operation; a listing counts each page.
        refused: Requests that were answered SlowDown.
        more_keys: Keys in bulk deletes, beyond one for each request.
        most: The most requests that were under way at once.
        spans: When the first request of an operation was sent and the last one answered, in virtual seconds.
    """

    counts: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    more_keys: int = 0
    most: int = 0
    spans: dict[str, tuple[float, float]] = field(default_factory=dict)

    def note(self, operation: str, sent: float, answered: float) -> None:
        """A request of an operation has ended."""
        first, last = self.spans.get(operation, (sent, answered))
        self.spans[operation] = min(first, sent), max(last, answered)

    @property
    def reads(self) -> int:
        """Reads that were let in."""
        return sum(number for name, number in self.counts.items() if name in READS)

    @property
    def writes(self) -> int:
        """Writes that were let in, a bulk delete once."""
        return self.counts.total() - self.reads


class Server:
    """One bucket far away, which any number of processes share.

    Args:
        rates: How fast it is.
        renames: Whether it renames a file in one request, as stores with folders do.
        seed: Of the jitter.
    """

    def __init__(self, rates: Rates, *, renames: bool = False, seed: int = 0) -> None:
        self.rates = rates
        self.renames = renames
        self.tally = Tally()
        self.world = World(clock=self.now)
        self.world.create_bucket(BUCKET)
        self.objects = _IndexedStore(self.world)
        self._random = random.Random(seed)
        self._writes = Budget(rates.writes_s, rates.burst_s)
        self._reads = Budget(rates.reads_s, rates.burst_s)
        self._under_way = 0

    def now(self) -> float:
        """The time on the store's clock: that of the loop, or of the beginning where none runs."""
        try:
            return START + asyncio.get_running_loop().time()
        except RuntimeError:
            return START

    def store(self) -> LatencyStore:
        """The way of one process to the bucket."""
        return LatencyStore(self)

    def new_tally(self) -> Tally:
        """Begin to count anew, and return what was counted before."""
        old, self.tally = self.tally, Tally()
        return old

    async def serve(self, operation: str, key: str, work: Callable[[], Awaitable[_T]], keys: int = 1) -> _T:
        """Let a request through, in its time.

        Raises:
            SlowDown: The prefix takes no more for now.
        """
        rates, tally, time = self.rates, self.tally, asyncio.get_running_loop().time
        sent = time()
        self._under_way += 1
        tally.most = max(tally.most, self._under_way)
        try:
            way_s = rates.latency_s * (1 + rates.jitter * self._random.uniform(-1, 1)) / 2
            await asyncio.sleep(way_s)
            budget = self._reads if operation in READS else self._writes
            if not budget.take(time(), keys):
                tally.refused += 1
                await asyncio.sleep(way_s)
                raise SlowDown(operation, f"{BUCKET}/{key}", "503 SlowDown: reduce your request rate")
            tally.counts[operation] += 1
            tally.more_keys += keys - 1
            if operation == "copy":
                await asyncio.sleep(rates.object_mb / self._random.uniform(*rates.copy_mb_s))
            # Whatever becomes of it, the answer needs its time.
            try:
                return await work()
            finally:
                await asyncio.sleep(way_s)
        finally:
            self._under_way -= 1
            tally.note(operation, sent, time())


class LatencyStore(DelegatingStore):
    """One process's way to a server. Nothing is repeated here: put a ``RetryingStore`` around it."""

    def __init__(self, server: Server) -> None:
        super().__init__(server.objects)
        self.server = server
        # Each process has a connection, and so a pace, of its own; what the store honours is known.
        self._identity = f"latency:{next(_numbers)}"
        assume(self, Conditions())

    @property
    def identity(self) -> str:
        """Another one for every process."""
        return self._identity

    @property
    def capabilities(self) -> Capabilities:
        """Those of the memory store, and a client as that of S3; where files are renamed, of folders."""
        found = replace(self.inner.capabilities, requests_max=REQUESTS_MAX)
        return replace(found, rename="atomic") if self.server.renames else found

    def tree(self) -> Tree:
        """Its files and directories, where it can rename; each step of it is a request."""
        return DelegatingTree(_OneStepTree(self.inner), self)

    async def delete(self, keys: Any) -> None:
        first = keys[0] if keys else ""
        await self.server.serve("delete", first, lambda: self.inner.delete(keys), max(len(keys), 1))

    async def delete_all_matching(self, objects: Any) -> list[str]:
        return await self.server.serve(
            "delete_all_matching",
            objects[0][0] if objects else "",
            lambda: self.inner.delete_all_matching(objects),
            max(len(objects), 1),
        )

    async def _around(self, operation: str, key: str, request: Callable[[], Awaitable[_T]]) -> _T:
        return await self.server.serve(operation, key, request)

    def _steps(self, operation: str, prefix: str, items: AsyncIterator[_T]) -> AsyncIterator[_T]:
        """A listing, of which each page is a request. One that was refused can be asked for again."""
        seen = 0

        async def nothing() -> None:
            return None

        async def step(request: Callable[[], Awaitable[_T | None]]) -> _T | None:
            nonlocal seen
            if seen % self.capabilities.list_page_max == 0:
                await self.server.serve(operation, prefix, nothing)
            seen += 1
            return await request()

        return Steps(items, step)


class _OneStepTree(ObjectTree):
    """Files and directories of the memory store; nobody is there to see that a rename is two steps."""

    async def is_atomic(self) -> bool:
        return True


class _IndexedStore(MemoryStore):
    """The memory store with its keys in order, so that a listing need not look at all of them."""

    def __init__(self, world: World) -> None:
        super().__init__(BUCKET, world)
        self._objects = _Index(self.contents("list", "").objects)

    def _store(self, contents: Any, key: str, *args: Any, **options: Any) -> ObjectInfo:
        self._objects.note(key)
        return super()._store(contents, key, *args, **options)

    async def list(self, prefix: str, *, limit: int | None = None) -> AsyncIterator[ObjectInfo]:
        objects = self._objects.held
        for key in list(itertools.islice(self._objects.below(prefix), limit)):
            info = objects[key].info
            yield replace(info, metadata={}, description={}) if info.metadata or info.description else info

    async def list_directories(self, prefix: str) -> AsyncIterator[str]:
        last = ""
        for key in list(self._objects.below(prefix)):
            end = key.find("/", len(prefix)) + 1
            if end and key[:end] != last:
                last = key[:end]
                yield last


class _Index:
    """The keys of a dictionary in order; what was added since is sorted in when it is asked for."""

    def __init__(self, held: Mapping[str, Any]) -> None:
        self.held = held
        self._sorted: list[str] = []
        self._new: list[str] = []

    def note(self, key: str) -> None:
        """A key is about to be written."""
        if key not in self.held:
            self._new.append(key)

    def below(self, prefix: str) -> Iterator[str]:
        """The keys that begin with a prefix."""
        if len(self._sorted) > 2 * len(self.held) + 1000:
            self._sorted = [key for key in self._sorted if key in self.held]
        if self._new:
            # Two sorted runs are merged: nearly as fast as looking at each key once.
            self._sorted += sorted(self._new)
            self._sorted.sort()
            self._new = []
        last = None
        for key in itertools.islice(self._sorted, bisect.bisect_left(self._sorted, prefix), None):
            if not key.startswith(prefix):
                return
            # One that was deleted and written again is there twice.
            if key != last and key in self.held:
                yield key
            last = key
