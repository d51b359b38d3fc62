"""Where a job keeps its work.

::

    DEST/__magic_job-<job>/job-<job>/<NN>/tasks/<attempt>/__base/<relative>           marker
    DEST/__magic_job-<job>/job-<job>/<NN>/tasks/<attempt>/__base/<relative>.pending   the upload
    DEST/__magic_job-<job>/job-<job>/<NN>/tasks/<attempt>/__to=<dir>/__base/…         for an extra destination
    DEST/__magic_job-<job>/job-<job>/<NN>/bundles/<attempt>.<n>                       bodies of small files
    DEST/__magic_job-<job>/job-<job>/<NN>/sets/<attempt>.pendingset                   a committed attempt
    DEST/__magic_job-<job>/job-<job>/<NN>/<task>.pendingset                           its copy for Hadoop
    DEST/__magic_job-<job>/job-<job>/<NN>/replaced/<task>-<n>.pendingset              Hadoop's, now replaced
    DEST/__magic_job-<job>/job-<job>/job.json                                         the job object
    DEST/__magic_job-<job>/job-<job>/facts/<nonce>/…                                  what it is to publish
    EXTRA/__magic_job-<job>/job-<job>/job-location.json                               where its job object is

``__magic`` is in place of the first element in jobs for Hadoop before 3.4, and in those of such a Hadoop.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal

from magicfs.errors import UsageError
from magicfs.protocol import paths
from magicfs.protocol.ids import AttemptId, JobId, TaskId
from magicfs.protocol.magic import (
    BASE,
    MAGIC,
    MAGIC_JOB,
    PENDING_SET,
    PathOwner,
    element_to,
)

SUCCESS = "_SUCCESS"
JOB_OBJECT = "job.json"
JOB_LOCATION = "job-location.json"
FACTS = "facts"
LayoutName = Literal["__magic_job", "__magic"]
_JOB = "job-"
# Its tasks and their attempts are called so; our own attempts begin with "attempt-".
_HADOOPS = re.compile(r"[0-9]{2,4}/(task_[^/]*\.pendingset|tasks/attempt_|replaced/)")
_TASKS = "tasks"
_SETS = "sets"
_BUNDLES = "bundles"


@dataclass(frozen=True, slots=True)
class WorkLayout:
    """The keys of one job attempt's work, all in the bucket of its destination."""

    destination: str  # the destination directory; empty for a whole bucket
    job: JobId
    attempt: int = 0  # number of the job attempt, from 0
    name: LayoutName = "__magic_job"

    def __post_init__(self) -> None:
        if not 0 <= self.attempt <= 9999:
            raise UsageError(f"attempt={self.attempt} is not a job attempt; number them from 0")

    @property
    def magic_directory(self) -> str:
        """The magic directory: of this job alone, or shared by all jobs of the layout ``__magic``."""
        element = MAGIC if self.name == "__magic" else f"{MAGIC_JOB}{self.job}"
        return paths.join(self.destination, element)

    @property
    def job_directory(self) -> str:
        """Everything that this job writes besides its output lies under here."""
        return f"{self.magic_directory}/{_JOB}{self.job}"

    @property
    def job_object_key(self) -> str:
        return f"{self.job_directory}/{JOB_OBJECT}"

    def is_job_object(self, key: str) -> bool:
        """Whether a key is a version of the job object: stores without If-Match have numbered ones."""
        prefix = f"{self.job_directory}/{JOB_OBJECT.removesuffix('.json')}."
        return key.startswith(prefix) and "/" not in key[len(prefix) :]

    def is_hadoops(self, key: str) -> bool:
        """Whether a key is what tasks of Hadoop's S3A magic committer leave under this job."""
        relative = key.removeprefix(f"{self.job_directory}/")
        return relative != key and _HADOOPS.match(relative) is not None

    def facts_directory(self, nonce: str) -> str:
        """Where one driver writes what the job publishes; never changed afterwards."""
        return f"{self.job_directory}/{FACTS}/{nonce}"

    @property
    def attempt_directory(self) -> str:
        return f"{self.job_directory}/{self.attempt:02d}"

    @property
    def sets_directory(self) -> str:
        """Where committed task attempts leave their pending sets."""
        return f"{self.attempt_directory}/{_SETS}"

    def is_bundle(self, key: str) -> bool:
        """Whether a key is an object in which a task attempt of the job leaves the bodies of small files."""
        relative = key.removeprefix(f"{self.job_directory}/")
        return relative != key and relative.split("/")[1:-1] == [_BUNDLES]

    def task_attempt_directory(self, attempt: AttemptId) -> str:
        """What belongs to one task attempt until it commits."""
        return f"{self.attempt_directory}/{_TASKS}/{attempt}"

    def work_directory(self, attempt: AttemptId, extra: str | None = None) -> str:
        """Where a task attempt writes: its relative paths become the destination's, or an extra one's."""
        directory = self.task_attempt_directory(attempt)
        return f"{directory}/{BASE}" if extra is None else f"{directory}/{element_to(extra)}/{BASE}"

    def job_location_key(self, extra: str) -> str:
        """The file in an extra destination that says where the job's object is."""
        return replace(self, destination=extra).job_directory + f"/{JOB_LOCATION}"

    def set_key(self, attempt: AttemptId) -> str:
        return f"{self.sets_directory}/{attempt}{PENDING_SET}"

    def hadoop_set_key(self, task: TaskId) -> str:
        """The pending set where Hadoop's job commit looks for it: one per task, the last commit wins."""
        return f"{self.attempt_directory}/{task}{PENDING_SET}"

    def replaced_set_key(self, task: TaskId, name: str) -> str:
        """Where a set of Hadoop's goes that a later attempt's copy has replaced, for the sweep to read."""
        return f"{self.attempt_directory}/replaced/{task}-{name}{PENDING_SET}"

    def attempt_of_set(self, key: str) -> AttemptId | None:
        """The attempt whose pending set a key is; None for any other key."""
        prefix = paths.prefix_of(self.sets_directory)
        name = key.removeprefix(prefix)
        if name == key or "/" in name or not name.endswith(PENDING_SET):
            return None
        return AttemptId(name.removesuffix(PENDING_SET))

    @property
    def success_key(self) -> str:
        """The completion marker of the destination."""
        return paths.join(self.destination, SUCCESS)


def bundle_in(owner: PathOwner, number: int) -> str:
    """One of the bundles of the task attempt that a path belongs to."""
    attempt_directory = owner.directory.partition("/")[2].rsplit("/", 2)[0]
    return f"{attempt_directory}/{_BUNDLES}/{owner.attempt}.{number:05d}"
