"""What is done at a destination that keeps what is replaced, and what of its past has which name."""

from __future__ import annotations

from typing import Final, Literal, get_args

from magicfs.protocol.ids import JobId
from magicfs.protocol.paths import Location
from proofs.crash.snapshots import BUCKET
from proofs.crash.writing import DESTINATION

__all__ = [
    "AFTER_ROLLBACK",
    "A_AND_B",
    "DAY_MS",
    "DEEDS",
    "EXPIRES",
    "FIRST",
    "FOURTH",
    "JOBS",
    "KEEPS",
    "NEIGHBOURS",
    "PLACE",
    "ROLLBACKS",
    "SHOWN_AGAIN",
    "C",
    "D",
    "Deed",
    "named",
    "outcome_of",
    "own_files",
]

Deed = Literal[
    "rollback",
    "rollback that keeps",
    "rollback to what is marked",
    "expire",
    "expire what is shown",
    "keep",
    "partitions",
    "unmarked",
]
"""What is done: a rollback to the first job; one to the second that keeps what it replaces; one to
files that an expiry has marked, which died, and that another job keeps for longer; an expiry; one after a
rollback has shown the files again; a job that replaces and keeps; one that replaces a partition which a
rollback has shown again; one that writes no ``_SUCCESS``.
"""
EXPIRES: Final = ("expire", "expire what is shown")
AFTER_ROLLBACK: Final = ("expire what is shown", "partitions", "rollback to what is marked")
ROLLBACKS: Final = ("rollback", "rollback that keeps", "rollback to what is marked")
KEEPS: Final = ("rollback that keeps", "keep")
DEEDS: Final[tuple[Deed, ...]] = get_args(Deed)

DAY_MS: Final = 86_400_000
JOBS: Final = tuple(JobId(f"0000000{number}-8a4b-4f0e-9d5a-0c1b2a3d4e5f") for number in range(1, 4))
FOURTH: Final = JobId("0000000d-8a4b-4f0e-9d5a-0c1b2a3d4e5f")
SHOWN_AGAIN: Final = JobId("0000000c-8a4b-4f0e-9d5a-0c1b2a3d4e5f")
PLACE: Final = Location("memory", BUCKET, DESTINATION)
NEIGHBOURS: Final = (f"{DESTINATION}0/p=0/a.bin", f"{DESTINATION}/_note", f"{DESTINATION}/.hidden")
FIRST: Final = ("p=0/a.bin", "p=1/b.bin")


def named(names: tuple[str, ...], job: str) -> frozenset[str]:
    """Names as jobs make them unique."""
    return frozenset(f"{name.removesuffix('.bin')}-000000-{job}.bin" for name in names)


def own_files(job: JobId) -> frozenset[str]:
    """What a job brings that is no part of the past."""
    return named(("p=0/x.bin",), job)


A_AND_B: Final = named(FIRST, JOBS[0])
C: Final = named(("p=0/c.bin",), JOBS[1])
D: Final = named(("p=0/d.bin",), JOBS[2])


def outcome_of(deed: Deed, job: JobId, old: frozenset[str]) -> frozenset[str]:
    """What readers of manifests see afterwards."""
    match deed:
        case "rollback" | "rollback to what is marked":
            return A_AND_B
        case "rollback that keeps":
            return C
        case "expire" | "expire what is shown":
            return old
        case "partitions":
            return own_files(job) | frozenset(name for name in old if not name.startswith("p=0/"))
    return own_files(job)
