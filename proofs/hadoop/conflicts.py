"""The modes case by case: the same job by the JVM and by us, and what each leaves.

Two sides may differ only as the table "Differences of modes" of ``docs/hadoop.md`` says, and each of
its rows must be met.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from magicfs.errors import MagicError
from proofs.hadoop.ground import Ground, Place, Wrong, write

__all__ = ["CASES", "DIFFERENCES", "Case", "Compared", "Left", "documented", "play"]

_PAGE: Final = Path(__file__).parents[2] / "docs" / "hadoop.md"
_HEADING: Final = "## Differences of modes"

_MODES: Final = (
    ("directory", "fail", "error"),
    ("directory", "append", "append"),
    ("directory", "replace", "overwrite"),
    ("partitioned", "fail", "error"),
    ("partitioned", "append", "append"),
    ("partitioned", "replace", "overwrite_partitions"),
    ("magic", "append", "append"),
)
"""Committer, Hadoop's mode, and ours. Magic has no mode in Hadoop."""

_BEFORE: Final[Mapping[str, Mapping[str, str]]] = {
    "nothing": {},
    "three partitions": {f"p={n}/old.csv": f"old,{n}\n" for n in range(3)},
    "another partition": {"p=2/old.csv": "old,2\n"},
    "a root file": {"old.csv": "old,root\n"},
    "a root file and a partition": {"old.csv": "old,root\n", "p=0/old.csv": "old,0\n"},
    "only _SUCCESS": {"_SUCCESS": "{}"},
    "_SUCCESS and a partition": {"_SUCCESS": "{}", "p=0/old.csv": "old,0\n"},
    "hidden files": {"p=0/.hidden": "hidden\n", "p=0/_metadata": "metadata\n", "p=0/old.csv": "old,0\n"},
    "a directory marker": {"": ""},
}
_WRITTEN: Final[Mapping[str, tuple[str, ...]]] = {
    "two partitions": ("p=0", "p=1"),
    "root files": ("root",),
    "nothing": (),
}


@dataclass(frozen=True)
class Case:
    """What is there, what is written, and how."""

    committer: str
    theirs: str  # the mode, as Hadoop calls it
    ours: str
    before: str
    written: str
    unique: bool = True

    @property
    def name(self) -> str:
        names = "" if self.unique else ", names not unique"
        return f"{self.committer}, {self.theirs}: {self.before} before, {self.written} written{names}"

    @property
    def is_empty(self) -> bool:
        return self.written == "nothing"

    @property
    def is_replacing(self) -> bool:
        return self.theirs == "replace"


def _files(case: Case) -> dict[str, str]:
    if case.before == "an equal name":
        return {"p=0/part-0-0.csv": "old,0\n"}
    return dict(_BEFORE[case.before])


def _cases() -> Iterator[Case]:
    for committer, theirs, ours in _MODES:
        for before in _BEFORE:
            for written in _WRITTEN:
                if written == "root files" and before not in _ROOTED:
                    continue
                if written == "nothing" and before not in _EMPTIED:
                    continue
                yield Case(committer, theirs, ours, before, written)
        yield Case(committer, theirs, ours, "an equal name", "two partitions", unique=False)


_ROOTED: Final = ("nothing", "three partitions", "a root file", "a root file and a partition")
_EMPTIED: Final = ("nothing", "three partitions", "_SUCCESS and a partition")
CASES: Final = tuple(_cases())


@dataclass(frozen=True)
class Left:
    """What a job leaves."""

    error: str  # in which stage it failed; empty if it did not
    files: tuple[str, ...]  # data, hidden files included; new ones by what they say
    success: str  # "none", "old" or "new"
    uploads: int
    marker: bool  # of the destination
    message: str = field(default="", compare=False)

    def differs(self, other: Left) -> list[str]:
        """In which respects."""
        names = ("error", "files", "success", "uploads", "marker")
        return [name for name in names if getattr(self, name) != getattr(other, name)]


@dataclass
class Compared:
    """All cases, compared."""

    cases: int = 0
    documented: int = 0  # rows of the table that were met
    wrong: list[str] = field(default_factory=list)


