"""Making files visible by renaming them: very many, so many are given to the tree of the store at once.

A rename may be repeated by any process at any time. What its answer does not tell is read back: the file
keeps its ETag, so what lies at the key tells whether it has been renamed.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Final

from magicfs.engine import BatchResult, Completed, Engine, Event, Failure
from magicfs.errors import CommitFailed, MagicError, ObjectExists, ObjectNotFound, StoreError
from magicfs.protocol.readback import Outcome, is_renamed
from magicfs.protocol.steps import Rename
from magicfs.runtime.parallel import drained
from magicfs.stores.tree_port import Entry, Tree
from magicfs.stores.trees.objects import tree_of

__all__ = ["Pace", "copy_files", "is_there", "rename_files"]


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
        try:
            info = await self._engine.store.head(step.key)
        except ObjectNotFound:
            return None
        return info.etag if info.size == step.length else None


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
        """Wait until so many may begin."""
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

        async def look(one: tuple[int, Rename]) -> bool:
            number, step = one
            try:
                there[number] = await self._tree.look(step.key)
            except StoreError as error:
                self._failed(step, _outcome(error), error)
            return True

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

        async def look(parent: str) -> bool:
            with suppress(StoreError):  # each of its files is looked at, and told of
                if await self._tree.look(parent) is None:
                    absent.add(parent)
            return True

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
