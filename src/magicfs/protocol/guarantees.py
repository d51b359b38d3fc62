"""What a committer promises: the attributes of Table V of "A Zero-Rename Committer", and three of our own."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarantees:
    """One column of the table. A committer is exactly as safe as it says here: the exam shows every cell.
    What it does not name it does not promise.

    No cell rests on a condition of a completion, which some stores do not know: on Google Cloud Storage
    completions have no precondition. That one job alone publishes what it wrote comes from its job object,
    which one conditional write moves, and from unique names, which hold the ids of job and task. Where a job
    gives names without ids, ``mode="error"`` looks at them first there, with a window until it completes.
    """

    speculative_tasks: bool = False
    """Several attempts of one task may run at once. The engine lets one commit; that one is published."""
    recoverable_job: bool = False
    """A second job attempt can publish what tasks of the first have committed."""
    abortable_task: bool = False  # aborting a task attempt leaves nothing of it
    abortable_job: bool = False
    """Aborting a job leaves the destination as it was before the job, even if the one who aborts does not
    know what its tasks have done.
    """
    uncommitted_output_observable: bool = False
    """A LIST of the destination shows files of tasks that have not committed."""
    committed_task_output_observable: bool = False
    """A LIST of the destination shows files of committed tasks before the job commits."""
    atomic_task_commit: bool = False
    """All files of a task attempt that dies before or during its commit are published, or none."""
    atomic_job_commit_list: bool = False
    """A reader who lists the destination sees all of a job's files, or none."""
    atomic_job_commit_manifest: bool = False  # a reader of manifests sees all of a job's files, or none
    partitioned_executor_resilience: bool = False
    """A task attempt that is cut off from its driver and runs on, and even commits, adds nothing to what is
    published.
    """
    repeatable_job_commit: bool = False
    """A job commit that died can be carried out again, and publishes the whole."""
    survives_driver_loss: bool = False
    """A job whose driver died while it committed can be brought to exactly its old or exactly its new state
    by another process.
    """

    def to_dict(self) -> dict[str, bool]:
        """Attribute by name, in the order of the table."""
        return {one.name: getattr(self, one.name) for one in fields(self)}
