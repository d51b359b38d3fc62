"""Table V of "A Zero-Rename Committer" beside a run's own, every difference explained.

The values are those of the paper's edition of May 2021; its table has four columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["PAPER", "Difference", "differences"]

# The paper's columns, and those of ours that are of the same kind.
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "Direct": ("direct",),
    "Stocator": ("stocator",),
    "S3A": ("magic", "directory", "partitioned"),
    "EMR": ("task-completing",),
}

# In the order of COLUMNS; the paper's "atomic job commit" stands beside both of ours.
PAPER: Mapping[str, tuple[bool, bool, bool, bool]] = {
    "speculative_tasks": (False, True, True, True),
    "recoverable_job": (False, False, False, True),
    "abortable_task": (False, True, True, True),
    "abortable_job": (True, True, True, True),
    "uncommitted_output_observable": (True, True, False, False),
    "committed_task_output_observable": (True, True, False, True),
    "atomic_task_commit": (True, True, True, False),
    "atomic_job_commit_list": (True, True, False, True),
    "atomic_job_commit_manifest": (True, True, False, True),
    "partitioned_executor_resilience": (False, False, True, False),
}

_MARKER = "the paper counts the marker `_SUCCESS`, which is one request; a listing shows files long before it"
WHY: Mapping[tuple[str, str], str] = {
    ("Direct", "abortable_job"): (
        "an abort would have to delete the destination; we remove what tasks have reported, and a task that "
        "died has reported nothing"
    ),
    ("Direct", "atomic_task_commit"): (
        "for the paper a commit without any work is atomic; we ask whether an attempt that dies leaves all "
        "of its files or none, and it leaves those that it has closed"
    ),
    ("Direct", "atomic_job_commit_list"): _MARKER,
    ("Direct", "atomic_job_commit_manifest"): "its `_SUCCESS` lists no files for readers",
    ("Stocator", "atomic_job_commit_list"): (
        _MARKER + "; a reader of the manifest in `_SUCCESS` sees all or none, which is our other row"
    ),
    ("S3A", "recoverable_job"): (
        "Hadoop's committers declare recovery unsupported; pending sets outlive the driver, and a later "
        "attempt of ours takes them over"
    ),
    ("S3A", "atomic_job_commit_manifest"): (
        "Hadoop has no manifest for readers; ours is written before the pointer to it moves, in one request"
    ),
    ("EMR", "recoverable_job"): (
        "the paper counts visible files as recovered tasks; nothing says which attempt wrote them, so a "
        "second job attempt cannot take them over"
    ),
    ("EMR", "abortable_job"): (
        "what a task has completed is visible; an abort that knows nothing of the task cannot remove it"
    ),
    ("EMR", "atomic_job_commit_list"): _MARKER,
    ("EMR", "atomic_job_commit_manifest"): "its `_SUCCESS` lists no files for readers",
}


@dataclass(frozen=True, slots=True)
class Difference:
    """A cell in which the paper and a run differ.

    Attributes:
        column: The paper's column.
        attribute: The row.
        paper: What the paper says.
        ours: Those of our columns that say otherwise.
        why: The reason.
    """

    column: str
    attribute: str
    paper: bool
    ours: tuple[str, ...]
    why: str


def differences(seen: Mapping[str, Mapping[str, bool]]) -> list[Difference]:
    """Where a run differs from the paper.

    Args:
        seen: Value by attribute, by column of ours.

    Raises:
        KeyError: A difference that nobody has explained.
    """
    found = []
    for place, (column, names) in enumerate(COLUMNS.items()):
        for attribute, row in PAPER.items():
            others = tuple(name for name in names if seen[name][attribute] != row[place])
            if others:
                found.append(Difference(column, attribute, row[place], others, WHY[column, attribute]))
    return found
