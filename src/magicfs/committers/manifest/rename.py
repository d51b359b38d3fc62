"""The stages that make a job visible: every file is renamed to its final key, and looked at if wanted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field

from magicfs.committers.classic import Published
from magicfs.committers.manifest.spill import Spill, SpilledFile
from magicfs.committers.manifest.stage import Stage, StageConfig
from magicfs.engine import Event
from magicfs.errors import CommitError, CommitFailed, CommitOutcomeUnknown, ObjectNotFound, StoreError
from magicfs.parallel import drained
from magicfs.protocol.readback import Outcome
from magicfs.protocol.steps import Rename
from magicfs.stores.tree_port import Entry

__all__ = ["Pace", "RenameFiles", "ToRename", "ValidateFiles"]


class Pace:
    """Lets at most so many pass a second, evenly. With ``per_second=0`` there is no limit."""

    def __init__(
        self,
        per_second: int,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._interval = 1 / per_second if per_second else 0.0
        self._clock = clock
        self._sleep = sleep
        self._next = 0.0

    async def wait(self) -> float:
        """Wait for one's turn; returns the seconds waited."""
        if not self._interval:
            return 0.0
        now = self._clock()
        turn = max(now, self._next)
        self._next = turn + self._interval
        if turn > now:
            await self._sleep(turn - now)
        return turn - now


@dataclass(frozen=True, slots=True)
class ToRename:
    """The files of a job."""

    spill: Spill
    files: int
    created: Collection[str]  # directories that the job has made: nothing there can be somebody else's


@dataclass(slots=True)
class _Trouble:
    """What went wrong, by place in the spill; everything before ``drawn`` that is not here is done."""

    drawn: int = 0
    failed: dict[int, tuple[SpilledFile, Outcome, Exception]] = field(default_factory=dict)
    not_tried: set[int] = field(default_factory=set)


