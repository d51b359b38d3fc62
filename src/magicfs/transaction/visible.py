"""Making the files of a job visible, and telling which of them are.

Bundles: objects in which tasks leave the bytes of small files, until their job puts these at their keys.

A body is put only under a job object that says so, and that is looked at again by who has stood still: a put
cannot be called back as an upload can be aborted. So the first one is the point from which the job only goes
forward.

Making files visible by renaming them: very many, so many are given to the tree of the store at once.

A rename may be repeated by any process at any time. What its answer does not tell is read back: the file
keeps its ETag, so what lies at the key tells whether it has been renamed.
"""

from __future__ import annotations

import asyncio
import hashlib
from array import array
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from itertools import islice
from typing import Final, cast

from magicfs.engine import BatchLists, BatchResult, Completed, Engine, Event, Failure
from magicfs.errors import CommitFailed, FormatError, MagicError, ObjectExists, ObjectNotFound, StoreError
from magicfs.formats.limits import BUNDLE_SIZE_LIMIT
from magicfs.protocol import paths
from magicfs.protocol.readback import Outcome, is_renamed
from magicfs.protocol.steps import Batch, Publication, Put, Rename
from magicfs.runtime.parallel import drained
from magicfs.stores.conditions import Conditions
from magicfs.stores.port import Store
from magicfs.stores.register import found_at
from magicfs.stores.tree_port import Entry, Tree
from magicfs.stores.trees import tree_of
from magicfs.transaction.context import JobContext
from magicfs.transaction.output import JobOutput
from magicfs.transaction.spool import ETags

_HELD_MAX: Final = 4 * BUNDLE_SIZE_LIMIT
"""Bytes of the bundles that are held at once: files are put bundle by bundle."""
_NAMED: Final = 5


class Bundles:
    """Reads bodies out of bundles: each bundle once, if its files are asked for one after the other.

    ``check`` raises if the job is not the caller's to finish any more.
    """

    def __init__(self, store: Store, check: Callable[[], Awaitable[None]]) -> None:
        self._store = store
        self._check = check
        self._checking = asyncio.Lock()
        self._reading: dict[str, asyncio.Lock] = {}
        self._held: OrderedDict[str, bytes] = OrderedDict()

    async def check(self) -> None:
        async with self._checking:  # the first that asks hears for all
            await self._check()

    async def body(self, step: Put) -> bytes:
        raw = await self._bundle(step.bundle)
        body = raw[step.offset : step.offset + step.length]
        if len(body) != step.length or hashlib.sha256(body).hexdigest() != step.sha256:
            raise FormatError(
                f"{self._store.bucket}/{step.bundle}",
                "",
                f"was altered since its task wrote it (the SHA-256 of {step.key} differs); that file was "
                "not published; find out who wrote the object, then restore it",
            )
        return body

    async def _bundle(self, key: str) -> bytes:
        async with self._reading.setdefault(key, asyncio.Lock()):
            raw = self._held.get(key)
            if raw is None:
                raw = await self._store.get(key, size_max=BUNDLE_SIZE_LIMIT + 1)
            self._held[key] = raw
            self._held.move_to_end(key)
        while sum(map(len, self._held.values())) > _HELD_MAX and len(self._held) > 1:
            gone, _ = self._held.popitem(last=False)
            self._reading.pop(gone, None)
        return raw


async def refuse_if_gone(engine: Engine, context: JobContext, output: JobOutput) -> None:
    """Raise CommitFailed if bundles of a job are gone, or too short; nothing was published. One HEAD each."""
    gone: list[str] = []

    async def look(bundle: tuple[str, int]) -> None:
        key, size = bundle
        info = await found_at(engine.store, key)
        if info is None or info.size < size:
            gone.append(f"{engine.store.bucket}/{key}")

    await drained(output.bundles.items(), look, engine.concurrency)
    if gone:
        raise CommitFailed(
            f"{len(gone)} of {len(output.bundles)} bundles of small files of job {context.job} are missing "
            f"or cut short, such as {', '.join(sorted(gone)[:_NAMED])}: somebody removed or replaced them; "
            "nothing was published; abort the job and run it again"
        )


