"""The states of a job, and who may move it where.

A job is one object in the store, moved from state to state by compare-and-swap. Whoever acts on a job takes
its state first and touches files afterwards, so two who disagree never act at the same time: the one that
loses the swap reads the object again and does what it says, or stops. Nothing stands for "ended": then the
object is gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, StrEnum
from types import MappingProxyType
from typing import Final, Literal

from magicfs.errors import ProtocolViolation


class JobState(StrEnum):
    """What the job object says."""

    OPEN = "open"
    PREPARED = "prepared"
    COMMITTING = "committing"
    COMPLETED = "completed"
    ABORTING = "aborting"
    REVERTING = "reverting"


MEANING: Final[Mapping[JobState, str]] = MappingProxyType(
    {
        JobState.OPEN: "tasks may write and commit; nothing is visible",
        JobState.PREPARED: "the files to replace are recorded; nothing is visible",
        JobState.COMMITTING: "the commit point: every upload is being completed",
        JobState.COMPLETED: "every new file is visible; old files are being deleted; no way back",
        JobState.ABORTING: "uploads are being aborted; nothing was visible",
        JobState.REVERTING: "files that became visible are being removed again",
    }
)
"""One line each, for documents and messages."""

NEXT: Final[Mapping[JobState, frozenset[JobState]]] = MappingProxyType(
    {
        JobState.OPEN: frozenset({JobState.OPEN, JobState.PREPARED, JobState.COMMITTING, JobState.ABORTING}),
        JobState.PREPARED: frozenset({JobState.OPEN, JobState.COMMITTING, JobState.ABORTING}),
        JobState.COMMITTING: frozenset({JobState.COMMITTING, JobState.COMPLETED, JobState.REVERTING}),
        JobState.COMPLETED: frozenset(),
        JobState.ABORTING: frozenset(),
        JobState.REVERTING: frozenset({JobState.REVERTING}),
    }
)
"""Where each state may be moved.

``open`` to ``open`` ends setting up, or is a new driver that takes the job over. ``committing`` to
``committing`` writes down another ``_SUCCESS`` before it is hidden, or says, before a file of an equal name
is replaced, that the job can only go forward. ``reverting`` to ``reverting`` says that no file is left and
only work objects have to go.
"""

ENDS: Final = frozenset({JobState.COMPLETED, JobState.ABORTING, JobState.REVERTING})
"""States whose execution ends with removing the job object."""

BEFORE_COMMIT: Final = frozenset({JobState.OPEN, JobState.PREPARED})
"""Before the commit point: the destination is exactly old, and only the job's own driver may publish it."""

PUBLISHES: Final = frozenset({JobState.COMMITTING, JobState.COMPLETED})
"""Past the commit point and not taken back: the job is published, or will be."""

SHOWS_NOTHING: Final = BEFORE_COMMIT | {JobState.ABORTING}
"""No file of the job is visible."""

CHANGES_FILES: Final = frozenset(JobState) - {JobState.OPEN, JobState.ABORTING}
"""The job may be changing visible files, or has announced that it will."""

End = Literal["finish", "abort", "revert"]


class Wish(Enum):
    """What somebody who finds a job wants of it."""

    FINISH = "finish"
    ROLLBACK = "rollback"
    ABORT = "abort"
    SUPERSEDE = "supersede"
    """Finish it if it has begun to publish, else abort it: a newer run of the same takes its place."""


class Decision(Enum):
    """What is done about a job that is found."""

    EXECUTE = "execute"
    LEAVE = "leave"
    REFUSE = "refuse"
    MOVE_TO_ABORTING = "aborting"
    MOVE_TO_REVERTING = "reverting"


def decide(state: JobState, wish: Wish) -> Decision:
    """What to do about a job in a state.

    Nothing but its own driver commits an open job. A rollback is possible until ``completed``.
    """
    match state, wish:
        case ((JobState.OPEN | JobState.PREPARED), Wish.FINISH):
            return Decision.LEAVE
        case ((JobState.OPEN | JobState.PREPARED), _):
            return Decision.MOVE_TO_ABORTING
        case JobState.COMMITTING, Wish.ROLLBACK:
            return Decision.MOVE_TO_REVERTING
        case (JobState.COMMITTING, Wish.ABORT) | (JobState.COMPLETED, Wish.ROLLBACK | Wish.ABORT):
            return Decision.REFUSE
        case _:
            return Decision.EXECUTE


def end_of(state: JobState, decision: Decision) -> End:
    """How a job ends if a decision about it is carried out."""
    if decision is Decision.MOVE_TO_ABORTING or state is JobState.ABORTING:
        return "abort"
    if decision is Decision.MOVE_TO_REVERTING or state is JobState.REVERTING:
        return "revert"
    return "finish"


def no_way_back(*, irreversible: bool, write_ids: bool, equal_keys: bool = True) -> str | None:
    """Why a job that is committing can only go forward; None if it can be taken back.

    ``irreversible``: whether it has begun to replace files of equal names, of which ``equal_keys`` says
    whether there are any, or to put small files. ``write_ids``: whether every file has an identity; uploads
    of Hadoop's and copies have none.
    """
    if irreversible and not equal_keys:
        return "small files are being written, and those already written cannot be taken back"
    if irreversible:
        return "old files have been replaced by new ones of the same name, and their content is gone"
    if not write_ids:
        return "its files carry no write id, so they cannot be distinguished from files of other jobs"
    return None


def check_move(old: JobState, new: JobState) -> None:
    """Refuse a move that the table does not have, with ProtocolViolation."""
    if new not in NEXT[old]:
        raise ProtocolViolation(f"a job that is {old} cannot become {new}; read its job object again")
