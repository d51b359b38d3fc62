"""Carries batches of steps out: bounded parallel requests, drained and never cancelled.

A request that was sent cannot be unsent. So on a failure nothing new is started, everything in flight is
waited for, and three lists say what is done, what failed and what was not started.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol, TypedDict

from magicfs.errors import FormatError, ObjectNotFound, StoreError, UploadNotFound
from magicfs.protocol.identity import object_id
from magicfs.protocol.readback import WRITE_ID, Found, Outcome, etag_of_parts, resolve, write_id_shown
from magicfs.protocol.steps import Abort, Batch, Complete, Delete, Publication, Put, Rename, Step
from magicfs.runtime import parallel
from magicfs.runtime.parallel import drained, numbered
from magicfs.stores import object_settings
from magicfs.stores.object_settings import ObjectSettings
from magicfs.stores.port import Part, PutMode, Store
from magicfs.stores.retrying import STALL_TIMEOUT_S, StallTimeoutStore, checked_again


@dataclass(frozen=True, slots=True)
class SentPart:
    """A part that a task commit has uploaded."""

    key: str  # the final key of the file
    size: int
    last: bool  # of its file
    files_total: int
    bytes_total: int


@dataclass(frozen=True, slots=True)
class Event:
    """One finished step, for progress."""

    batch: str  # its name
    step: Step | Rename | SentPart
    outcome: Outcome


Observer = Callable[[Event], None]

Completed = Callable[[int, str], None]
"""Is told of a completed step: its number in the batch, from 0, and the object as
``protocol.deletion`` tells it, empty if no answer did."""


class Bodies(Protocol):
    """Where the bytes of the files come from that a batch puts."""

    async def body(self, step: Put) -> bytes:
        """The bytes of a file. FormatError if they are not those that its task wrote."""

    async def check(self) -> None:
        """Awaited before each file is put, and before that is tried again: raises if it must not be."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A step that was not done: CONFLICT, FAILED or UNKNOWN."""

    step: Step
    outcome: Outcome
    error: Exception


class BatchLists(TypedDict):
    """Keys by what became of them: the arguments of a ``CommitError``."""

    done: list[str]
    failed: list[str]
    not_started: list[str]


@dataclass(slots=True)
class BatchResult:
    """What became of a batch."""

    done: int = 0
    completed: dict[Publication, str] = field(default_factory=dict)
    """If the engine was asked to keep them: files that are visible, by their steps, with each object as
    ``protocol.deletion`` tells it, empty if no answer did."""
    failures: list[Failure] = field(default_factory=list)
    not_started: list[Step] = field(default_factory=list)
    """Steps that were drawn but not tried; those not even drawn are still in the iterator."""

    @property
    def ok(self) -> bool:
        """Whether every step succeeded."""
        return not self.failures and not self.not_started

    def lists(self, keys: Iterable[str]) -> BatchLists:
        """What a ``CommitError`` says of a batch of completions that was run with ``keep``.

        ``keys`` are those of all its steps: whatever was neither done nor failed was not started.
        """
        done = [step.key for step in self.completed]
        failed = [failure.step.key for failure in self.failures]
        tried = {*done, *failed}
        return {"done": done, "failed": failed, "not_started": [key for key in keys if key not in tried]}


