"""Where the staging committers keep pending sets in a filesystem of the cluster.

::

    DIR/<user>/<job>/staging-uploads/_temporary/<N>/_temporary/<attempt>/<task>.pendingset    an attempt's set
    DIR/<user>/<job>/staging-uploads/_temporary/<N>/_temporary/<attempt>/<task>               a copy of it
    DIR/<user>/<job>/staging-uploads/_temporary/<N>/<task>                                    a committed task

That is the layout of Hadoop's staging committers, which wrap its ``FileOutputCommitter``; only the attempt's
own set is not there, for its copy is all that they write.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from magicfs.protocol.ids import AttemptId, TaskId
from magicfs.protocol.magic import PENDING_SET

__all__ = ["TEMPORARY", "ClusterLayout"]

TEMPORARY: Final = "_temporary"


@dataclass(frozen=True, slots=True)
class ClusterLayout:
    """The paths of one job below ``cluster_directory``.

    Attributes:
        user: Whose job it is.
        job: The job.
    """

    user: str
    job: str

    @property
    def job_directory(self) -> str:
        """Everything that the job writes there lies under here."""
        return f"{self.user}/{self.job}"

    @property
    def uploads_directory(self) -> str:
        """Hadoop's ``Paths.getStagingUploadsParentDirectory``."""
        return f"{self.job_directory}/staging-uploads"

    @property
    def attempts_directory(self) -> str:
        """What holds the directories of all job attempts."""
        return f"{self.uploads_directory}/{TEMPORARY}"

    def attempt_directory(self, number: int | str) -> str:
        """A job attempt's directory (``FileOutputCommitter.getJobAttemptPath``)."""
        return f"{self.attempts_directory}/{number}"

    def work(self, number: int | str) -> str:
        """What holds the directories of a job attempt's task attempts."""
        return f"{self.attempt_directory(number)}/{TEMPORARY}"

    def committed(self, number: int, task: TaskId) -> str:
        """A committed task (``FileOutputCommitter.getCommittedTaskPath``)."""
        return f"{self.attempt_directory(number)}/{task}"

    def work_directory(self, number: int, attempt: AttemptId) -> str:
        """What one attempt writes (``FileOutputCommitter.getTaskAttemptPath``)."""
        return f"{self.work(number)}/{attempt}"

    def own_set(self, number: int, attempt: AttemptId, task: TaskId) -> str:
        """An attempt's set, which no other attempt replaces."""
        return f"{self.work_directory(number, attempt)}/{task}{PENDING_SET}"

    def copy(self, number: int, attempt: AttemptId, task: TaskId) -> str:
        """What an attempt renames to the committed task."""
        return f"{self.work_directory(number, attempt)}/{task}"
