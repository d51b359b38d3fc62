"""Which visible file a job may delete: never one that it has published, unless it takes that back.

A job deletes in two cases. A ``replace`` deletes the old files that it saw in its listing. A revert deletes
the job's own files again. An ETag alone does not tell the two apart: equal bytes have equal ETags, so the old
file and the new one of the same name may look alike. The write id is what tells them apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

__all__ = ["Purpose", "may_delete"]


class Purpose(Enum):
    """Why a job deletes a visible file."""

    REPLACE = "replace"
    """The file was there before the job, which replaces it."""
    TAKE_BACK = "take back"
    """The job has published the file, and is being reverted."""


def may_delete(purpose: Purpose, key: str, write_id: str | None, own: Mapping[str, str | None]) -> bool:
    """Whether a job may delete the file that lies at a key, if the store finds the expected ETag there too.

    ``write_id``: what that file bears; None if it bears none, or if nobody has looked. ``own``: the write ids
    of the files that the job publishes, by key; None for uploads without one, Hadoop's.
    """
    match purpose:
        case Purpose.REPLACE:
            return key not in own
        case Purpose.TAKE_BACK:
            return write_id is not None and own.get(key) == write_id