Applies = Callable[[Case, Left, Left], bool]
_RESULT: Final = ("error", "files", "success")
DIFFERENCES: Final[Mapping[str, tuple[tuple[str, ...], Applies]]] = {
    "directory marker where nothing was": (
        ("marker",),
        lambda case, theirs, ours: case.before == "nothing" and theirs.marker and not ours.marker,
    ),
    "directory marker that was there, `replace`": (
        ("marker",),
        lambda case, _, ours: case.is_replacing and case.before == "a directory marker" and ours.marker,
    ),
    "`fail`, only `_SUCCESS` or a directory marker there": (
        _RESULT,
        lambda case, theirs, ours: (
            (case.committer, case.theirs, theirs.error, ours.error) == ("directory", "fail", "setup", "")
            and case.before in {"only _SUCCESS", "a directory marker"}
        ),
    ),
    "`append`, a name that is taken": (
        _RESULT,
        lambda case, theirs, ours: not (case.unique or theirs.error) and ours.error == "job commit",
    ),
    "`replace`, a job without files": (
        _RESULT,
        lambda case, theirs, ours: (
            case.is_empty and case.is_replacing and not theirs.error and ours.error == "job commit"
        ),
    ),
    "`replace`, files whose names begin with a dot": (
        ("files",),
        lambda case, theirs, ours: (
            case.is_replacing
            and case.before == "hidden files"
            and {*ours.files} - {*theirs.files} == {"p=0/.hidden: hidden"}
        ),
    ),
    "`_SUCCESS` after a failed job": (
        ("success",),
        lambda _, theirs, ours: (
            bool(theirs.error and ours.error) and (theirs.success, ours.success) == ("none", "old")
        ),
    ),
    "partitioned, `fail`, a root file": (
        _RESULT,
        lambda case, theirs, ours: (
            (case.committer, case.theirs, case.written) == ("partitioned", "fail", "root files")
            and not theirs.error
            and ours.error == "task commit"
        ),
    ),
    "partitioned, `replace`, a root file": (
        _RESULT,
        lambda case, theirs, ours: (
            (case.committer, case.theirs, case.written) == ("partitioned", "replace", "root files")
            and not theirs.error
            and bool(ours.error)
        ),
    ),
}
"""By the name in the table: in which respects the sides differ, and when."""


def documented(text: str) -> list[str]:
    """The names of the differences in the page's table, in their order."""
    _, found, section = text.partition(_HEADING)
    if not found:
        return []
    section = re.split(r"^## ", section, maxsplit=1, flags=re.MULTILINE)[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")]
    return [row.split("|")[1].strip() for row in rows[2:]]


def play(ground: Ground, only: str = "") -> Compared:
    """Play every case on both sides."""
    compared, met = Compared(), set()
    for case in CASES:
        if only not in case.name:
            continue
        compared.cases += 1
        try:
            theirs, ours = _theirs(ground, case), _ours(ground, case)
        except Wrong as problem:
            compared.wrong.append(f"conflicts: {case.name}: {problem}")
            continue
        differing = set(theirs.differs(ours))
        for name, (respects, applies) in DIFFERENCES.items():
            if differing & set(respects) and applies(case, theirs, ours):
                met.add(name)
                differing -= set(respects)
        if differing:
            told = f"in {', '.join(sorted(differing))}: JVM {theirs}; ours {ours}"
            compared.wrong.append(f"conflicts: {case.name}: differ {told}")
    rows = documented(_PAGE.read_text(encoding="utf-8")) if _PAGE.exists() else []
    compared.documented = len(met.intersection(rows))
    if not only:
        for name in sorted(set(DIFFERENCES) - met):
            compared.wrong.append(f"conflicts: difference {name!r} was not met")
        for name in sorted(set(rows) ^ set(DIFFERENCES)):
            compared.wrong.append(f"conflicts: {name!r} is only in one of the table and the comparison")
    return compared


def _prepared(ground: Ground, case: Case) -> Place:
    place = ground.place("mode")
    for name, text in _files(case).items():
        place.put(name, text)
    return place


def _theirs(ground: Ground, case: Case) -> Left:
    place = _prepared(ground, case)
    told: dict[str, object] = {
        "fs__s3a__committer__staging__conflict-mode": case.theirs,
        "fs__s3a__committer__staging__unique-filenames": case.unique,
        # What the JVM does to the uploads of others is not about conflicts.
        "fs__s3a__committer__abort__pending__uploads": False,
    }
    told |= {"parts": ",".join(_WRITTEN[case.written]) or "root", "files": 0 if case.is_empty else 2}
    found = ground.run(case.committer, place, tasks="0-1", side="new", fresh=case.unique, **told)
    return _left(place, found["stage"] if "failed" in found else "", found.get("failed", ""))


def _ours(ground: Ground, case: Case) -> Left:
    place = _prepared(ground, case)
    how: dict[str, Any] = {"committer": case.committer, "mode": case.ours, "unique_names": case.unique}
    stage, message, job = "setup", "", None
    try:
        job = ground.job(place, **how)
        stage = "task commit"
        commits = write(
            job, range(2), side="new", parts=_WRITTEN[case.written], files=0 if case.is_empty else 2
        )
        stage = "job commit"
        job.commit(commits)
        stage = ""
    except MagicError as error:
        message = f"{type(error).__name__}: {error}"
        if job is not None:
            job.abort()
    return _left(place, stage, message)


def _left(place: Place, stage: str, message: str) -> Left:
    names = [name for name in place.below() if not name.startswith(("_magicfs/", "__magic", "_temporary"))]
    found = []
    for name in names:
        if name in ("", "_SUCCESS") or name.endswith("/"):
            continue
        text = place.read(name).decode().splitlines()[0]
        directory = name.rpartition("/")[0]
        found.append(f"{directory}: {text}" if text.startswith("new") else f"{name}: {text}")
    body = place.read("_SUCCESS") if "_SUCCESS" in names else None
    success = "none" if body is None else "old" if body == b"{}" else "new"
    return Left(stage, tuple(sorted(found)), success, len(place.uploads()), "" in names, message)
