"""Stages that set up a job attempt and a task attempt, and the claim of a job attempt by one driver.

A driver makes the job commit its own by one rename of the manifests' directory::

    <NN>/manifests              tasks can commit
    <NN>/manifests-committing   a driver has begun to publish; no task can commit any more
    <NN>/manifests-published    every file is at its destination, and _SUCCESS is written
    <NN>/manifests-superseded   a later job attempt has been set up, before this one had begun

Hadoop's committer leaves the directory where it is: a task that commits late, or a second driver, changes
what is published, so a job commit cannot be repeated there.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from enum import Enum

from magicfs.committers.manifest.stage import Stage, StageConfig
from magicfs.errors import CommitDenied, FormatError, ObjectExists, ObjectNotFound, StoreError
from magicfs.formats.success import SUCCESS_SIZE_LIMIT, SuccessData
from magicfs.protocol import paths
from magicfs.protocol.ids import AttemptId

__all__ = ["Claim", "ClaimManifests", "SetupJob", "SetupTask", "give_back", "own_success", "read_whole"]

_TRIES = 5


class SetupJob(Stage[None, None]):
    """Make the directories of a new job attempt, and shut those of earlier ones.

    Afterwards tasks can commit, and no driver of an earlier attempt can begin to publish: the directory of
    its manifests has been renamed, which a claim of it needs to do, too, and only one of two renames can.
    Raises CommitDenied if this attempt or a later one has been set up before, or an earlier one has begun to
    publish; nothing was changed, but earlier attempts may be shut.
    """

    name = "job_stage_setup"

    async def _run(self, argument: None) -> None:  # noqa: ARG002 - of a job there is nothing to say
        places, tree = self.config.places, self.config.tree
        number, job = self.config.context.layout.attempt, self.config.context.job
        if await tree.look(places.attempt_directory) is not None:
            raise CommitDenied(
                f"Job setup: {places.attempt_directory} exists: attempt {number} of job {job} has been set "
                "up already; nothing was changed; leave it to its driver, or take the next attempt number"
            )
        others = [one async for one in self._attempts()]
        if later := [one for one in others if one > number]:
            raise CommitDenied(
                f"Job setup: attempt {max(later)} of job {job} has been set up already, so attempt {number} "
                "comes too late; nothing was changed; leave the job to that one"
            )
        for other in others:
            await self._shut(other)
        for left in range(_TRIES - 1, -1, -1):
            try:
                await tree.make_directory(places.open_manifests)
                return
            except ObjectNotFound:
                # The last of the other jobs at this destination has removed what they shared.
                if not left:
                    raise

    async def _attempts(self) -> AsyncIterator[int]:
        directory = self.config.places.layout.job_directory
        try:
            async for entry in self.config.tree.entries(directory):
                name = paths.relative_to(entry.path, directory)
                if entry.kind == "directory" and name.isascii() and name.isdigit():
                    yield int(name)
        except ObjectNotFound:
            return

    async def _shut(self, number: int) -> None:
        places, tree = self.config.places, self.config.tree
        directory = f"{places.layout.attempt_directory(number)}/manifests"
        try:
            await tree.rename(directory, places.superseded_manifests(number))
        except ObjectNotFound:
            if await tree.look(places.superseded_manifests(number)) is None:
                raise CommitDenied(
                    f"Job setup: attempt {number} of job {self.config.context.job} has begun to publish; "
                    "nothing was changed; commit that attempt again, which finishes it, or abort it"
                ) from None


class SetupTask(Stage[AttemptId, None]):
    """Make the directory of a new task attempt. Raises ObjectExists if the attempt has been set up before."""

    name = "task_stage_setup"

    async def _run(self, argument: AttemptId) -> None:
        tree, directory = self.config.tree, self.config.places.layout.task_attempt_directory(argument)
        if await tree.look(directory) is not None:
            raise ObjectExists(
                "make_directory",
                f"{tree.bucket}/{directory}",
                f"task attempt {argument} has been set up already",
                hint="make a new attempt of the task",
            )
        await tree.make_directory(directory)


class Claim(Enum):
    """What a driver found."""

    NEW = "new"  # nobody had begun to publish; now this driver has
    AGAIN = "again"  # a driver had begun, and this one goes on
    PUBLISHED = "published"  # the job is published


class ClaimManifests(Stage[None, Claim]):
    """Shut the manifests of the job attempt, so that nothing is added to what is published. Raises
    CommitDenied if there are none: the attempt was aborted, superseded, or never set up.
    """

    name = "job_stage_claim_manifests"

    async def _run(self, argument: None) -> Claim:  # noqa: ARG002 - there is nothing to say
        places, tree = self.config.places, self.config.tree
        try:
            await tree.rename(places.open_manifests, places.claimed_manifests)
            return Claim.NEW
        except ObjectExists:
            return Claim.AGAIN
        except ObjectNotFound:
            if await tree.look(places.claimed_manifests) is not None:
                return Claim.AGAIN
            if await tree.look(places.published_manifests) is not None:
                return Claim.PUBLISHED
            if await own_success(self.config) is not None:
                return Claim.PUBLISHED
            raise self._denied() from None
        except StoreError:
            # Perhaps only the answer was lost.
            if await tree.look(places.claimed_manifests) is None:
                raise
            return Claim.AGAIN

    def _denied(self) -> CommitDenied:
        context, places = self.config.context, self.config.places
        return CommitDenied(
            f"attempt {context.layout.attempt} of job {context.job} has no {places.open_manifests}: it was "
            "aborted, superseded by a later attempt, or never set up; nothing was changed; run the job again"
        )


async def give_back(config: StageConfig) -> None:
    """Undo a new claim before which nothing was changed: tasks can commit again."""
    await config.tree.rename(config.places.claimed_manifests, config.places.open_manifests)


async def read_whole(config: StageConfig, key: str, size_limit: int) -> bytes | None:
    """Read a file, and one byte more than the limit of a larger one; None if there is none.

    It is looked at first: some stores take as much memory as they are allowed to read.
    """
    found = await config.tree.look(key)
    if found is None or found.kind != "file":
        return None
    try:
        return await config.tree.read(key, size_max=min(found.size, size_limit) + 1)
    except ObjectNotFound:
        return None


async def own_success(config: StageConfig) -> SuccessData | None:
    """What ``_SUCCESS`` says if this job wrote it; None otherwise."""
    key = config.context.layout.success_key
    raw = await read_whole(config, key, SUCCESS_SIZE_LIMIT)
    if raw is None:
        return None
    try:
        found = SuccessData.from_bytes(key, raw)
    except FormatError:
        return None
    return found if found.job_id == config.context.job else None
