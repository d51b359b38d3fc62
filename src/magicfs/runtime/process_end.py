"""The end of a process whose Python objects pyarrow's threads may be the last to hold.

A thread of pyarrow's pools lets go of a Python file or filesystem some time after the call that read has
returned. For that it takes the interpreter's lock. If the process is ending by then, Python before 3.14 ends
the thread within C++, and the process aborts: ``terminate called without an active exception``, status 134.
So a process waits for those threads before it ends: for reads that they have begun, whose number is known,
and then until they have let go. Reads that they begin by then fail at once.

What a forked process must forget, and what it must not close.

A child shares its parent's sockets, and with them the kernel's list of sockets to watch. fsspec lets go of
cached filesystems in a child, s3fs then closes their connections and so takes them off that list, and the
parent hears nothing on them any more: its next requests wait until they time out. So a child keeps what it
inherits, and uses none of it.

Systems that do not fork, such as Windows, need none of this.
"""

from __future__ import annotations

import atexit
import math
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

_held: list[Any] = []
_registered = False


def after_fork_in_child(function: Callable[[], None]) -> None:
    """Call a function in every process that is forked from this one."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=function)


def keep_inherited_filesystems() -> None:
    """Keep, in every process that is forked from this one, the filesystems that fsspec has cached here.

    A second call does nothing.
    """
    global _registered  # noqa: PLW0603
    if not _registered and hasattr(os, "register_at_fork"):
        _registered = True
        # Not after the fork in the child: there fsspec would be first.
        os.register_at_fork(before=_hold, after_in_parent=_held.clear)


def _hold() -> None:
    from fsspec.spec import AbstractFileSystem

    classes: list[Any] = [AbstractFileSystem]
    for cls in classes:
        _held.extend(cls._cache.values())
        classes.extend(cls.__subclasses__())


_YIELD_S: Final = 0.01
"""How long the lock is free for threads that wait for it, whatever is known."""
_QUIET_S: Final = 0.1
"""Objects that nobody lets go of for so long belong to somebody else, such as a variable."""
_WAIT_S: Final = 2.0
_STEP_S: Final = 0.001
_READ_S: Final = 60.0
"""How long a read that a thread has begun may take, at most."""

_Object = TypeVar("_Object")
_live: dict[int, weakref.ref[object]] = {}


def shared_with_threads(thing: _Object) -> _Object:
    """The same object, which the end of the process waits for, as long as threads may let go of it."""
    number = id(thing)  # some have no hash
    _live[number] = weakref.ref(thing, lambda _: _live.pop(number, None))
    return thing


class _Calls:
    """Calls that other threads than the main one have begun."""

    def __init__(self) -> None:
        self.ended, self.refused = -math.inf, False
        self.forget()

    def forget(self) -> None:
        """Forget threads of the parent, which are not in a child."""
        self.running, self.lock = 0, threading.Lock()


_calls = _Calls()
after_fork_in_child(_calls.forget)


@contextmanager
def begun() -> Iterator[None]:
    """Around a call that a thread of pyarrow may make. Raises OSError once the process ends."""
    if threading.current_thread() is threading.main_thread():
        yield
        return
    with _calls.lock:
        if _calls.refused:
            raise OSError("the process is ending; nothing was read")
        _calls.running += 1
    try:
        yield
    finally:
        with _calls.lock:
            _calls.running -= 1
            _calls.ended = time.monotonic()


def _wait_for_calls() -> None:
    """Wait until no thread reads, or is about to."""
    with _calls.lock:
        _calls.refused = True
    end = time.monotonic() + _READ_S
    while (now := time.monotonic()) < end and (_calls.running or now - _calls.ended < _QUIET_S):
        time.sleep(_STEP_S)


@atexit.register
def _wait_for_threads() -> None:
    """Give threads the interpreter's lock until what they share is gone, or stays."""
    if "pyarrow" not in sys.modules:
        return
    _wait_for_calls()
    time.sleep(_YIELD_S)
    end = time.monotonic() + _WAIT_S
    count, since = len(_live), time.monotonic()
    while count and (now := time.monotonic()) < end and now - since < _QUIET_S:
        time.sleep(_STEP_S)
        if len(_live) != count:
            count, since = len(_live), now
