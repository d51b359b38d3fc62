"""What is tried to show each attribute wrong: for every attribute its variants, and a run of one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from proofs.guarantees import jobs, tasks
from proofs.guarantees.case import cuts_of
from proofs.guarantees.subjects import Subject

__all__ = ["EXPERIMENTS", "Experiment"]


@dataclass(frozen=True, slots=True)
class Experiment:
    """How one attribute is tried.

    Attributes:
        variants: Names of the runs for a committer.
        run: Makes one run; returns what it saw that must not be, None if nothing.
        unsafe: Whether seeing it makes the attribute true: those that say what can be observed.
    """

    variants: Callable[[Subject], Iterable[str]]
    run: Callable[[Subject, str], str | None]
    unsafe: bool = False


def _cuts(requests: Callable[[Subject], int]) -> Callable[[Subject], Iterable[str]]:
    return lambda subject: map(str, cuts_of(requests(subject)))


def _only(*names: str) -> Callable[[Subject], Iterable[str]]:
    return lambda _subject: names


EXPERIMENTS: Final = {
    "speculative_tasks": Experiment(
        _only(
            "the first wins, the other is aborted before",
            "the first wins, the other is aborted after",
            "the second wins, the other is aborted before",
            "the second wins, the other is aborted after",
            "the first wins, the other dies",
        ),
        tasks.speculative,
    ),
    "recoverable_job": Experiment(_only("by a second attempt"), jobs.recoverable),
    "abortable_task": Experiment(
        lambda subject: ["by its process", *map(str, cuts_of(tasks.requests_of_writing(subject)))],
        tasks.abortable,
    ),
    "abortable_job": Experiment(
        _only(
            "after its tasks", "with a task that has not committed", "with a commit that nobody was told of"
        ),
        jobs.abortable,
    ),
    "uncommitted_output_observable": Experiment(_only("after the last close"), tasks.observed, unsafe=True),
    "committed_task_output_observable": Experiment(
        _only("after the task commit"), tasks.observed, unsafe=True
    ),
    "atomic_task_commit": Experiment(_cuts(tasks.requests), tasks.atomic),
    "atomic_job_commit_list": Experiment(_only("a LIST"), jobs.atomic),
    "atomic_job_commit_manifest": Experiment(_only("a reader of manifests"), jobs.atomic),
    "partitioned_executor_resilience": Experiment(tasks.zombies, tasks.zombie),
    "repeatable_job_commit": Experiment(_cuts(jobs.requests), jobs.repeatable),
    "survives_driver_loss": Experiment(_cuts(jobs.requests), jobs.survives),
}
"""For every attribute of ``Guarantees`` how it is tried."""
