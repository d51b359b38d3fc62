"""The jobs that are cut: every combination of what a job can be, and how reproductions name them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from itertools import product
from typing import Any, Final, Literal, cast

from magicfs.committers.registry import committer_info
from magicfs.protocol.modes import WRITE_MODES, WriteMode
from magicfs.protocol.temporary import RENAMING
from proofs.crash.store_models import KINDS, is_numbered

__all__ = ["BY_TASKS", "SHAPES", "Attempt", "Setting", "Shape", "all_settings", "models_of", "name_of"]


@dataclass(frozen=True, slots=True)
class Attempt:
    """One run of a task.

    Attributes:
        task: The task.
        files: Relative names of what it writes.
        end: ``accepted``: commits, and the engine takes it. ``refused``: commits, and the engine has taken
            another. ``lost``: dies before it commits. ``late``: as ``refused``, while the job commits.
    """

    task: int
    files: tuple[str, ...]
    end: Literal["accepted", "refused", "lost", "late"] = "accepted"


@dataclass(frozen=True, slots=True)
class Shape:
    """The tasks of a job, and what was there before it.

    Attributes:
        attempts: In the order in which they run.
        past: ``none``: an empty destination. ``foreign``: files that magicfs did not write. ``chain``: files
            of an earlier job, and its manifest.
        success: Whether there is a ``_SUCCESS`` already.
    """

    attempts: tuple[Attempt, ...]
    past: Literal["none", "foreign", "chain"] = "foreign"
    success: bool = True

    @property
    def tasks(self) -> int:
        """How many tasks the job has."""
        return len({attempt.task for attempt in self.attempts})


_A, _B, _C = "p=0/part-0.bin", "p=1/part-0.bin", "p=1/part-1.bin"

SHAPES: Final[Mapping[str, Shape]] = {
    "one": Shape((Attempt(0, (_A,)),), past="none", success=False),
    "two": Shape((Attempt(0, (_A,)), Attempt(1, (_B,)))),
    "three": Shape((Attempt(0, (_A,)), Attempt(1, (_B, _C)), Attempt(2, (_A,))), past="chain"),
    "losers": Shape(
        (
            Attempt(0, (_A,), "lost"),
            Attempt(0, (_A, _B), "refused"),
            Attempt(0, (_A,)),
            Attempt(1, (_B, _C)),
            Attempt(1, (_B,), "refused"),
        )
    ),
    "zombies": Shape(
        (Attempt(0, (_A,)), Attempt(1, (_B,)), Attempt(1, (_B, _C), "late"), Attempt(0, (_A,), "lost")),
        past="chain",
    ),
}
"""Small jobs that differ in what can be left behind."""


_LAYOUT: Final = "__magic_job"

BY_TASKS: Final = "file-v2"
"""The committer under a job object whose tasks publish."""


def name_of(committer: str) -> str:
    """The name of a committer, as jobs have it."""
    return "file" if committer == BY_TASKS else committer


@dataclass(frozen=True, slots=True)
class Setting:
    """One job.

    Attributes:
        layout: Which of Hadoop's directory layouts.
        tracking: Where finished uploads are remembered; with ``small`` in memory, and small files stay in
            hand. For committers that stage, where pending sets go: ``store`` or ``cluster``.
        winners: ``handed`` over by the engine, or ``listed``.
        mode: The mode.
        shape: Name of its shape.
        store: Name of the model of its store.
        names: ``unique``, or ``equal`` to names of old files.
        committer: Which one, as the table of promises names it: ``file-v2`` is ``file`` with algorithm 2.
    """

    layout: Literal["__magic_job", "__magic"] = "__magic_job"
    tracking: Literal["store", "memory", "small", "cluster"] = "store"
    winners: Literal["handed", "listed"] = "handed"
    mode: WriteMode = "append"
    shape: str = "two"
    store: str = "full"
    names: Literal["unique", "equal"] = "unique"
    committer: str = "magic"

    @property
    def name(self) -> str:
        """The name of its committer."""
        return name_of(self.committer)

    @property
    def by_tasks(self) -> bool:
        """Whether its tasks publish, before the job does."""
        return self.committer == BY_TASKS

    @property
    def staged(self) -> bool:
        """Whether tasks write local files."""
        return committer_info(self.name).writes == "local files"

    @property
    def renames(self) -> bool:
        """Whether tasks write files that the job renames, or copies."""
        return self.name in RENAMING

    @property
    def one_step(self) -> bool:
        """Whether the store renames them in one step; else they are copied."""
        return self.renames and (self.committer == "manifest" or self.store in KINDS["local"])

    @property
    def in_memory(self) -> bool:
        """Whether only its process knows what a task has written until it commits."""
        return self.tracking in {"memory", "small"}

    @property
    def numbered(self) -> bool:
        """Whether versions of a job object are keys of their own."""
        return is_numbered(self.store)

    @property
    def past(self) -> str:
        """What lies at the destination before: as the shape has it, if the mode lets that be."""
        if self.mode != "error":
            return SHAPES[self.shape].past
        # Only what is written to must be empty, and nobody writes to every partition.
        is_elsewhere = self.committer == "partitioned" and SHAPES[self.shape].past == "foreign"
        return "elsewhere" if is_elsewhere else "none"

    @property
    def possible(self) -> bool:
        """Whether such a job can be."""
        if self.mode not in committer_info(self.name).modes:
            return False
        if self.by_tasks and (self.mode.startswith("overwrite") or self.shape == "losers"):
            return False  # the first attempt that commits is the task's
        if self.renames and (self.layout, self.tracking) != (_LAYOUT, "store"):
            return False  # it has one layout, and one place
        if self.tracking in (("memory", "small") if self.staged else ("cluster",)):
            return False
        if self.tracking == "small" and self.store == "local":
            return False  # files keep no write id
        if self.in_memory and (self.winners == "listed" or self.names == "equal"):
            return False  # nothing lies in the store that could be listed
        if self.names == "equal":
            # Only ``overwrite`` may replace a name, and three tasks must not write the same one.
            return self.mode == "overwrite" and self.shape in {"two", "zombies"}
        if self.winners == "listed" and self.shape in {"losers", "zombies"}:
            return self.shape == "losers"  # the last that was committed wins, so a late one would be it
        return True

    @property
    def text(self) -> str:
        """For reproductions."""
        return ",".join(str(getattr(self, one.name)) for one in fields(self))

    @classmethod
    def of(cls, text: str) -> Setting:
        """Undo ``text``.

        Raises:
            ValueError: It is none.
        """
        values = text.split(",")
        if len(values) not in (len(fields(cls)), len(fields(cls)) - 1):  # the last was not always there
            raise ValueError(f"{text!r} is no setting; it should read like {cls().text}")
        return cls(*cast("Any", values))


def models_of(committer: str, kind: str) -> tuple[str, ...]:
    """The models on which jobs of a committer are cut. No S3 renames: what renames is cut on files of a
    machine there, and what can copy on both.
    """
    if kind != "s3" or name_of(committer) not in RENAMING:
        return KINDS[kind]
    return KINDS["local"] if committer == "manifest" else (*KINDS["s3"], *KINDS["local"])


def all_settings(committer: str = "magic", kind: str = "s3") -> Iterator[Setting]:
    """Every job of a driven committer that can be on a kind of store."""
    for layout, tracking, winners, mode, shape, store, names in product(
        ("__magic_job", "__magic"),
        ("store", "memory", "small", "cluster"),
        ("handed", "listed"),
        WRITE_MODES,
        SHAPES,
        models_of(committer, kind),
        ("unique", "equal"),
    ):
        setting = Setting.of(f"{layout},{tracking},{winners},{mode},{shape},{store},{names},{committer}")
        if setting.possible:
            yield setting
