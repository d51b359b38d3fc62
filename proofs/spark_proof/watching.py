"""A proxy in front of the store, by whose requests moments are told."""

from __future__ import annotations

import time

from magicfs.testing.fault_proxy import FaultProxy
from magicfs.testing.faults import RequestSeen
from proofs.spark_proof.plans import Profile

__all__ = ["Watch", "profile_of"]

_QUIET_SECONDS = 0.4
_SETTLE_SECONDS = 20.0
_POLL_SECONDS = 0.02
_PROBE = "/probe-"


class Watch(FaultProxy):
    """Counts what arrives, and knows when nothing does any more."""

    def arrived(self) -> int:
        """How many requests have arrived."""
        return self.counts.total()

    def settle(self) -> bool:
        """Wait until nothing arrives and nothing is answered: requests go on when their sender is dead.

        Returns:
            Whether that came to pass in time.
        """
        deadline = time.monotonic() + _SETTLE_SECONDS
        state, since = (-1, -1), time.monotonic()
        while time.monotonic() - since < _QUIET_SECONDS:
            now = (self.arrived(), len(self.requests))
            if now != state:
                state, since = now, time.monotonic()
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_SECONDS)
        return True


def profile_of(requests: list[RequestSeen]) -> Profile:
    """Count the requests of each phase of an undisturbed write.

    Args:
        requests: All of them, in order.

    Raises:
        ValueError: No file was uploaded.
    """
    creates = _numbers(requests, "CreateMultipartUpload")
    parts = _numbers(requests, "UploadPart")
    if not creates or not parts:
        raise ValueError("no file was uploaded, so there are no phases")
    return Profile(creates[0] - 1, parts[-1], len(requests))


def _numbers(requests: list[RequestSeen], operation: str) -> list[int]:
    # A job's setup tries out what the store honours, with an upload of its own.
    return [
        number
        for number, one in enumerate(requests, start=1)
        if one.operation == operation and _PROBE not in one.path
    ]
