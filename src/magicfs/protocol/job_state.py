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
from typing import Final

from magicfs.errors import ProtocolViolation

__all__ = ["ENDS", "MEANING", "NEXT", "Decision", "JobState", "Wish", "check_move", "decide", "diagram"]


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
        JobState.PREPARED: "what will be replaced is announced; nothing is visible",
        JobState.COMMITTING: "the commit point: every upload is being completed",
        JobState.COMPLETED: "every new file is visible; what is old may be deleted, no way back",
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


class Wish(Enum):
    """What somebody who finds a job wants of it."""

    FINISH = "finish"
    ROLLBACK = "rollback"
    ABORT = "abort"


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


def check_move(old: JobState, new: JobState) -> None:
    """Refuse a move that the table does not have.

    Raises:
        ProtocolViolation: No such move.
    """
    if new not in NEXT[old]:
        raise ProtocolViolation(f"a job that is {old} cannot become {new}; read its job object again")


def diagram() -> str:
    """The table as a Mermaid state diagram; the documents hold exactly this text."""
    lines = ["stateDiagram-v2", "    [*] --> open: set up"]
    lines += [f"    {old} --> {new}" for old in JobState for new in JobState if new in NEXT[old]]
    lines += [f"    {state} --> [*]: job object removed" for state in JobState if state in ENDS]
    return "\n".join(lines)
