"""Identifiers of jobs, tasks and attempts.

The identifiers are text, safe as one element of any key: letters, digits, ``.``, ``_`` and ``-``, not
beginning with a dot. Randomness comes from the caller, so this module stays pure.
"""

from __future__ import annotations

import re
from typing import NewType

from magicfs.errors import UsageError

JobId = NewType("JobId", str)
TaskId = NewType("TaskId", str)
AttemptId = NewType("AttemptId", str)

# Hadoop's longest id is 43 characters; a key has 1,024 bytes and holds several ids.
ID_LENGTH_MAX = 100
_SAFE = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*\Z")
_ATTEMPT = re.compile(r"attempt-(?P<task>.+)-(?P<random>[0-9a-z]+)\Z")
_UUID = re.compile(r"[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}", re.IGNORECASE)


def job_id(value: object) -> JobId:
    """Check a job id: text, or a random UUID. Raises UsageError if it is not safe as an element of a key."""
    return JobId(_check("a job id", str(value)))


def task_id(value: int | str) -> TaskId:
    """Make the id of a task: a number becomes six digits, text is checked and kept.

    Raises UsageError if it is negative, or not safe as an element of a key.
    """
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise UsageError(f"{value!r} is not a task id; give a number or text")
    if isinstance(value, int):
        if value < 0:
            raise UsageError(f"{value} is not a task id; number tasks from 0")
        return TaskId(f"{value:06d}")
    return TaskId(_check("a task id", value))


def attempt_id(task: TaskId, random: str) -> AttemptId:
    """Make the id of one attempt of a task from a random suffix of lower-case letters and digits."""
    if not re.fullmatch(r"[0-9a-z]+", random):
        raise UsageError(f"{random!r} is not an attempt suffix; use lower-case letters and digits")
    return AttemptId(_check("an attempt id", f"attempt-{task}-{random}"))


def check_attempt(value: str) -> AttemptId:
    """Check an attempt id that came from elsewhere, Hadoop's own form included."""
    return AttemptId(_check("an attempt id", value))


def task_of_attempt(attempt: str) -> TaskId:
    """The task that an attempt belongs to, in our form or in Hadoop's; else UsageError.

    Hadoop's ``attempt_202601010000_0001_m_000003_0`` belongs to ``task_202601010000_0001_m_000003``
    (``TaskAttemptID.getTaskID``).
    """
    if match := _ATTEMPT.match(attempt):
        return TaskId(match["task"])
    if attempt.startswith("attempt_") and attempt.count("_") == 5:
        return TaskId("task_" + attempt.removeprefix("attempt_").rpartition("_")[0])
    raise UsageError(f"{attempt!r} is not an attempt id; it should read attempt-<task>-<suffix>")


def is_attempt_of_ours(attempt: str) -> bool:
    """Whether an attempt id is one that ``attempt_id`` made, not Hadoop's."""
    return _ATTEMPT.match(attempt) is not None


def is_job_id(value: str) -> bool:
    """Whether text may be a job id."""
    return _SAFE.match(value) is not None and len(value) <= ID_LENGTH_MAX


def is_random(job: JobId) -> bool:
    """Whether a job id holds a UUID, so that nobody else's file name contains it by chance.

    Only then can uploads be found by their names: ``daily`` is part of many a name.
    """
    return _UUID.search(job) is not None


def _check(what: str, value: str) -> str:
    if not _SAFE.match(value) or len(value) > ID_LENGTH_MAX:
        raise UsageError(
            f"{value!r} is not {what}; use at most {ID_LENGTH_MAX} letters, digits, '.', '_' and '-', "
            "not beginning with '.'"
        )
    return value
