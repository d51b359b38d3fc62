"""Where the model starts: which executors there are, and what the destination holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from proofs.job_model.moves import uploads
from proofs.job_model.world import (
    CHILD,
    PARENT,
    Absent,
    Actor,
    JobObject,
    Manifest,
    Request,
    Store,
    Value,
    World,
)

__all__ = ["DEEP", "HAND", "OLD", "QUICK", "SCENES", "WALKED", "Scene"]

OLD = ("old1", "old2")
"""Files that lie at the destination before, and the name of each is its content."""

HAND = "hand"
"""A file that somebody has laid there, and no manifest names it."""

UPKEEP = ("compact", "adopt")
"""Roles of those who look after the destination, and have no job."""


@dataclass(frozen=True, slots=True)
class Scene:
    """A start.

    Attributes:
        name: What it is called.
        jobs: Each job and its mode.
        actors: Each executor as role and job; its name is the two together.
        old: Whether files, a ``_SUCCESS`` and a manifest were there before.
        late: Whether one request may land a second time, later.
        late_setup: Whether that request is the very first one, which wrote the job object.
        by_hand: Whether there is a file that no manifest names, too.
    """

    name: str
    jobs: tuple[tuple[str, str], ...]
    actors: tuple[tuple[str, str], ...]
    old: bool = True
    late: bool = False
    late_setup: bool = False
    by_hand: bool = False

    @property
    def side(self) -> str:
        """Which side of the world the scene belongs to; empty for one job and its rivals alone."""
        if any(role in UPKEEP for role, _ in self.actors):
            return "a"
        return "b" if CHILD in dict(self.jobs) else ""

    @property
    def begins_with(self) -> dict[str, Value]:
        """The files that are there before."""
        found: dict[str, Value] = {key: key for key in OLD} if self.old else {}
        return found | {HAND: "foreign"} if self.by_hand else found

    @property
    def _executors(self) -> int:
        return sum(role not in UPKEEP for role, _ in self.actors)

    @property
    def names(self) -> tuple[str, ...]:
        """What to call the executors, in their order."""
        return tuple(f"{role} {job}" for role, job in self.actors)

    @property
    def zombies(self) -> bool:
        """Whether something of a job may go on after the job has ended, while another runs."""
        return len(self.jobs) > 1 and (self.late or self._executors > len(self.jobs))

    @property
    def swept(self) -> bool:
        """Whether something may be left after a job has ended, by an executor who comes too late."""
        return self.late or self.late_setup or self._executors > len(self.jobs)

    def begin(self, *, fenced: bool = True) -> World:
        """The first state: all jobs set up, the uploads of all attempts waiting.

        Args:
            fenced: Whether setting up ends with a version of the job object that only one request can write.
        """
        first = JobObject("open", int(fenced))
        objects = self.begins_with
        if self.old:
            objects |= {
                "_SUCCESS": "old",
                "pointer": ("old", 0),
                "old.manifest": Manifest("old", "", False, "", tuple((key, key) for key in OLD)),
            }
        waiting: set[str] = set()
        for job, _ in self.jobs:
            objects[f"{job}.job"] = first
            waiting |= {one for facts in self._facts(job) for one in uploads(job, facts)}
        late = Request("put", "A.job", JobObject("open", 0), Absent()) if self.late_setup else None
        return World(
            Store(frozenset(objects.items()), frozenset(waiting)),
            late if self.late or self.late_setup else "landed",
            tuple((job, first) for job, _ in self.jobs),
            tuple(self._actor(role, job, first) for role, job in self.actors),
        )

    def _facts(self, job: str) -> tuple[str, ...]:
        return tuple({"driver": "x", "second": "y"}[r] for r, j in self.actors if j == job and r in _DRIVERS)

    def _actor(self, role: str, job: str, first: JobObject) -> Actor:
        if role in UPKEEP:
            return Actor(role, job, "", "", role)
        mode = dict(self.jobs)[job] if role in _DRIVERS else ""
        if role == "driver":
            return Actor(role, job, mode, "x", "begin", first)
        return Actor(role, job, mode, "y" if role == "second" else "", "look")


_DRIVERS = ("driver", "second")


def _single(mode: str, *roles: str, late: bool = False, late_setup: bool = False) -> Scene:
    name = "+".join((mode, *roles, *(["late"] if late else []), *(["late setup"] if late_setup else [])))
    return Scene(name, (("A", mode),), tuple((r, "A") for r in roles), True, late, late_setup)


def _two(first: str, second: str, *more: str, late: bool = False) -> Scene:
    actors = [("driver", "A"), ("driver", "B"), *((role, "A") for role in more)]
    name = "+".join((f"{first} and {second}", *more, *(["late"] if late else [])))
    return Scene(name, (("A", first), ("B", second)), tuple(actors), first != "error", late)


def _kept(mode: str, *roles: str, by_hand: bool = False) -> Scene:
    """A job beside maintenance, each of which publishes under a name of its own."""
    upkeep = [role for role in roles if role in UPKEEP]
    actors = [("driver", "A"), *((role, "A") for role in roles if role not in UPKEEP)]
    actors += [(role, f"{role[0]}{number}") for number, role in enumerate(upkeep)]
    name = "+".join((mode, "driver", *roles, *(["by hand"] if by_hand else [])))
    return Scene(name, (("A", mode),), tuple(actors), by_hand=by_hand)


def _around(first: str, second: str, *more: tuple[str, str]) -> Scene:
    """Two jobs whose destinations touch: the second one's lies in the first one's."""
    name = "+".join((f"{first} around {second}", *(" ".join(one) for one in more)))
    jobs = ((PARENT, first), (CHILD, second))
    return Scene(name, jobs, (("driver", PARENT), ("driver", CHILD), *more))


def _maintained() -> Iterator[Scene]:
    for mode in ("append", "overwrite"):
        yield _kept(mode, "compact")
        yield _kept(mode, "compact", "compact")
        yield _kept(mode, "rollback", "compact")
        yield _kept(mode, "adopt", by_hand=True)
        yield _kept(mode, "adopt", "adopt", by_hand=True)
        yield _kept(mode, "adopt", "compact", by_hand=True)
        yield _kept(mode, "rollback", "adopt", by_hand=True)
    yield _kept("append", "adopt", "compact", "compact", by_hand=True)
    yield Scene("append and overwrite+compact", (("A", "append"), ("B", "overwrite")), _BESIDE)
    yield Scene("append and append+compact", (("A", "append"), ("B", "append")), _BESIDE)


_BESIDE = (("driver", "A"), ("driver", "B"), ("compact", "c0"))


def _touching() -> Iterator[Scene]:
    for first in ("append", "overwrite"):
        for second in ("append", "overwrite"):
            yield _around(first, second)
            yield _around(first, second, ("rollback", PARENT))
            yield _around(first, second, ("rollback", CHILD))


def _all() -> Iterator[Scene]:
    yield from _maintained()
    yield from _touching()
    for mode in ("append", "overwrite"):
        yield _single(mode, "driver")
        yield _single(mode, "driver", "recover", late=True)
        yield _single(mode, "driver", "rollback", late=True)
        yield _single(mode, "driver", "recover", "rollback")
        yield _single(mode, "driver", "rollback", late_setup=True)
        yield _single(mode, "driver", "second", late_setup=True)
        yield _single(mode, "driver", "second", late=True)
        yield _single(mode, "driver", "second", "recover")
        yield _single(mode, "driver", "second", "rollback")
        yield _single(mode, "driver", "recover", "rollback", late=True)
        yield _single(mode, "driver", "second", "recover", "rollback")
        yield _single(mode, "driver", "second", "recover", "rollback", late=True)
    for first, second in (
        ("append", "append"),
        ("append", "overwrite"),
        ("overwrite", "append"),
        ("overwrite", "overwrite"),
        ("error", "error"),
    ):
        yield _two(first, second)
        yield _two(first, second, "recover")
        yield _two(first, second, "rollback")
        yield _two(first, second, late=True)


SCENES = {one.name: one for one in _all()}
"""Every start that is examined, by name."""

QUICK = frozenset(
    {
        *(
            f"{mode}+{rest}"
            for mode in ("append", "overwrite")
            for rest in (
                "driver",
                "driver+recover+late",
                "driver+rollback+late",
                "driver+recover+rollback",
                "driver+rollback+late setup",
                "driver+second+late setup",
            )
        ),
        "append and append",
        "append and overwrite",
        "overwrite and append",
        "overwrite and overwrite",
        "error and error",
        *(one.name for one in _maintained() if len(one.jobs) == 1),
        *(one.name for one in _touching() if len(one.actors) == 2),
    }
)
"""Scenes of less than 10,000 states each."""

DEEP = frozenset(
    name for name, one in SCENES.items() if len(one.actors) > 3 and not one.late and not one.side
)
"""Scenes of hundreds of thousands of states each."""

WALKED = frozenset(name for name, one in SCENES.items() if len(one.actors) > 3 and one.late)
"""Scenes of so many states that interleavings are only drawn by chance."""
