"""From what Spark raises on the driver back to what a task raised on an executor."""

from __future__ import annotations

import re

from magicfs import errors
from magicfs.errors import CommitError, MagicError, StoreError

__all__ = ["raised_in_task"]

_TRACEBACK = "Traceback (most recent call last):"

# Spark hands on no exception of Python, but the text of its traceback. The error begins the first line of the
# last part that is not indented; its notes follow, up to an empty line or Spark's own words.
_RAISED = re.compile(
    r"(?:\n[ \t][^\n]*)*\nmagicfs\.errors\.(?P<name>[A-Z]\w+): (?P<text>.*?)(?=\n\s*\n|\n[ \t]|\Z)", re.DOTALL
)


def raised_in_task(error: BaseException) -> MagicError | None:
    """The error of magicfs that made a task fail; None if it was another one.

    Its class and message are the task's; what else it had stayed on the executor. The cause is Spark's error.
    """
    found = _RAISED.match(str(error).rpartition(_TRACEBACK)[2])
    kind = getattr(errors, found["name"], None) if found is not None else None
    if found is None or not (isinstance(kind, type) and issubclass(kind, MagicError)):
        return None
    message, *notes = found["text"].strip().splitlines() or [""]
    raised: MagicError = kind.__new__(kind)
    MagicError.__init__(raised, message)
    if isinstance(raised, CommitError):
        raised.done = raised.failed = raised.not_started = ()
    if isinstance(raised, StoreError):
        raised.errno = raised.code
        raised.operation = raised.key = raised.problem = raised.hint = ""
    for note in notes:
        raised.add_note(note)
    raised.__cause__ = error
    return raised
