"""What a Python worker of Spark holds between its tasks, and what collecting garbage there costs."""

from __future__ import annotations

import gc
from itertools import count

__all__ = ["begin_task"]

_SECOND = 1
_tasks = count()


def begin_task() -> None:
    """Have the collector pass over what this process holds when its second task of ours begins.

    Spark's daemon runs a full collection after every task, before the worker is free for the next one
    (``pyspark.daemon``), and the modules of pyarrow and of a store's client make that 20 to 30 ms, which is
    more than the rest of a small task. They are there to stay, so they need not be looked at again
    (``gc.freeze``). At this moment all has been imported that a task needs, and no garbage is left that would
    be kept.
    """
    if next(_tasks) == _SECOND:
        gc.freeze()
