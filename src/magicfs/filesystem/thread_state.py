"""Threads that Python has not made keep their state between two calls.

A thread of Arrow's pools, or of any other library, gets a state of Python when it calls Python, and drops it
when the call returns. That is most of what a small write costs, and some of it is done while the thread holds
the lock of the interpreter and the others wait. States are counted: entered once more, one stays.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Final

__all__ = ["keep_state"]

_MOST: Final = 256
"""States that are kept in a process, some 20 KiB each: more than pools have threads, and a bound for programs
that make threads all the time."""

_here = threading.local()
_met: set[int] = set()
_kept: list[int] = []


def keep_state() -> None:
    """Keep the state of a thread that has forgotten that it was here, as long as the process lives."""
    if hasattr(_here, "was_here"):
        return
    _here.was_here = True
    thread = threading.get_native_id()
    if thread not in _met:
        if len(_met) >= _MOST:
            _met.clear()
        _met.add(thread)
    elif len(_kept) < _MOST:
        _kept.append(thread)
        with suppress(ImportError):  # a Python without it
            import ctypes

            ctypes.pythonapi.PyGILState_Ensure()
