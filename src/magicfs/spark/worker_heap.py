"""What a Python worker of Spark holds between its tasks, and what collecting garbage there costs."""

from __future__ import annotations

import gc

__all__ = ["keep"]


def keep() -> None:
    """Have the collector pass over all that this process holds now. A second call does nothing.

    Spark's daemon runs a full collection after every task, before the worker is free for the next one
    (``pyspark.daemon``), and the modules of pyarrow and of a store's client make that 20 to 30 ms, which is more
    than the rest of a small task. They are there to stay, so they need not be looked at again (``gc.freeze``).
    What this one task leaves in cycles is not collected either; later tasks' is.
    """
    if not gc.get_freeze_count():
        gc.freeze()
