"""What is done at a destination that keeps what is replaced, and what of its past has which name."""

from __future__ import annotations

import hashlib
import re
from typing import Any, Final, Literal, get_args

from magicfs.protocol.ids import JobId
from magicfs.protocol.paths import Location
from proofs.crash.snapshots import BUCKET
from proofs.crash.writing import DESTINATION

__all__ = [
    "AFTER_ROLLBACK",
    "A_AND_B",
    "DAY_MS",
    "DEEDS",
    "DROPS",
    "EXPIRES",
    "FIRST",
    "FOURTH",
    "IN_PLACE",
    "JOBS",
    "KEEPS",
    "NEIGHBOURS",
    "PARTITION",
    "PLACE",
    "REWRITES",
    "ROLLBACKS",
    "SHOWN_AGAIN",
    "C",
    "D",
    "Deed",
    "named",
    "original",
    "outcome_of",
    "own_files",
]

Deed = Literal[
    "rollback",
    "rollback in place",
    "rollback that keeps",
    "rollback to what is marked",
    "rollback of a partition",
    "rollback of a partition beside what stays",
    "expire",
    "expire what is shown",
    "keep",
    "partitions",
    "unmarked",
    "drop",
    "drop what is promised",
    "rewrite",
    "rewrite that keeps",
]
"""What is done: a rollback to the first job; one whose files lie where they were; one to the second that
keeps what it replaces; one to files that an expiry has marked, which died, and that another job keeps for
longer; one of one partition to the first job, and one to the second while another partition stays as it is;
an expiry; one after a rollback has shown the files again; a job that replaces and keeps; one that replaces a
partition which a rollback has shown again; one that writes no ``_SUCCESS``; a drop of a partition; one of
files that an earlier job keeps; a rewrite of what is shown; one that keeps the old files.
"""
EXPIRES: Final = ("expire", "expire what is shown")
AFTER_ROLLBACK: Final = (
    "expire what is shown",
    "partitions",
    "rollback to what is marked",
    "rollback of a partition beside what stays",
    "drop what is promised",
)
IN_PLACE: Final = ("rollback in place", *AFTER_ROLLBACK)
"""Before these what is replaced stays where it was, as for readers of plain paths."""
KEEPS: Final = ("rollback that keeps", "keep", "rewrite that keeps")
DROPS: Final = ("drop", "drop what is promised")
REWRITES: Final = ("rewrite", "rewrite that keeps")
DEEDS: Final[tuple[Deed, ...]] = get_args(Deed)

DAY_MS: Final = 86_400_000
PARTITION: Final = "p=0"
JOBS: Final = tuple(JobId(f"0000000{number}-8a4b-4f0e-9d5a-0c1b2a3d4e5f") for number in range(1, 4))
FOURTH: Final = JobId("0000000d-8a4b-4f0e-9d5a-0c1b2a3d4e5f")
ROLLBACKS: Final[dict[Deed, dict[str, Any]]] = {
    "rollback": {"to": f"job:{JOBS[0]}"},
    "rollback in place": {"to": f"job:{JOBS[0]}"},
    "rollback that keeps": {"to": f"job:{JOBS[1]}", "keep_ms": 7 * DAY_MS},
    "rollback to what is marked": {"to": f"job:{JOBS[0]}"},
    "rollback of a partition": {"to": f"job:{JOBS[0]}", "partitions": (PARTITION,)},
    "rollback of a partition beside what stays": {"to": f"job:{JOBS[1]}", "partitions": (PARTITION,)},
}
SHOWN_AGAIN: Final = JobId("0000000c-8a4b-4f0e-9d5a-0c1b2a3d4e5f")
PLACE: Final = Location("memory", BUCKET, DESTINATION)
NEIGHBOURS: Final = (f"{DESTINATION}0/p=0/a.bin", f"{DESTINATION}/_note", f"{DESTINATION}/.hidden")
FIRST: Final = ("p=0/a.bin", "p=1/b.bin")


def named(names: tuple[str, ...], job: str, *, task: int = 0) -> frozenset[str]:
    """Names as jobs make them unique."""
    return frozenset(f"{name.removesuffix('.bin')}-{task:06}-{job}.bin" for name in names)


def own_files(job: JobId) -> frozenset[str]:
    """What a job brings that is no part of the past."""
    return named(("p=0/x.bin",), job)


A_AND_B: Final = named(FIRST, JOBS[0])
C: Final = named(("p=0/c.bin",), JOBS[1])
D: Final = named(("p=0/d.bin",), JOBS[2])


def outcome_of(deed: Deed, job: JobId, old: frozenset[str]) -> frozenset[str]:
    """What readers of manifests see afterwards."""
    match deed:
        case "rollback" | "rollback in place" | "rollback to what is marked":
            return A_AND_B
        case "rollback that keeps":
            return C
        case "rollback of a partition":
            return (A_AND_B - _elsewhere(A_AND_B)) | _elsewhere(old)
        case "rollback of a partition beside what stays":
            return C | _elsewhere(old)
        case "expire" | "expire what is shown":
            return old
        case "partitions":
            return own_files(job) | _elsewhere(old)
        case "drop" | "drop what is promised":
            return _elsewhere(old)
    return own_files(job)


def _elsewhere(files: frozenset[str]) -> frozenset[str]:
    """Those that lie in another partition than the one that is replaced or dropped."""
    return frozenset(name for name in files if not name.startswith(f"{PARTITION}/"))


_COPY: Final = re.compile(r"(.*)-([0-9a-f]{16})-copied-[0-9a-f-]{36}\.bin")


def original(name: str) -> str:
    """The file of the past of which a file is a copy, made by a rollback; else the file itself."""
    found = _COPY.fullmatch(name)
    if found is None:
        return name
    for one in (*A_AND_B, *C, *D):
        stem = one.removesuffix(".bin")
        digest = hashlib.sha256(stem[len(found[1]) :].encode()).hexdigest()
        if stem.startswith(found[1]) and digest[:16] == found[2]:
            return one
    return name