class RenameFiles(Stage[ToRename, Published]):
    """Rename every file, many at once; each is reported as a step ``Rename`` of the stage ``rename``.

    A rename whose answer was lost, or that a dead driver had carried out, counts as done if the source is
    gone and the destination has its ETag. After a failure no further rename is begun, what is under way ends,
    and what has been renamed stays: nothing is taken back. Raises CommitFailed, whose ``done``, ``failed``
    and ``not_started`` name all files; or CommitOutcomeUnknown, with the same, if the store did not say
    whether a rename took place, or it may yet.
    """

    name = "job_stage_rename_files"

    def __init__(self, config: StageConfig) -> None:
        super().__init__(config)
        self._pace = Pace(config.options.renames_per_second)
        self._published = Published()
        self._trouble = _Trouble()
        self._created: Collection[str] = ()

    async def _run(self, argument: ToRename) -> Published:
        self._created = argument.created
        trouble, broken = self._trouble, None
        try:
            await drained(argument.spill.files(), self._one, self.config.concurrency)
        except StoreError as error:
            broken = error  # the local file could not be read on
        if trouble.failed or broken is not None:
            raise await self._error(argument, broken)
        return self._published

    async def _one(self, file: SpilledFile) -> bool:
        trouble = self._trouble
        trouble.drawn = max(trouble.drawn, file.number)
        if (waited := await self._pace.wait()) > 0:
            self.config.counts.sample("store_io_rate_limited.mean", round(waited * 1000))
        if trouble.failed:
            trouble.not_tried.add(file.number)
            return False
        outcome, error = await self._carry_out(file)
        if error is None:
            self._published.add(file.key, file.size)
        else:
            trouble.failed[file.number] = (file, outcome, error)
        self.config.tell(Event("rename", Rename(file.source, file.key, file.size, file.etag), outcome))
        return error is None

    async def _carry_out(self, file: SpilledFile) -> tuple[Outcome, Exception | None]:
        try:
            with self.config.counts.timed("commit_file_rename"):
                await self._rename(file)
        except StoreError as error:
            return Outcome.UNKNOWN if error.retryable else Outcome.FAILED, error
        except Exception as error:  # noqa: BLE001 - reported with the file it belongs to
            return Outcome.UNKNOWN, error
        return Outcome.DONE, None

    async def _rename(self, file: SpilledFile) -> None:
        tree, parent = self.config.tree, file.key.rpartition("/")[0]
        if self.config.options.delete_target_files and parent not in self._created:
            await self._clear(file)
        try:
            await tree.rename(file.source, file.key)
        except StoreError as error:
            source = await self._look(file.source, error)
            if source is None and await self._is_done(file, error):
                return
            if source is None or not isinstance(error, ObjectNotFound):
                error.add_note(f"Failed to rename {file.source} to {file.key}")
                raise
            # Somebody has removed the directory since the task committed.
            await tree.make_directory(parent)
            await tree.rename(file.source, file.key)

    async def _look(self, key: str, error: StoreError) -> Entry | None:
        try:
            return await self.config.tree.look(key)
        except StoreError as second:
            error.add_note(f"and looking for {key} failed: {second}")
            raise error from None

    async def _is_done(self, file: SpilledFile, error: StoreError) -> bool:
        there = await self._look(file.key, error)
        if there is None or there.kind != "file" or not file.etag or there.etag != file.etag:
            return False
        self.config.counts.add("commit_file_rename_recovered")
        return True

    async def _clear(self, file: SpilledFile) -> None:
        """Delete what lies at the destination, unless the file itself does already."""
        tree = self.config.tree
        there = await tree.look(file.key)
        if there is None or await tree.look(file.source) is None:
            return
        if there.kind == "directory":
            await tree.delete_tree(file.key)
        else:
            await tree.delete(file.key)
        self.config.counts.add("op_delete")

    # -- the error of a failure --------------------------------------------------------------------------

    async def _error(self, argument: ToRename, broken: StoreError | None) -> CommitError:
        trouble, job = self._trouble, self.config.context.job
        done: list[str] = []
        left: list[str] = []
        try:
            async for file in argument.spill.files():
                if file.number > trouble.drawn or file.number in trouble.not_tried:
                    left.append(file.key)
                elif file.number not in trouble.failed:
                    done.append(file.key)
        except StoreError as error:
            broken = broken or error
        failures = [trouble.failed[number] for number in sorted(trouble.failed)]
        first = failures[0][2] if failures else broken
        assert first is not None
        unsure = any(outcome is Outcome.UNKNOWN for _, outcome, _ in failures)
        kind = CommitOutcomeUnknown if unsure else CommitFailed
        named = failures[0][0].key if failures else "the list of files"
        raised = kind(
            f"{self._published.files} of {argument.files} files of job {job} are published and stay; "
            f"{named} could not be {'renamed' if failures else 'read'}: {first}; nothing of the job was "
            "removed; commit it again, which does the rest, or abort it, which leaves what is published",
            done=done,
            failed=[file.key for file, _, _ in failures],
            not_started=left,
        )
        raised.__cause__ = first
        for _, _, other in failures[1:]:
            raised.add_note(f"and: {other}")
        return raised


class ValidateFiles(Stage[Spill, int]):
    """Compare every file at its final key with what its manifest says of it; returns how many. Raises
    CommitFailed if one is not there, is a directory, or has another size or ETag.
    """

    name = "job_stage_optional_validate_output"

    async def _run(self, argument: Spill) -> int:
        looked_at = 0

        async def one(file: SpilledFile) -> bool:
            nonlocal looked_at
            if (problem := await self._problem(file)) is not None:
                raise CommitFailed(
                    f"{file.key} is not the file that task {file.task} committed: {problem}; the files of "
                    f"job {self.config.context.job} are published, but there is no _SUCCESS; find out who "
                    "changed it, and run the job again",
                    failed=[file.key],
                )
            looked_at += 1
            return True

        await drained(argument.files(), one, self.config.concurrency)
        return looked_at

    async def _problem(self, file: SpilledFile) -> str | None:
        found = await self.config.tree.look(file.key)
        if found is None:
            return "nothing is there"
        if found.kind != "file":
            return "a directory is there"
        if found.size != file.size:
            return f"it has {found.size} bytes, and had {file.size}"
        if file.etag and found.etag != file.etag:
            return f"its ETag is {found.etag}, and was {file.etag}"
        return None
