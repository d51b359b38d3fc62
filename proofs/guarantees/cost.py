"""What a job costs: 10 tasks of 10 files of 1 MB, every request of it counted, and every byte copied."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from proofs.guarantees.case import Case
from proofs.guarantees.subjects import Subject

__all__ = ["COLUMNS", "Cost", "of"]

TASKS: Final = 10
FILES: Final = 10
BYTES: Final = 1_000_000

COLUMNS: Final = {
    "writes": ("put", "create_upload", "put_part", "complete_upload", "write", "make_directory"),
    "reads": ("get", "get_range", "head", "checksums", "read", "look"),
    "lists": ("list", "list_directories", "list_uploads", "entries"),
    "deletes": ("delete", "delete_matching", "delete_all_matching", "delete_tree", "abort_upload"),
    "copies": ("copy",),
    "renames": ("rename",),
}
"""The columns of the table, and the requests of the port that each counts."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What one job came to.

    Attributes:
        requests: How many of each column.
        copied: Bytes that the store copied.
    """

    requests: Counter[str] = field(default_factory=Counter)
    copied: int = 0


def of(subject: Subject) -> Cost:
    """Run the job with one committer, and count."""
    counted: Counter[str] = Counter()
    with Case(subject, old=False) as case:
        driver = case.process(after=lambda request: counted.update([request.operation]))
        token = driver.call(driver.committer.setup_job).driver
        commits = []
        for number in range(TASKS):
            task = driver.task(number)
            content = bytes(BYTES)
            for one in range(FILES):
                task.filesystem.pipe_file(f"{task.path}/part-{one}.bin", content)
            commits.append(task.commit())
        driver.call(driver.committer.commit_job, commits, token)
        copied = case.ground.copied
    requests = Counter({column: sum(counted[one] for one in kinds) for column, kinds in COLUMNS.items()})
    return Cost(requests, copied)
