"""The stage with which a driver makes the job commit its own: one rename of the manifests' directory.

::

    <NN>/manifests              tasks can commit
    <NN>/manifests-committing   a driver has begun to publish; no task can commit any more
    <NN>/manifests-published    every file is at its destination, and _SUCCESS tells it
    <NN>/manifests-superseded   a later job attempt has been set up, before this one had begun

Hadoop's committer leaves the directory where it is: a task that commits late, or a second driver, changes
what is published, so that nobody may carry a job commit out again.
"""

from __future__ import annotations

from enum import Enum

from magicfs.committers.manifest.stage import Stage, StageConfig
from magicfs.errors import CommitDenied, FormatError, ObjectExists, ObjectNotFound, StoreError
from magicfs.formats.success import SUCCESS_SIZE_LIMIT, SuccessData

__all__ = ["Claim", "ClaimManifests", "give_back", "own_success", "read_whole"]


class Claim(Enum):
    """What a driver found.

    Attributes:
        NEW: Nobody had begun to publish; now this driver has.
        AGAIN: A driver had begun, and this one goes on.
        PUBLISHED: The job is published.
    """

    NEW = "new"
    AGAIN = "again"
    PUBLISHED = "published"


class ClaimManifests(Stage[None, Claim]):
    """Shut the manifests of the job attempt, so that nothing is added to what is published.

    Raises:
        CommitDenied: There are none: the attempt was aborted, superseded, or never set up.
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
