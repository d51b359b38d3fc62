"""(a) A JVM that runs a job of S3A's magic committer is killed before each of its requests.

Whoever comes afterwards commits the job by one command, or aborts it if nothing of it is published yet. All
its tasks that committed are published, or nothing of it is there: never a part.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Literal

from benchmarks.hadoop_directly import Peer
from magicfs.testing.fault_proxy import FaultProxy
from magicfs.testing.faults import Action, Rule
from proofs.hadoop.ground import Ground, Place, Wrong, check, does, in_background, said

__all__ = ["Wish", "play", "points", "requests"]

Wish = Literal["commit", "abort"]
_WAIT_S: Final = 90.0
_TASKS: Final = "0-1"


def requests(ground: Ground) -> list[str]:
    """The operations of an undisturbed job, in their order."""
    place = ground.place("undisturbed")
    with ground.killable() as (peer, proxy):
        found = ground.run("magic", place, peer, tasks=_TASKS)
        check(found.get("failed"), None, "an undisturbed job")
        return [one.operation for one in proxy.requests]


def points(operations: list[str], *, every: bool) -> list[int]:
    """Before which requests to kill: all of them, or each kind of the job commit once and some others."""
    if every:
        return list(range(len(operations) + 1))
    completes = [n for n, one in enumerate(operations) if one == "CompleteMultipartUpload"]
    first = completes[0]
    return sorted(
        {1, first // 3, 2 * first // 3, first, *completes[1:], completes[-1] + 1, len(operations) - 1}
    )


def play(ground: Ground, numbers: Iterable[int], wishes: Iterable[Wish]) -> list[str]:
    """Kill before these requests; returns what was wrong."""
    wrong = []
    for number in numbers:
        for wish in wishes:
            try:
                _kill(ground, number, wish)
            except Wrong as problem:
                wrong.append(f"a {ground.jars.hadoop}: killed before request {number}, {wish}: {problem}")
            ground.counts["kills"] += 1
            ground.counts["a"] += 1
    return wrong


def _kill(ground: Ground, number: int, wish: Wish) -> None:
    place = ground.place("killed")
    with ground.killable() as (peer, proxy):
        _run_until(ground, place, peer, proxy, number)
    visible, prefix = place.files(), f"{place.key}/"
    committed = {one.destination_key.removeprefix(prefix) for each in place.sets() for one in each.commits}
    recorded = place.recorded()
    # Begun, and not yet written down: S3A's names do not tell whose they are, and its own purge takes them.
    stray = {one for one in place.uploads() if one[1] not in recorded}
    if len(stray) > 1:
        raise Wrong(f"{len(stray)} uploads of a JVM that writes one file at a time are recorded nowhere")
    died = _Died(place, visible, sorted(committed | set(visible)), stray)
    died.commit() if wish == "commit" or visible else died.abort()


def _run_until(ground: Ground, place: Place, peer: Peer, proxy: FaultProxy, number: int) -> None:
    proxy.add(Rule("*", Action.HANG, skip=number))
    answer = in_background(lambda: ground.run("magic", place, peer, tasks=_TASKS))
    until = time.monotonic() + _WAIT_S
    while not proxy.caught and not answer.done() and time.monotonic() < until:
        time.sleep(0.01)
    peer.kill()
    with suppress(RuntimeError):
        answer.result(_WAIT_S)


@dataclass(frozen=True)
class _Died:
    """What a killed job left."""

    place: Place
    visible: list[str]  # files that its driver had published
    whole: list[str]  # and all that a commit has to publish
    stray: set[tuple[str, str]]  # uploads of which nothing tells whose they are

    @property
    def named(self) -> tuple[str, str, str, str]:
        return (self.place.url, "--job", self.place.job, "--driver-is-dead")

    def commit(self) -> None:
        """Commit it, and judge."""
        place = self.place
        status, text = said("recover", "--commit", *self.named)
        if status == 0:
            check(place.files(), self.whole, "commit: files")
            place.is_clean("commit", self.stray)
            does("verify", place.url)
            return
        # Nothing was committed, or all of it is published.
        if set(self.whole) != set(self.visible):
            raise Wrong(f"commit of {self.whole} refused, visible {self.visible}: {text[:600]}")
        check(place.files(), self.visible, f"files after a commit that was refused ({text[:300]})")
        self.abort()

    def abort(self) -> None:
        """Abort it, and judge: what was published stays, all else is gone."""
        status, text = said("recover", "--abort", *self.named)
        nothing = not (self.place.below() or self.place.uploads())
        check(status, 3 if nothing and "nothing is there" in text else 0, f"abort: {text[:600]}")
        check(self.place.files(), self.visible, "files after an abort")
        self.place.is_clean("abort", self.stray)
