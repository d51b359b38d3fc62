"""What a job did, for people and programs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from magicfs.formats.statistics import Statistics

__all__ = ["JobReport", "Progress", "ProgressCallback", "human_bytes"]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a job commit is.

    Attributes:
        stage: ``complete`` while files become visible, ``cleanup`` afterwards.
        files_done: Files that are visible.
        files_total: Files of the job.
        bytes_done: Their size.
        bytes_total: Size of all.
    """

    stage: str
    files_done: int
    files_total: int
    bytes_done: int
    bytes_total: int


ProgressCallback = Callable[[Progress], None]


@dataclass(frozen=True, slots=True)
class JobReport:
    """A published job.

    Attributes:
        job_id: The job.
        destination: URL of the dataset.
        committer: Which committer.
        conflict: Which conflict mode.
        tasks: Tasks whose output was published.
        files: Files that became visible.
        bytes: Their size.
        seconds: Wall time of the job commit.
        uploads_aborted: Uploads of failed, retried or duplicate attempts that were discarded.
        filenames: URLs of the first 100 files.
        warnings: Troubles after the files were published, such as work objects that could not be removed.
        statistics: What tasks and job counted, under Hadoop's names.
    """

    job_id: str
    destination: str
    committer: str
    conflict: str
    tasks: int
    files: int
    bytes: int
    seconds: float
    uploads_aborted: int = 0
    filenames: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    statistics: Statistics = field(default_factory=Statistics, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        plain = asdict(self)
        plain["statistics"] = self.statistics.to_document()
        return plain

    def __str__(self) -> str:
        lines = [
            f"published   {self.destination}",
            f"files       {self.files} ({human_bytes(self.bytes)}) from {_count(self.tasks, 'task')}",
            f"job         {self.job_id}, committer {self.committer}, conflict {self.conflict}",
            f"job commit  {self.seconds:.2f} s",
        ]
        if self.uploads_aborted:
            lines.append(f"discarded   {_count(self.uploads_aborted, 'upload')} of attempts that lost")
        lines += [f"warning     {warning}" for warning in self.warnings]
        return "\n".join(lines)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def human_bytes(size: float) -> str:
    """A size with a binary unit, such as ``12.3 MiB``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
