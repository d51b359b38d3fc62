"""Names of files at the destination: made unique by task and job, and what can be read from them.

``part-0.parquet`` becomes ``part-0-<label>-<job>.parquet``. The label is the task, whose attempts then share
their names, or the attempt (``part-00000-attempt_…``).

Whose file it is says the id in *that place* alone: the last one before the extension. An id in a directory,
or further in front, says where the content came from. Hadoop (``Paths.addUUID``) keeps a path that holds the
job's id anywhere, so that two tasks may write one key; here every file is told apart.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import Final

from magicfs.errors import UsageError
from magicfs.protocol import paths
from magicfs.protocol.ids import JobId
from magicfs.protocol.magic import MagicPath

_COPIED: Final = "copied"
_UUID_TEXT: Final = r"[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}"
UUID: Final = re.compile(_UUID_TEXT, re.IGNORECASE)
"""A UUID in a text, as it is spelled there."""
# A writer of Spark's puts the number of a bucket or of a file between the id and the extension.
_NUMBERS: Final = r"(?:_[0-9]{5})?(?:-c[0-9]{3,})?"
_REST_OF_OURS = re.compile(r"\.|\Z")
_REST = re.compile(rf"{_NUMBERS}(?:\.|\Z)")
_JOB = re.compile(rf"(?:^|-)({_UUID_TEXT}){_NUMBERS}\Z", re.IGNORECASE)
# Tasks and attempts that engines number; eight digits would be a date rather than a task.
LABEL: Final = (
    r"[0-9]{6,7}|attempt-[0-9]{6,7}-[0-9a-z]+|task_[0-9]+_[0-9]+_[mr]_[0-9]+"
    r"|attempt_[0-9]+_[0-9]+_[mr]_[0-9]+_[0-9]+"
)
_DIGITS: Final = 16


def unique_name(relative: tuple[str, ...], label: str, job: JobId) -> tuple[str, ...]:
    """Put ``-<label>-<job>`` before the first dot of the last element; a second call changes nothing.

    Writers call their files ``part-0.parquet`` in every task of every job; without this the last one to be
    completed would be all that is left. A name that was made so for an earlier job does not grow: digits of a
    hash stand for what was put in then, because two files of earlier tasks may differ in it alone.
    """
    *parents, last = relative
    lead = _lead(last)
    added = f"-{label}-{job}"
    if any(_REST_OF_OURS.match(last, end) for _, end in _places(last, added, lead)):
        return relative
    # A name such as ``.hidden`` has its first dot at the front; the suffix still goes before the extension.
    stem, dot, extension = last[lead:].partition(".")
    return (*parents, f"{last[:lead]}{_shortened(stem, label)}{added}{dot}{extension}")


def _shortened(stem: str, label: str) -> str:
    """A stem in which a hash stands for what was put in for an earlier job, the hash before it included."""
    earlier = re.compile(
        rf"(?:-[0-9a-f]{{{_DIGITS}}})?-(?:{LABEL}|{re.escape(label)})-(?:{_UUID_TEXT})\Z", re.IGNORECASE
    )
    found = earlier.search(stem)
    if found is None:
        return stem
    digest = hashlib.sha256(found[0].encode("utf-8", "surrogatepass")).hexdigest()
    return f"{stem[: found.start()]}-{digest[:_DIGITS]}"


def final_key(path: MagicPath, *, unique_names: bool) -> str:
    """The key at which a file written to a magic path will appear.

    Raises UsageError if no file is named, or unique names are asked for outside a committer's layout.
    """
    if not unique_names:
        return path.final_key
    owner = path.owner
    if owner is None:
        raise UsageError(
            f"{path.path}: unique names need a path of a task "
            "(…/job-<id>/<NN>/tasks/<attempt>/__base/…); write below Task.path"
        )
    return paths.join(path.destination, *unique_name(path.relative, owner.task, owner.job))


def is_named_by(name: str, job: str) -> bool:
    """Whether the last element of a key names a job where ``unique_name`` does, or where Spark's writers do.

    This decides which uploads a job may call its own, so it errs on the side of no.
    """
    head, _, rest = name.partition(f"-{job}.")
    if rest and "." not in head:  # of almost all names; the rest of this finds the same
        return True
    return any(_REST.match(name, end) for _, end in _places(name, f"-{job}", _lead(name)))


def job_named(name: str) -> str | None:
    """The UUID in the place of the job, in the last element of a key; None if there is none."""
    lead = _lead(name)
    found = _JOB.search(name[lead:].partition(".")[0])
    return found[1] if found else None


def _lead(name: str) -> int:
    return len(name) - len(name.lstrip("."))


def _places(name: str, added: str, lead: int) -> Iterator[tuple[int, int]]:
    """Where in a name something stands that may have been put in before its first dot.

    The label may hold a dot itself. But what stands before it then names no other job, whose file this would
    be: of that job's suffix the writer's own words would be the extension.
    """
    start = name.find(added, lead)
    while start >= 0:
        head = name[lead:start]
        if "." not in head or UUID.search(head) is None:
            yield start, start + len(added)
        start = name.find(added, start + 1)


def before_job(name: str, job: JobId) -> str | None:
    """What stands in front of the job, where ``unique_name`` puts it; None if it does not stand there."""
    places = _places(name, f"-{job}", _lead(name))
    return next((name[:start] for start, end in places if _REST_OF_OURS.match(name, end)), None)


def copied_key(destination: str, key: str, job: JobId) -> str:
    """The key of the copy that a rollback makes of a file, which had another key relative to the destination.

    Two rollbacks never make the same one, and a copy of a copy has no longer name.
    """
    return paths.join(destination, *unique_name(tuple(paths.elements(key)), _COPIED, job))


def copied_by(key: str) -> str | None:
    """The rollback that has made a file as a copy, as its name tells; None if none has."""
    last = key.rpartition("/")[2]
    job = job_named(last)
    return job if job is not None and f"-{_COPIED}-{job}" in last else None