async def copy_files(
    engine: Engine, steps: Iterable[Rename], completed: Completed, *, looks_first: bool = False
) -> BatchResult:
    """Copy files, and look at each afterwards. The first that fails ends it; those that were begun with it
    are waited for.

    ``completed`` is told of each file that is visible, by the number of its step. One whose source is gone
    was copied before, if something of its length is there.
    """
    return await _Copying(engine, completed, looks_first=looks_first).run(steps)


class _Moving:
    """Steps, and what has become of them."""

    def __init__(self, engine: Engine, completed: Completed, *, looks_first: bool) -> None:
        self._engine = engine
        self._completed = completed
        self._looks_first = looks_first
        self._result = BatchResult()

    def _done(self, number: int, step: Rename, etag: str) -> bool:
        """Note that a file is visible; True: others may go on."""
        self._result.done += 1
        self._completed(number, etag)
        self._engine.tell(Event("rename", step, Outcome.DONE))
        return True

    def _failed(self, step: Rename, outcome: Outcome, error: MagicError) -> bool:
        """Note that one is not, or that nobody knows; True: what has begun comes to its end."""
        self._result.failures.append(Failure(step, outcome, error))
        self._engine.tell(Event("rename", step, outcome))
        return True

    def _changed(self, step: Rename, problem: str) -> bool:
        text = f"{step.key} is not the file that its task committed: {problem}"
        return self._failed(step, Outcome.FAILED, CommitFailed(text, failed=[step.key]))


class _Copying(_Moving):
    async def run(self, steps: Iterable[Rename]) -> BatchResult:
        async def one(item: tuple[int, Rename]) -> bool:
            if self._result.failures:
                self._result.not_started.append(item[1])
            else:
                await self._copy(*item)
            return not self._result.failures

        await drained(enumerate(steps), one, self._engine.concurrency)
        return self._result

    async def _copy(self, number: int, step: Rename) -> bool:
        store = self._engine.store
        try:
            try:
                if self._looks_first:  # most sources are gone, and a copy costs more
                    await store.head(step.source)
                await store.copy(step.source, step.key)
            except ObjectNotFound:
                if (etag := await self._found(step)) is None:
                    raise
                return self._done(number, step, etag)
            found = await store.head(step.key)
        except StoreError as error:
            outcome = Outcome.UNKNOWN if error.retryable else Outcome.FAILED
            return self._failed(step, outcome, error)
        if found.size == step.length:
            return self._done(number, step, found.etag)
        return self._changed(step, f"it has {found.size} bytes, and had {step.length}")

    async def _found(self, step: Rename) -> str | None:
        """The ETag of what lies at the key, if it can be the file."""
        info = await found_at(self._engine.store, step.key)
        return info.etag if info is not None and info.size == step.length else None


_AT_ONCE: Final = 1000
"""Renames that are given to the tree in one call."""


_UNKNOWN: Final = Entry("", "file")


