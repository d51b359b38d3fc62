"""What a committer promises: the attributes of Table V of "A Zero-Rename Committer", and three of our own."""

from __future__ import annotations

from dataclasses import dataclass, fields

__all__ = ["Guarantees"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarantees:
    """One column of the table. A committer is exactly as safe as it says here: the exam shows every cell.

    Attributes:
        speculative_tasks: Several attempts of one task may run at once, of which the engine lets one commit;
            that one is published.
        recoverable_job: A second job attempt can publish what tasks of the first have committed.
        abortable_task: Aborting a task attempt leaves nothing of it.
        abortable_job: Aborting a job leaves the destination as it was before the job, whoever knows of what
            its tasks have done.
        uncommitted_output_observable: A LIST of the destination shows files of tasks that have not
            committed.
        committed_task_output_observable: A LIST of the destination shows files of committed tasks before
            the job commits.
        atomic_task_commit: A task attempt that dies, at the latest while it commits, leaves all of its files
            to be published, or none.
        atomic_job_commit_list: A reader who lists the destination sees all of a job's files, or none.
        atomic_job_commit_manifest: A reader of manifests sees all of a job's files, or none.
        partitioned_executor_resilience: A task attempt that was cut off from its driver and runs on, and
            even commits, adds nothing to what is published.
        repeatable_job_commit: A job commit that died can be carried out again, and publishes the whole.
        survives_driver_loss: A job whose driver died while it committed can be brought to exactly its old or
            exactly its new state by another process.
    """

    speculative_tasks: bool
    recoverable_job: bool
    abortable_task: bool
    abortable_job: bool
    uncommitted_output_observable: bool
    committed_task_output_observable: bool
    atomic_task_commit: bool
    atomic_job_commit_list: bool
    atomic_job_commit_manifest: bool
    partitioned_executor_resilience: bool
    repeatable_job_commit: bool
    survives_driver_loss: bool

    def to_dict(self) -> dict[str, bool]:
        """Attribute by name, in the order of the table."""
        return {one.name: getattr(self, one.name) for one in fields(self)}
