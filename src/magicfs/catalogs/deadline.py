"""How long a catalog may be silent."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final, TypeVar

from magicfs.errors import Unavailable

CONNECT_S: Final = 10.0
"""Seconds to reach a catalog."""
ANSWER_S: Final = 120.0
"""Seconds that it may take to answer."""

_Result = TypeVar("_Result")


def within(seconds: float, catalog: str, work: Callable[[], _Result]) -> _Result:
    """Return what a call of a library returns that has no timeout of its own.

    Raises Unavailable if it takes longer. The call then goes on in a thread that dies with the process.
    """
    done: list[_Result] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            done.append(work())
        except BaseException as error:  # noqa: BLE001 - raised below, in the thread that asked
            failed.append(error)

    thread = threading.Thread(target=run, name="magicfs-catalog", daemon=True)
    thread.start()
    thread.join(seconds)
    if failed:
        raise failed[0]
    if not done:
        raise Unavailable(
            "register", catalog, f"no answer within {seconds:.0f} s", hint="check its address, and call again"
        )
    return done[0]


def ask_within(session: Any) -> None:
    """Give the requests of a session of ``requests`` a timeout, which it lacks by default."""
    request = getattr(session, "request", None)
    if request is None:
        return

    def timed(*args: Any, **how: Any) -> Any:
        how.setdefault("timeout", (CONNECT_S, ANSWER_S))
        return request(*args, **how)

    session.request = timed