class Pace:
    """Lets at most so many renames begin in a second; 0 is no limit."""

    def __init__(self, per_second: int = 0) -> None:
        self.per_second = per_second
        self._next = 0.0

    @property
    def group(self) -> int:
        """How many may begin together: those of a tenth of a second."""
        return _AT_ONCE if not self.per_second else min(_AT_ONCE, max(1, self.per_second // 10))

    async def wait(self, many: int) -> None:
        if not self.per_second:
            return
        now = asyncio.get_running_loop().time()
        turn = max(now, self._next)
        self._next = turn + many / self.per_second
        await asyncio.sleep(turn - now)


async def rename_files(
    engine: Engine,
    steps: Iterable[Rename],
    completed: Completed,
    *,
    verify: bool = False,
    pace: Pace | None = None,
    looks_first: bool = False,
) -> BatchResult:
    """Rename files. The first that fails ends it; those that were begun with it are waited for.

    A step that must replace nothing looks first, with ``looks_first`` every one. ``completed`` is told of
    each file that is visible, by the number of its step. ``verify`` looks at each afterwards: another size or
    ETag is a failure. Where a store has no rename the files are copied.
    """
    if not await tree_of(engine.store).is_atomic():
        return await copy_files(engine, steps, completed, looks_first=looks_first)
    renaming = _Renaming(engine, completed, looks_first=looks_first)
    return await renaming.run(steps, pace or Pace(), verify=verify)


async def is_there(engine: Engine, step: Rename) -> bool:
    """Whether a file has been renamed or copied to its key already."""
    there = await tree_of(engine.store).look(step.key)
    if there is None or there.kind != "file":
        return False
    return _is_file(there, step) if step.etag else there.size == step.length


class _Renaming(_Moving):
    def __init__(self, engine: Engine, completed: Completed, *, looks_first: bool) -> None:
        super().__init__(engine, completed, looks_first=looks_first)
        self._tree: Tree = tree_of(engine.store)
        self._verify = False

    def _done(self, number: int, step: Rename, etag: str | None) -> bool:
        return super()._done(number, step, etag or step.etag)

    async def run(self, steps: Iterable[Rename], pace: Pace, *, verify: bool) -> BatchResult:
        self._verify = verify
        for group in _groups(enumerate(steps), pace.group):
            await pace.wait(len(group))
            left = await self._free(group)
            while left and not self._result.failures:
                left = await self._group(left)
            self._result.not_started += [step for _, step in left]
            if self._result.failures:
                break
        return self._result

    async def _group(self, free: Sequence[tuple[int, Rename]]) -> Sequence[tuple[int, Rename]]:
        """Rename files; returns those that were not begun, for others have met an error."""
        pairs = [(step.source, step.key) for _, step in free]
        try:
            found = await self._tree.rename_all(pairs, self._engine.concurrency)
        except StoreError as error:
            found = dict.fromkeys(range(len(free)), error)
        ended = sorted(found.items())
        met = [(*free[place], one) for place, one in ended if isinstance(one, StoreError)]
        renamed = [(*free[place], one) for place, one in ended if not isinstance(one, StoreError)]
        if not self._verify:
            for number, step, etag in renamed:
                self._done(number, step, etag)
        await drained(met, self._read_back, self._engine.concurrency)
        if self._verify and not self._result.failures:
            await drained([one[:2] for one in renamed], self._confirm, self._engine.concurrency)
        return [one for place, one in enumerate(free) if place not in found]

    async def _free(self, group: Sequence[tuple[int, Rename]]) -> Sequence[tuple[int, Rename]]:
        """Those whose places nobody has taken; what has been renamed already is done."""
        if not self._looks_first and not any(step.if_absent for _, step in group):
            return group
        absent = await self._absent(group)
        there: dict[int, Entry | None] = {}

        async def look(one: tuple[int, Rename]) -> None:
            number, step = one
            try:
                there[number] = await self._tree.look(step.key)
            except StoreError as error:
                self._failed(step, _outcome(error), error)

        looked = [one for one in group if _parent(one[1]) not in absent]
        await drained(looked, look, self._engine.concurrency)
        for number, step in looked:
            if (entry := there.get(number)) is None:
                continue
            if _is_file(entry, step):
                self._done(number, step, entry.listed_etag)
            elif not step.if_absent:
                there[number] = None
            else:
                place = f"{self._tree.bucket}/{step.key}"
                error = ObjectExists("rename", place, "something is there", hint="use other file names")
                self._failed(step, Outcome.CONFLICT, error)
        return [one for one in group if _parent(one[1]) in absent or there.get(one[0], _UNKNOWN) is None]

    async def _absent(self, group: Sequence[tuple[int, Rename]]) -> set[str]:
        """Directories that are not there, of those that several files go to: none of these is looked at."""
        parents, absent = Counter(_parent(step) for _, step in group), set[str]()

        async def look(parent: str) -> None:
            with suppress(StoreError):  # each of its files is looked at, and told of
                if await self._tree.look(parent) is None:
                    absent.add(parent)

        several = [one for one, files in parents.items() if one and files > 1]
        await drained(several, look, self._engine.concurrency)
        return absent

    async def _read_back(self, item: tuple[int, Rename, StoreError]) -> bool:
        number, step, error = item
        try:
            there = await self._tree.look(step.key)
            if there is not None and _is_file(there, step):
                return self._done(number, step, there.listed_etag)
            if isinstance(error, ObjectNotFound) and await self._tree.look(step.source) is not None:
                # Somebody has removed the directory since it was made.
                await self._tree.make_directory(step.key.rpartition("/")[0])
                await self._tree.rename(step.source, step.key)
                there = await self._tree.look(step.key)
                return self._done(number, step, there.listed_etag if there else None)
        except StoreError as second:
            error.add_note(f"and reading it back failed: {second}")
            return self._failed(step, Outcome.UNKNOWN, error)
        return self._failed(step, _outcome(error), error)

    async def _confirm(self, item: tuple[int, Rename]) -> bool:
        number, step = item
        try:
            found = await self._tree.look(step.key)
        except StoreError as unread:
            return self._failed(step, Outcome.UNKNOWN, unread)
        if (problem := _difference(found, step)) is not None:
            return self._changed(step, problem)
        return self._done(number, step, found.listed_etag if found else None)


def _groups(steps: Iterator[tuple[int, Rename]], length: int) -> Iterator[list[tuple[int, Rename]]]:
    while group := list(islice(steps, length)):
        yield group


def _parent(step: Rename) -> str:
    return step.key.rpartition("/")[0]


def _is_file(found: Entry | None, step: Rename) -> bool:
    return found is not None and found.kind == "file" and is_renamed(found.etag, step.etag)


def _outcome(error: StoreError) -> Outcome:
    return Outcome.UNKNOWN if error.retryable else Outcome.FAILED


def _difference(found: Entry | None, step: Rename) -> str | None:
    if found is None:
        return "nothing is there"
    if found.kind != "file":
        return "a directory is there"
    if found.size != step.length:
        return f"it has {found.size} bytes, and had {step.length}"
    if step.etag and not is_renamed(found.etag, step.etag):
        return f"its ETag is {found.etag}, and was {step.etag}"
    return None


Wanted = Callable[[Publication], bool]
"""Whether a file is to be made visible now, by its step."""


def comes_last(key: str, replaced: AbstractSet[str]) -> bool:
    """Whether a file waits for the others, for it destroys an old one: in its own place, or in that of a
    directory above it.
    """
    return bool(replaced) and (key in replaced or any(one in replaced for one in paths.parents(key)))


def must_be_absent(context: JobContext, conditions: Conditions) -> bool:
    """Whether no completed file may replace an object: only names that are not the job's own can meet one."""
    return (
        not context.uploads_found_by_name
        and not context.renames.overwrites
        and context.options.mode in {"append", "error"}
        and conditions.complete_if_absent
    )


async def make_visible(
    engine: Engine,
    conditions: Conditions,
    output: JobOutput,
    etags: ETags,
    wanted: Wanted,
    *,
    if_absent: bool,
    verify: bool,
    bodies: Bundles | None = None,
    pace: Pace | None = None,
    looks_first: bool = False,
) -> BatchResult:
    """Make the files visible that are wanted, and note their ETags.

    ``if_absent``: whether completes must not replace an object. A put never replaces one, where the store
    honours that. ``verify`` and ``bodies`` are as for ``Engine.run``, ``pace`` and ``looks_first`` as for
    ``rename_files``.
    """
    places = array("Q")

    def steps() -> Iterator[Publication]:
        for place, step in enumerate(output.steps(if_absent=if_absent)):
            if not wanted(step):
                continue
            places.append(place)
            match step:
                case Put():
                    yield step._replace(if_absent=conditions.put_if_absent)
                case Rename() if if_absent:
                    yield step._replace(if_absent=True)
                case _:
                    yield step

    def completed(number: int, etag: str) -> None:
        etags.put(places[number], etag)

    if output.renames:
        renames = cast("Iterator[Rename]", steps())
        return await rename_files(
            engine, renames, completed, verify=verify, pace=pace, looks_first=looks_first
        )
    batch = Batch("complete", steps())
    return await engine.run(batch, verify=verify, completed=completed, bodies=bodies)


def lists_of(output: JobOutput, etags: ETags, result: BatchResult) -> BatchLists:
    """Keys by what became of them in a batch that failed, and before it."""
    failed = [failure.step.key for failure in result.failures]
    lists, tried = BatchLists(done=[], failed=failed, not_started=[]), set(failed)
    for key, etag in zip(output.final_keys(), etags, strict=True):
        if etag is not None:
            lists["done"].append(key)
        elif key not in tried:
            lists["not_started"].append(key)
    return lists
