"""The watcher: looks at the destination all the time while it is written, by plain botocore."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from examples.flights.buckets import Bucket

__all__ = ["Look", "Watcher"]

# Short beside the second or so that Spark takes from the last task to the first file.
_PAUSE_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Look:
    """What one look saw."""

    visible: int  # keys that readers take for data
    pending: int  # pending uploads, listed before the keys were
    before_commit: bool  # whether the job commit had not begun when the listings were complete
    whole: bool  # whether every task had ended before it began


class Watcher:
    """Looks again and again, in a thread of its own, from ``__enter__`` to ``__exit__``.

    ``before_commit``: asked after each look whether the job commit has not begun yet, so that it cannot have
    begun while the look was taken. ``on_look``: called after every look.
    """

    def __init__(
        self,
        bucket: Bucket,
        directory: str,
        *,
        before_commit: Callable[[], bool] | None = None,
        on_look: Callable[[Look], None] | None = None,
    ) -> None:
        self._bucket = bucket
        self._directory = directory
        self._before_commit = before_commit or (lambda: not self._committing)
        self._on_look = on_look
        self._committing = False
        self._looks: list[Look] = []
        self._error: Exception | None = None
        self._end = threading.Event()
        self._looking = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="magicfs-demo-watcher", daemon=True)

    @property
    def looks(self) -> int:
        """How many looks were complete before the job commit began."""
        return sum(look.before_commit for look in self._looks)

    @property
    def visible_before_commit(self) -> int:
        """The most keys that a look before the job commit saw."""
        return max((look.visible for look in self._looks if look.before_commit), default=0)

    @property
    def pending_before_commit(self) -> int:
        """The most pending uploads of a look that saw no key at all, so that none was published yet."""
        return max((look.pending for look in self._looks if look.visible == 0), default=0)

    @property
    def saw_all(self) -> bool:
        """Whether a look fell between the last task and the first file. A server on a busy machine may be too
        slow for one.
        """
        return any(look.whole and look.pending and not look.visible for look in self._looks)

    def last_look(self) -> None:
        """Look once more, here and now; the caller is about to commit the job.

        Raises what a look failed with.
        """
        self._look(whole=True)
        self._committing = True
        self._raise()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.set()
        self._thread.join()
        if exc is None:
            self._raise()

    def _run(self) -> None:
        try:
            while not self._end.is_set():
                self._look()
                self._end.wait(_PAUSE_SECONDS)
        except Exception as error:  # noqa: BLE001 - raised in the thread that waits
            self._error = error

    def _look(self, *, whole: bool = False) -> None:
        with self._looking:
            whole = whole or not self._before_commit()
            # In this order: what is visible after the uploads were listed was not among them.
            pending = len(self._bucket.pending(self._directory))
            visible = len(self._bucket.visible(self._directory))
            look = Look(visible, pending, self._before_commit(), whole)
            self._looks.append(look)
        if self._on_look is not None:
            self._on_look(look)

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error
