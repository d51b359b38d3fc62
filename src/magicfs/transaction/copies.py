"""Making files visible by copying them, where a store has no rename; such a job only goes forward.

A copy may be repeated by any process at any time. The source stays until every file is visible and the job's
work goes; afterwards no process that comes late can copy anything.
"""

from __future__ import annotations

from collections.abc import Iterable

from magicfs.engine import BatchResult, Completed, Engine, Event, Failure
from magicfs.errors import CommitFailed, MagicError, ObjectNotFound, StoreError
from magicfs.protocol.readback import Outcome
from magicfs.protocol.steps import Rename
from magicfs.runtime.parallel import drained

__all__ = ["copy_files"]


async def copy_files(
    engine: Engine, steps: Iterable[Rename], completed: Completed, *, looks_first: bool = False
) -> BatchResult:
    """Copy files, and look at each afterwards. The first that fails ends it; those that were begun with it
    are waited for.

    ``completed`` is told of each file that is visible, by the number of its step. One whose source is gone
    was copied before, if something of its length is there.
    """
    return await _Copying(engine, completed, looks_first=looks_first).run(steps)


class _Copying:
    def __init__(self, engine: Engine, completed: Completed, *, looks_first: bool) -> None:
        self._engine = engine
        self._completed = completed
        self._looks_first = looks_first
        self._result = BatchResult()

    async def run(self, steps: Iterable[Rename]) -> BatchResult:
        async def one(item: tuple[int, Rename]) -> bool:
            if self._result.failures:
                self._result.not_started.append(item[1])
            else:
                await self._copy(*item)
            return not self._result.failures

        await drained(enumerate(steps), one, self._engine.concurrency)
        return self._result

    async def _copy(self, number: int, step: Rename) -> None:
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
        problem = f"it has {found.size} bytes, and had {step.length}"
        changed = CommitFailed(
            f"{step.key} is not the file that its task committed: {problem}", failed=[step.key]
        )
        return self._failed(step, Outcome.FAILED, changed)

    async def _found(self, step: Rename) -> str | None:
        """The ETag of what lies at the key, if it can be the file."""
        try:
            info = await self._engine.store.head(step.key)
        except ObjectNotFound:
            return None
        return info.etag if info.size == step.length else None

    def _done(self, number: int, step: Rename, etag: str) -> None:
        self._result.done += 1
        self._completed(number, etag)
        self._engine.tell(Event("rename", step, Outcome.DONE))

    def _failed(self, step: Rename, outcome: Outcome, error: MagicError) -> None:
        self._result.failures.append(Failure(step, outcome, error))
        self._engine.tell(Event("rename", step, outcome))
