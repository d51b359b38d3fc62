"""The end of a process whose Python objects pyarrow's threads may be the last to hold.

A thread of pyarrow's pools lets go of a Python file or filesystem some time after the call that read has
returned. For that it takes the interpreter's lock. If the process is ending by then, Python before 3.14 ends
the thread within C++, and the process aborts: ``terminate called without an active exception``, status 134.
So a process waits for those threads before it ends.
"""

from __future__ import annotations

import atexit
import sys
import time
import weakref
from typing import Final, TypeVar

__all__ = ["shared_with_threads"]

_YIELD_S: Final = 0.01
"""How long the lock is free for threads that wait for it, whatever is known."""
_QUIET_S: Final = 0.1
"""Objects that nobody lets go of for so long belong to somebody else, such as a variable."""
_WAIT_S: Final = 2.0
_STEP_S: Final = 0.001

_Object = TypeVar("_Object")
_live: dict[int, weakref.ref[object]] = {}


def shared_with_threads(thing: _Object) -> _Object:
    """The same object, which the end of the process waits for, as long as threads may let go of it."""
    number = id(thing)  # some have no hash
    _live[number] = weakref.ref(thing, lambda _: _live.pop(number, None))
    return thing


@atexit.register
def _wait_for_threads() -> None:
    """Give threads the interpreter's lock until what they share is gone, or stays."""
    if "pyarrow" not in sys.modules:
        return
    time.sleep(_YIELD_S)
    end = time.monotonic() + _WAIT_S
    count, since = len(_live), time.monotonic()
    while count and (now := time.monotonic()) < end and now - since < _QUIET_S:
        time.sleep(_STEP_S)
        if len(_live) != count:
            count, since = len(_live), now
