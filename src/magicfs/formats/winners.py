"""The attempts whose files count, as the stocator committer lists them in ``_SUCCESS``.

A field of its own beside those of ``SuccessData``, which Hadoop's readers skip::

    "magicfs.winners": {"<job>": {"<attempt>": <number of its files>, …}, …}

All attempts of all jobs whose files are part of the dataset, in the order in which they were published.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from magicfs.errors import UsageError
from magicfs.formats.fields import Fields
from magicfs.formats.success import SuccessData
from magicfs.protocol import ids

__all__ = ["WINNERS_FIELD", "Winners"]

WINNERS_FIELD: Final = "magicfs.winners"


@dataclass(frozen=True, slots=True)
class Winners:
    """The attempts that were published. A value.

    Attributes:
        jobs: Number of files by attempt, by job.
    """

    jobs: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, path: str, success: SuccessData) -> Winners | None:
        """What a ``_SUCCESS`` lists; None if it lists nothing, for another committer wrote it.

        Raises:
            FormatError: The list cannot be believed.
        """
        fields = Fields(path, dict(success.unknown))
        if not fields.has(WINNERS_FIELD):
            return None
        jobs = {}
        for job, attempts in fields.object_map(WINNERS_FIELD):
            names = attempts.rest()
            for name in names:
                attempts.required_integer(name, minimum=0)
            try:
                ids.job_id(job)
                for name in names:
                    ids.task_of_attempt(ids.check_attempt(name))
            except UsageError as error:
                raise fields.error(WINNERS_FIELD, str(error)) from None
            jobs[job] = {name: attempts.integer(name) for name in names}
        return cls(jobs)

    def added(self, job: str, attempts: Mapping[str, int]) -> Winners:
        """The same with one more job, or with other attempts of a job."""
        return Winners({name: one for name, one in self.jobs.items() if name != job} | {job: attempts})

    def written_into(self, success: SuccessData) -> SuccessData:
        """A ``_SUCCESS`` that lists them."""
        return replace(success, unknown={**success.unknown, WINNERS_FIELD: self.jobs})
