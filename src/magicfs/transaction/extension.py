"""What cuts across all modes: values that a guest registers, asked at fixed points of a job's life.

An option says which extension carries it out (``needs`` of its declaration), and the job object names it in
``requires``. Whoever ends the job, from any process, loads it by that key from the entry points
``magicfs.extensions``. A job that asks for nothing has none, and pays nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final

from magicfs.errors import MagicError, UsageError
from magicfs.formats.job_object import CORE_NEEDS
from magicfs.runtime import registered

if TYPE_CHECKING:
    from magicfs.engine import Engine
    from magicfs.formats.deletions import OldObject
    from magicfs.formats.job_object import JobObject
    from magicfs.protocol.replacement import Replacement
    from magicfs.stores.conditions import Conditions
    from magicfs.transaction.context import JobContext
    from magicfs.transaction.output import JobOutput
    from magicfs.transaction.planning import Look
    from magicfs.transaction.record import JobRecord, JobVersion

EXTENSIONS: Final = "magicfs.extensions"
"""The group of entry points."""

KEEPS: Final = "keep"
"""The key of what knows the files that jobs have promised to keep, as the pointer names them."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """An open job that somebody accepts."""

    engine: Engine
    context: JobContext
    job: JobObject
    output: JobOutput
    reason: str  # empty where the one that somebody gave before still counts


@dataclass(frozen=True, slots=True)
class Prepared:
    """An open job whose output was found and checked."""

    engine: Engine
    context: JobContext
    record: JobRecord
    version: JobVersion
    output: JobOutput
    discard: Callable[[JobVersion, str], Awaitable[None]]
    """Aborts the job, for the reason that is given."""


@dataclass(slots=True)
class Settling:
    """A job whose files are all visible, before its manifest is made."""

    engine: Engine
    context: JobContext
    conditions: Conditions
    job: JobObject
    output: JobOutput
    old: list[OldObject]
    """What readers do not see any more."""
    deleted: list[OldObject]
    """What of it is deleted for good once the manifest is linked."""
    manifest: dict[str, Any] = field(default_factory=dict)
    """What the manifest has to say of it: values of its fields."""


class Extension:
    """Changes nothing, at any point. Extensions derive from it."""

    follows: ClassVar[bool] = False
    """Whether ``at_end`` may be asked for a job that does not name it, as the pointer of its dataset does."""

    def at_setup(self, context: JobContext, job: JobObject) -> None:
        """A driver takes the job: its own new one, or another's. May refuse."""

    async def mark_places(self, engine: Engine, context: JobContext, conditions: Conditions) -> None:
        """A driver sets up what its caller asks for. May write where the caller's word alone allows it."""

    async def accept(self, job: Accepted) -> str | None:
        """Somebody publishes an open job for a reason, whatever an extension has against it. Returns the
        token of whoever may commit it from now on; None of an extension that has nothing against it.
        """

    def at_commit(self, context: JobContext, job: JobObject, driver: str | None) -> None:
        """A driver is about to commit the open job. May refuse."""

    async def on_output(self, job: Prepared) -> None:
        """What is to be published is known. May look at it, add to it, refuse, or have the job discarded."""

    async def plan(self, look: Look, plan: Replacement) -> None:
        """The planner of the mode has planned. May read what it has to know, and change the plan."""

    async def before_commit_point(self, look: Look) -> dict[str, object] | None:
        """The plan is announced, and nobody is in the way. May refuse; returns changes of the job object."""

    async def settle(self, job: Settling) -> None:
        """All files are visible. May be called again, from any process, and does the same then."""

    async def at_end(self, job: Settling) -> list[str] | None:
        """The manifest is linked, and what is old is deleted. Returns warnings; an error of ours is one."""


async def warnings_at_end(
    extensions: Sequence[Extension], job: Settling, follows: Sequence[str] = ()
) -> list[str]:
    """What extensions do and say once a job is published: its own, and those that the pointer names by keys
    and that follow every publication. Nothing of it makes the job fail.
    """
    warnings: list[str] = []
    asked = [*extensions]
    for key in follows[:16]:  # a forged pointer may name any number
        try:
            asked += [one for one in extensions_of([key], asked) if one.follows and one not in asked]
        except UsageError as error:
            warnings.append(f"the files are published, but not everything followed: {error}")
    for one in asked:
        try:
            warnings += await one.at_end(job) or []
        except MagicError as error:
            warnings.append(f"the files are published, but {type(one).__name__} failed afterwards: {error}")
    return warnings


def extensions_of(needs: Iterable[str], given: Sequence[Extension] = ()) -> tuple[Extension, ...]:
    """The extensions of these keys, in their order; one that is given stands for those of its class.

    Raises UsageError for one that is not installed.
    """
    found = {type(one): one for one in given}
    for key in sorted({*needs} - CORE_NEEDS):
        kind = registered.load(EXTENSIONS, key)
        if kind not in found:
            found[kind] = kind()
    return tuple(found.values())
