"""Saving: each rank writes as a task of one job, and the coordinator commits it."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, Literal

from fsspec.spec import AbstractFileSystem
from torch.distributed.checkpoint import FileSystemWriter
from torch.distributed.checkpoint.filesystem import FileSystemBase
from torch.distributed.checkpoint.metadata import Metadata
from torch.distributed.checkpoint.planner import SavePlan, SavePlanner
from torch.distributed.checkpoint.storage import WriteResult
from torch.futures import Future

from magicfs.errors import CommitFailed, UsageError
from magicfs.formats.task_commit import TaskCommit
from magicfs.job.job import Job
from magicfs.job.task import Task
from magicfs.protocol import ids
from magicfs.protocol.final_names import unique_name
from magicfs.report import JobReport
from magicfs.torch.files import Files, NoFiles


@dataclasses.dataclass(frozen=True)
class _Share:
    """What the coordinator sends a rank with its plan."""

    prefix: str  # of the rank's files, as torch names them
    number: int  # of the rank's task
    job: str
    name: str  # of the checkpoint


@dataclasses.dataclass(frozen=True)
class _First:
    """Where the first item of a rank lies, and what the rank's task has committed."""

    info: Any
    commit: TaskCommit


class StorageWriter(FileSystemWriter):
    """Writes checkpoints of ``torch.distributed.checkpoint``, each complete or not at all.

    ``dcp.save(state, checkpoint_id="step-100", storage_writer=writer)`` publishes the directory ``step-100``
    below the URL once every rank has written its part; until then it is invisible. File names contain the
    job's id: load them with ``StorageReader``. A second save with the same name publishes another checkpoint
    with that name, and readers see the newer one.

    If a rank raises, the save raises on every rank, and the coordinator discards the checkpoint at the next
    save, or when you call ``abort``. If a process was killed, ``magicfs recover --abort URL`` removes its
    leftovers.

    Create one on every rank, with the same arguments. It pickles without secrets, as ``async_save`` with a
    process needs.

    Args:
        url: The directory of all checkpoints of a run, such as ``s3://bucket/run-7``.
        mode: ``"append"`` keeps earlier checkpoints; ``"overwrite"`` deletes them once the new one is
            visible.
        storage_options: Options of the store's fsspec filesystem.
        filesystem: The filesystem itself, instead of options.
        job_options: Other arguments of ``magicfs.Job``, such as ``concurrency`` or ``options``.
        single_file_per_rank: As for torch's ``FileSystemWriter``, like all that follow.
        thread_count: Files of a rank, each written by a thread.
        per_thread_copy_ahead: Bytes to copy from the accelerator ahead of writing them.
        serialization_format: torch's ``SerializationFormat``; by default that of ``torch.save``.

    Attributes:
        report: The report of the last save, on the coordinator; otherwise None.

    Raises:
        UsageError: An argument is wrong. Nothing was changed.
    """

    def __init__(
        self,
        url: str,
        *,
        mode: Literal["append", "overwrite"] = "append",
        storage_options: Mapping[str, Any] | None = None,
        filesystem: AbstractFileSystem | None = None,
        job_options: Mapping[str, Any] | None = None,
        single_file_per_rank: bool = True,
        thread_count: int = 1,
        per_thread_copy_ahead: int = 10_000_000,
        serialization_format: Any = None,
    ) -> None:
        others = {} if serialization_format is None else {"serialization_format": serialization_format}
        super().__init__(
            ".",
            single_file_per_rank=single_file_per_rank,
            sync_files=False,
            thread_count=thread_count,
            per_thread_copy_ahead=per_thread_copy_ahead,
            **others,
        )
        self.url = url
        self.report: JobReport | None = None
        self.fs: FileSystemBase = NoFiles()
        self.path = ""
        access = {"storage_options": storage_options, "filesystem": filesystem}
        # Ranks need not share what they remember: what a rank has written travels with its results.
        self._options = {**access, "mode": mode, **(job_options or {})}
        self._options["options"] = {**(self._options.get("options") or {}), "tracking": "memory"}
        self._job: Job | None = None  # the coordinator's, while it is open
        self._last_job = ""
        self._new_job()  # so that a wrong argument is known at once

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Begin another checkpoint; called by torch. UsageError for a name that none can have."""
        super().reset(checkpoint_id)

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Called by torch on every rank. Gives up a checkpoint that an earlier save has left open."""
        super().set_up_storage_writer(is_coordinator, *args, **kwargs)
        if not self.use_collectives:
            raise UsageError(
                "with use_collectives=False no rank knows when all parts are written; leave it out"
            )
        if not self.path:
            raise UsageError("the checkpoint has no name; give dcp.save a checkpoint_id, such as 'step-100'")
        self.report = None
        self.abort()

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        """Called by torch on every rank; makes no request."""
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """Called by torch on the coordinator: sets the job up, and sends it to every rank."""
        job = self._new_job()
        self._job = job.setup()
        return [
            dataclasses.replace(plan, storage_data=_Share(f"__{number}_", number, job.id, self.path))
            for number, plan in enumerate(plans)
        ]

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        """Called by torch on every rank: writes the rank's files, and commits its task. Nothing is visible.

        Raises:
            CommitFailed: A writer thread failed; the rank's uploads are aborted.
            UsageError: The planner reused the plan of an earlier checkpoint.
            StoreError: The store refused or failed; the rank's uploads are aborted as far as possible.
        """
        share: _Share = plan.storage_data
        if share.job == self._last_job or share.name != self.path:
            raise UsageError(
                "the plan belongs to an earlier checkpoint and its job; create the planner without "
                "enable_plan_caching"
            )
        self._last_job = share.job
        done: Future[list[WriteResult]] = Future()
        done.set_result(self._write(share, plan, planner) if plan.items else [])
        return done

    def _write(self, share: _Share, plan: SavePlan, planner: SavePlanner) -> list[WriteResult]:
        job = self._job if self._job is not None else self._new_job(share.job)
        task = Task(job.spec, ids.task_id(share.number))
        with task:
            self.fs = Files(task.filesystem, task.path)
            results = super().write_data(plan, planner).wait()
            lost = {item.index for item in plan.items} - {result.index for result in results}
            if lost:  # torch's threads lose their exceptions
                raise CommitFailed(
                    f"{len(lost)} of {len(plan.items)} items of rank {share.number} were not written, such "
                    f"as {min(map(str, lost))}: a writer thread failed; its uploads were aborted"
                )
        assert task.committed is not None
        named = [_renamed(result, task.id, share.job) for result in results]
        first, *rest = named
        carried = dataclasses.replace(first, storage_data=_First(first.storage_data, task.committed))
        return [carried, *rest]

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Called by torch on the coordinator when every rank has written: publishes the checkpoint.

        Raises:
            CommitError: As ``Job.commit``; the message says what is visible.
        """
        job, self._job = self._job, None
        assert job is not None
        with ExitStack() as stack:
            stack.push(job)
            plain = [[_taken(result, job) for result in of_rank] for of_rank in results]
            with job.task(len(results)) as task:
                self.fs = Files(task.filesystem, task.path)
                super().finish(metadata, plain)
        self.report = job.report

    def abort(self) -> None:
        """Discard the checkpoint that is being written, on the coordinator. A second call does nothing.

        Raises:
            StoreError: Something could not be discarded; ``magicfs recover`` tries again.
        """
        job, self._job = self._job, None
        if job is not None:
            job.abort()

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        return Files.validate_checkpoint_id(checkpoint_id)

    def _new_job(self, job_id: str | None = None) -> Job:
        return Job(self.url, job_id=job_id, **self._options)

    def __getstate__(self) -> dict[str, Any]:
        # An open job is its own process's. Options without secrets: those of the spec.
        spec = self._new_job().spec
        options = {**self._options, "storage_options": spec.__getstate__()["storage_options"]}
        return {**self.__dict__, "fs": NoFiles(), "_job": None, "_options": options}


def _renamed(result: WriteResult, task: str, job: str) -> WriteResult:
    """A result that names its file as it will be called."""
    *above, last = result.storage_data.relative_path.split("/")
    final = "/".join(unique_name((*above, last), task, ids.job_id(job)))
    return dataclasses.replace(
        result, storage_data=dataclasses.replace(result.storage_data, relative_path=final)
    )


def _taken(result: WriteResult, job: Job) -> WriteResult:
    """A result as torch makes it; a commit that it carries goes to the job."""
    if not isinstance(result.storage_data, _First):
        return result
    job.add(result.storage_data.commit)
    return dataclasses.replace(result, storage_data=result.storage_data.info)