class Engine:
    """Runs batches of steps against one store, with at most ``concurrency`` requests at once.

    If that is ``parallel.START`` it is only where a batch starts: the store's pace says how it goes on.

    The observer is called on the loop with every finished step; it must be quick and must not raise.
    """

    def __init__(self, store: Store, concurrency: int, observer: Observer | None = None) -> None:
        self.store = store
        self.concurrency = concurrency
        self._observer = observer

    def for_cleanup(self) -> Engine:
        """Best-effort cleanup: gives up after 60 s of silence, so that a failed job never hangs."""
        return Engine(StallTimeoutStore(self.store, STALL_TIMEOUT_S), self.concurrency)

    def told(self, settings: ObjectSettings) -> Engine:
        """The engine for a job that was told these settings of its objects; itself if they are its own."""
        store = object_settings.store_as_recorded(self.store, settings)
        return self if store is self.store else Engine(store, self.concurrency, self._observer)

    def tell(self, event: Event) -> None:
        """Report work to the observer that the engine does not do itself."""
        if self._observer is not None:
            self._observer(event)

    async def run(
        self,
        batch: Batch,
        *,
        stop_on_failure: bool = True,
        keep: bool = False,
        verify: bool = False,
        completed: Completed | None = None,
        bodies: Bodies | None = None,
    ) -> BatchResult:
        """Carry a batch out; its steps are drawn as they are started.

        The first failure ends it, unless ``stop_on_failure`` is false. ``keep`` returns the completed steps,
        which costs memory for every file; ``completed`` is told of each instead. ``verify`` looks at a
        completed file before it counts: a repeated complete may be answered with success although the object
        was deleted since, or is another's. ``bodies`` has what the batch puts.
        """
        result = BatchResult()

        async def one(place: tuple[int, Step]) -> bool:
            number, step = place
            if stop_on_failure and result.failures:
                result.not_started.append(step)
                return False
            outcome, error, etag = await self._carry_out(step, verify=verify, bodies=bodies)
            if error is None:
                result.done += 1
                if isinstance(step, Complete | Put):
                    if keep:
                        result.completed[step] = etag
                    if completed is not None:
                        completed(number, etag)
            else:
                result.failures.append(Failure(step, outcome, error))
            if self._observer is not None:
                self._observer(Event(batch.name, step, outcome))
            return error is None or not stop_on_failure

        await drained(numbered(batch.steps), one, parallel.limit_of(self.store, self.concurrency))
        return result

    async def _carry_out(
        self, step: Step, *, verify: bool, bodies: Bodies | None
    ) -> tuple[Outcome, Exception | None, str]:
        etag = ""
        try:
            match step:
                case Complete():
                    etag = await self._complete(step)
                    if verify:
                        return await self._confirm(step)
                case Put():
                    assert bodies is not None
                    etag = await self._put(step, bodies)
                case Abort():
                    await self.store.abort_upload(step.key, step.upload_id)
                case Delete():
                    await self.store.delete(step.keys)
        except StoreError as error:
            if isinstance(step, Complete | Put):
                return await self._read_back(step, error)
            return Outcome.UNKNOWN if error.retryable else Outcome.FAILED, error, ""
        except FormatError as error:  # of what is to be put: nothing was sent
            return Outcome.FAILED, error, ""
        except Exception as error:  # noqa: BLE001 - reported with the step it belongs to
            return Outcome.UNKNOWN, error, ""
        return Outcome.DONE, None, etag

    async def _complete(self, step: Complete) -> str:
        if step.checksums:
            known = zip(step.etags, step.checksums, strict=True)
            parts = [Part(number, etag, checksum) for number, (etag, checksum) in enumerate(known, start=1)]
        else:
            parts = [Part(number, etag) for number, etag in enumerate(step.etags, start=1)]
        done = await self.store.complete_upload(step.key, step.upload_id, parts, if_absent=step.if_absent)
        return object_id(done.etag, done.version)

    async def _put(self, step: Put, bodies: Bodies) -> str:
        body = await bodies.body(step)
        mode = PutMode.CREATE if step.if_absent else PutMode.OVERWRITE
        await bodies.check()
        with checked_again(bodies.check):
            put = await self.store.put(step.key, body, metadata={WRITE_ID: step.write_id}, mode=mode)
        return object_id(put.etag, put.version)

    async def _confirm(self, step: Complete) -> tuple[Outcome, Exception | None, str]:
        gone = UploadNotFound(
            "complete_upload",
            f"{self.store.bucket}/{step.key}",
            "the store reported success, but the object is not there: somebody removed or replaced it",
        )
        if step.write_id is None:
            return Outcome.DONE, None, ""
        return await self._read_back(step, gone)

    async def has_landed(self, step: Publication) -> bool:
        """Whether an upload of ours is visible at its key already; who completed it does not matter."""
        if not isinstance(step, Complete) or step.write_id is None:
            return False
        try:
            info = await self.store.head(step.key)
        except ObjectNotFound:
            return False
        shown = write_id_shown(
            info.metadata, info.etag, own=step.write_id, upload_id=step.upload_id, length=step.length
        )
        return shown == step.write_id

    async def _read_back(self, step: Publication, error: StoreError) -> tuple[Outcome, Exception | None, str]:
        upload_id, etags = (step.upload_id, step.etags) if isinstance(step, Complete) else ("", ())
        found: Found | None
        version = ""
        try:
            info = await self.store.head(step.key)
            version = info.version
            shown = write_id_shown(
                info.metadata, info.etag, own=step.write_id, upload_id=upload_id, length=step.length
            )
            found = Found(True, shown, info.size, info.etag)
        except ObjectNotFound:
            found = Found(False)
        except StoreError as second:
            error.add_note(f"and reading it back failed: {second}")
            found = None
        etag = etag_of_parts(etags) if step.write_id is None else None
        outcome = resolve(error, step.write_id, found, etag)
        if outcome is Outcome.DONE:
            assert found is not None
            return outcome, None, object_id(found.etag or "", version)
        return outcome, error, ""
