"""Where committers that move files keep their work: below ``_temporary``, which readers skip.

::

    DEST/_temporary/<job>/<NN>/tasks/<task attempt>/<relative>          what an attempt writes
    DEST/_temporary/<job>/<NN>/manifests/<task attempt>-manifest.json   a committed task attempt
    DEST/_temporary/<job>/claims/<task>-manifest.json                   the same, where tasks publish

That is the layout of Hadoop's ``ManifestCommitter``. Its ``FileOutputCommitter`` has no ``<job>``, so that
two jobs at one destination delete each other's work, and no names between ``<NN>`` and the tasks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from magicfs.protocol import paths
from magicfs.protocol.ids import AttemptId, JobId, TaskId

TEMPORARY: Final = "_temporary"

RENAMING: Final = frozenset({"manifest", "file"})
"""Committers under a job object whose tasks leave files to be renamed, or copied."""


@dataclass(frozen=True, slots=True)
class TemporaryLayout:
    """The directories of one job attempt's work."""

    destination: str  # the directory; empty for a whole bucket
    job: JobId
    attempt: int = 0  # number of the job attempt, from 0

    @property
    def temporary(self) -> str:
        """What all jobs of a destination share."""
        return paths.join(self.destination, TEMPORARY)

    @property
    def job_directory(self) -> str:
        """Everything that this job writes besides its output lies under here."""
        return f"{self.temporary}/{self.job}"

    def attempt_directory(self, number: int | None = None) -> str:
        """A job attempt's directory; by default this one's."""
        return f"{self.job_directory}/{self.attempt if number is None else number:02d}"

    @property
    def tasks_directory(self) -> str:
        return f"{self.attempt_directory()}/tasks"

    def task_attempt_directory(self, attempt: AttemptId) -> str:
        """Where a task attempt writes: its relative paths become the destination's."""
        return f"{self.tasks_directory}/{attempt}"

    @property
    def manifests_directory(self) -> str:
        return f"{self.attempt_directory()}/manifests"

    def manifest_key(self, attempt: AttemptId) -> str:
        return f"{self.manifests_directory}/{attempt}-manifest.json"

    @property
    def claims_directory(self) -> str:
        """Where the manifests of tasks are that publish when they commit, one for each of the job."""
        return f"{self.job_directory}/claims"

    def claim_key(self, task: TaskId) -> str:
        return f"{self.claims_directory}/{task}-manifest.json"
