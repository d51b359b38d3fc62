"""What a stage is, and what all stages of a task attempt or a job commit share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, Generic, TypeVar

from magicfs.committers.manifest.counting import Counts
from magicfs.committers.manifest.places import Places
from magicfs.committers.options import ManifestOptions
from magicfs.engine import Event
from magicfs.errors import ProtocolViolation
from magicfs.protocol.ids import TaskId
from magicfs.stores.tree import Tree
from magicfs.transaction.context import JobContext

__all__ = ["Stage", "StageConfig"]

_Argument = TypeVar("_Argument")
_Result = TypeVar("_Result")


def _nobody(_event: Event) -> None:
    return None


@dataclass(slots=True, kw_only=True)
class StageConfig:
    """What the stages of one task commit, or of one job commit, work with.

    Attributes:
        context: The job.
        places: Where things are, as keys and as URIs.
        tree: The files of the job's bucket.
        options: What the committer was told.
        concurrency: Most requests at once.
        final_key: The key of a file that a task wrote under a relative path.
        name_bytes_max: Bytes of the longest name that the store takes; 0 for any.
        tell: Told of every finished rename.
        pause_s: After the n-th failure to save a file, n times so many seconds are waited.
        counts: What is counted and measured.
        entered: Name of the stage that was begun last; empty before the first.
    """

    context: JobContext
    places: Places
    tree: Tree
    options: ManifestOptions
    concurrency: int
    final_key: Callable[[str, TaskId], str]
    name_bytes_max: int = 0
    tell: Callable[[Event], None] = _nobody
    pause_s: float = 0.5
    counts: Counts = field(default_factory=Counts)
    entered: str = ""


class Stage(ABC, Generic[_Argument, _Result]):
    """One step of the protocol. A stage object runs once.

    Args:
        config: What it works with.

    Attributes:
        name: Hadoop's name of it, under which its runs are counted and measured.
    """

    name: ClassVar[str]

    def __init__(self, config: StageConfig) -> None:
        self.config = config
        self._began = False

    async def run(self, argument: _Argument) -> _Result:
        """Carry the stage out.

        Raises:
            ProtocolViolation: It was carried out before, or is under way.
        """
        if self._began:
            raise ProtocolViolation(
                f"stage {self.name} of job {self.config.context.job} attempted twice; make a new one"
            )
        self._began = True
        self.config.entered = self.name
        with self.config.counts.timed(self.name):
            return await self._run(argument)

    @abstractmethod
    async def _run(self, argument: _Argument) -> _Result:
        """What the stage does."""
