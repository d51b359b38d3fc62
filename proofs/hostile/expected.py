"""What an attack expects: an error of ours, a value, little memory and time. Each returns what is wrong."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from magicfs.errors import FormatError

__all__ = ["SECONDS", "measured", "refused", "returns"]

SECONDS = 3.0
"""Most seconds of the processor for an attack of some kilobytes."""


@contextmanager
def measured(what: str, bytes_max: int, seconds: float) -> Iterator[list[str]]:
    """Notices what takes too much memory or time of the processor."""
    found: list[str] = []
    is_ours = not tracemalloc.is_tracing()
    if is_ours:
        tracemalloc.start()
    before, began = tracemalloc.get_traced_memory()[0], time.process_time()
    tracemalloc.reset_peak()
    try:
        yield found
        took, peak = time.process_time() - began, tracemalloc.get_traced_memory()[1] - before
    finally:
        if is_ours:
            tracemalloc.stop()
    if peak > bytes_max:
        found.append(f"{what}: {peak} bytes of memory, and at most {bytes_max} may be taken")
    if took > seconds:
        found.append(f"{what}: {took:.1f} s, and at most {seconds:.1f} may be taken")


def refused(
    what: str, call: Callable[[], Any], kind: type[Exception] = FormatError, said: str = ""
) -> list[str]:
    """What is wrong unless a call raises an error of that kind, whose text holds something."""
    try:
        found = call()
    except kind as error:
        return [] if said in str(error) else [f"{what}: {error}"]
    except Exception as error:  # noqa: BLE001 - all that must not come out
        return [f"{what}: {type(error).__name__}: {str(error)[:200]}"]
    return [f"{what}: was accepted: {str(found)[:200]}"]


def returns(what: str, call: Callable[[], Any], wanted: Any) -> list[str]:
    """What is wrong unless a call returns that."""
    try:
        found = call()
    except Exception as error:  # noqa: BLE001 - all that must not come out
        return [f"{what}: {type(error).__name__}: {str(error)[:200]}"]
    return [] if found == wanted else [f"{what}: {str(found)[:200]}"]
