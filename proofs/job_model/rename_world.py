"""Jobs that rename, as their model has them: its rules, what lies in the store, and where it starts."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

__all__ = ["KEYS", "RENAME_SCENES", "Actor", "Job", "Kind", "RenameRules", "RenameScene", "World"]

KEYS: Final = ("1", "2")


@dataclass(frozen=True, slots=True)
class RenameRules:
    """All true: the protocol. One false: what goes wrong without that rule.

    Attributes:
        swap: The job object is moved only from the version that was read.
        read_back: Who finds no source looks at the key before he believes that the file failed.
        replaced_forward: A job that replaces names in their place is not taken back.
        copies_forward: Nor is one whose files are copied: nothing tells them from somebody else's.
        sources_first: A revert deletes what is still to be renamed before it looks for files.
        work_first: A job's work goes before its object.
        into_directory: A late manifest is renamed into a directory that goes with the job.
        exclusive: One attempt claims a task that publishes when it commits.
        found_counts: A claim that the job commit has found stays, however late it was made.
        moves_rest: The job commit moves what the attempt of a claim has not.
    """

    swap: bool = True
    read_back: bool = True
    replaced_forward: bool = True
    copies_forward: bool = True
    sources_first: bool = True
    work_first: bool = True
    into_directory: bool = True
    exclusive: bool = True
    found_counts: bool = True
    moves_rest: bool = True


class Kind(NamedTuple):
    """What kind of job: how files become visible, and when, and whether they replace names."""

    copies: bool = False
    by_tasks: bool = False
    equal: bool = False


class Job(NamedTuple):
    """The job object: its state, the attempt that it publishes, and its version."""

    state: str = "open"
    facts: str = ""
    number: int = 0


class Actor(NamedTuple):
    """An executor: its program, its next request, the job that it has read, whose files, which are left."""

    role: str
    at: str
    seen: Job | None = None
    facts: str = ""
    left: tuple[str, ...] = ()
    found: tuple[str, ...] = ()


class World(NamedTuple):
    """What lies in the store, what became of the job, and where everybody is."""

    kind: Kind
    job: Job | None
    sets: frozenset[str]  # attempts whose manifest, or claim, is there
    sources: frozenset[str]
    shown: frozenset[tuple[str, str]]  # who wrote what lies at a key
    actors: tuple[Actor, ...]
    has_directory: bool = True  # of the manifests
    told: frozenset[str] = frozenset()  # attempts that were told that they have committed
    published: str = ""
    wrong: str = ""
    is_replaced: bool = False  # by a later job

    def shows(self, key: str) -> str:
        """Who wrote what lies at a key."""
        return dict(self.shown).get(key, "")

    def with_file(self, key: str, writer: str) -> World:
        """The world with something else, or nothing, at a key."""
        left = {(one, its) for one, its in self.shown if one != key}
        return self._replace(shown=frozenset(left | ({(key, writer)} if writer else set())))

    def without_sources(self, attempt: str = "") -> World:
        """The world without the work files of an attempt, or of all."""
        return self._replace(sources=frozenset(one for one in self.sources if attempt and one[0] != attempt))


_JOBS: Final[tuple[tuple[str, ...], ...]] = (
    ("driver",),
    ("driver", "recover"),
    ("driver", "rollback"),
    ("driver", "recover", "rollback"),
    ("driver", "recover", "later"),
    ("driver", "late"),
    ("driver", "late", "rollback"),
)
_TASKS: Final[tuple[tuple[str, ...], ...]] = (
    ("x", "driver"),
    ("x", "lister"),
    ("x", "y", "driver"),
    ("x", "y", "lister"),
    ("x", "lister", "recover"),
    ("x", "lister", "rollback"),
    ("x", "y", "driver", "rollback"),
    ("x", "driver", "recover", "later"),
)


class RenameScene(NamedTuple):
    """A kind of job, and who is there."""

    kind: Kind
    roles: tuple[str, ...]


def _scenes() -> dict[str, RenameScene]:
    made = {}
    for copies in (False, True):
        how = "copies" if copies else "renames"
        for equal in (False, True):
            names = "replaced names" if equal else how
            for roles in _JOBS:
                if not (copies and "late" in roles):  # a late manifest is only asked for the job
                    name = f"{how}, {', '.join(roles)}" + (f" over {names}" if equal else "")
                    made[name] = RenameScene(Kind(copies, equal=equal), roles)
        for roles in _TASKS:
            made[f"{how} by tasks, {', '.join(roles)}"] = RenameScene(Kind(copies, by_tasks=True), roles)
    return made


RENAME_SCENES: Final = MappingProxyType(_scenes())
"""Every start that is examined, by name."""
