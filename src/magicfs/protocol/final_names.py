"""Names of files that tasks write directly at the destination, and what can be read from them.

``part-0.parquet`` becomes ``part-0-<label>-<job>.parquet``. The label is the task, whose attempts then share
their names, or the attempt, as in Stocator (``part-00000-attempt_…``; section 3 of its paper, arXiv
1709.01812).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from magicfs.errors import UsageError
from magicfs.protocol import ids
from magicfs.protocol.ids import JobId, TaskId
from magicfs.protocol.layout import unique_name

__all__ = ["attempts_named", "final_name", "is_unfinished", "unfinished_name", "uuids_in"]

_GAP = "\0"
_ATTEMPT = re.compile(r"(?:^|-)(?=attempt[-_])")
_UNFINISHED = re.compile(r"\.[0-9a-f]{16}-.*\.unfinished\Z", re.DOTALL)
_UUID = re.compile(r"[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}", re.IGNORECASE)


def final_name(relative: tuple[str, ...], label: str, job: JobId) -> tuple[str, ...]:
    """Put ``-<label>-<job>`` before the first dot of the last element; a second call changes nothing.

    As ``unique_name``, which keeps a relative path that names the job; but a label that is an attempt is put
    in all the same, because nothing else says whose file it is.
    """
    *parents, last = relative
    if not _is_attempt(label):
        return unique_name(relative, TaskId(label), job)
    if label in attempts_named(last, job):
        return relative
    (name,) = unique_name((last.replace(job, _GAP),), TaskId(label), job)
    return (*parents, name.replace(_GAP, job))


def attempts_named(name: str, job: JobId) -> Iterator[str]:
    """The attempts that a file of the job may be of, by the last element of its key.

    One, unless writers use such words themselves.
    """
    token = f"-{job}"
    start = name.find(token)
    # A writer's own words before ours hold no dot, and what follows ours does not count.
    while start >= 0 and name[start + len(token) :][:1] not in {"", "."}:
        start = name.find(token, start + 1)
    head = name[: max(start, 0)]
    return (head[at.end() :] for at in _ATTEMPT.finditer(head) if _is_attempt(head[at.end() :]))


def unfinished_name(random: str, label: str, job: JobId) -> str:
    """A hidden name for a file that is being written and will be renamed.

    ``random``: 16 hexadecimal digits. ``label``: as for ``final_name``.
    """
    return f".{random}-{label}-{job}.unfinished"


def is_unfinished(name: str) -> bool:
    """Whether the last element of a key is an ``unfinished_name``."""
    return _UNFINISHED.match(name) is not None


def uuids_in(name: str) -> Iterator[str]:
    """Every UUID in a text, as it is spelled there."""
    return (match.group() for match in _UUID.finditer(name))


def _is_attempt(text: str) -> bool:
    try:
        ids.task_of_attempt(ids.check_attempt(text))
    except UsageError:
        return False
    return True
