"""Looking at the bucket after every request of a whole job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from fsspec.asyn import get_loop, sync

from magicfs.classic.reading import stocator_files
from magicfs.committers.registry import committer_info
from magicfs.errors import MagicError, ObjectNotFound
from magicfs.manifests.chain import READING, view
from magicfs.stores.memory.filesystem import MemoryFileSystem
from magicfs.stores.memory.store import MemoryStore, World
from proofs.guarantees.case import Case, row
from proofs.guarantees.ground import BUCKET, DESTINATION
from proofs.guarantees.subjects import Subject

__all__ = ["Seen", "as_manifests_say", "every_moment"]


@dataclass
class Seen:
    """What lay in the bucket, request by request.

    Attributes:
        moments: The objects after each request that changed any.
        new: What the job is to publish.
        problem: Why the job failed; empty if it did not.
    """

    moments: list[dict[str, bytes]] = field(default_factory=list)
    new: list[bytes] = field(default_factory=list)
    problem: str = ""


def every_moment(subject: Subject) -> Seen:
    """Run a job of two tasks of two files, and look after every request."""
    seen = Seen()
    with Case(subject, old=False) as case:

        def look(_: object) -> None:
            objects = case.ground.objects()
            if not seen.moments or seen.moments[-1] != objects:
                seen.moments.append(objects)

        driver = case.process(after=look)
        token = driver.call(driver.committer.setup_job).driver
        commits = []
        for number in range(2):
            worker = case.process(after=look)
            task = worker.task(number)
            worker.write(task)
            commits.append(task.commit())
            seen.new += [row(task, one) for one in range(2)]
        try:
            driver.call(driver.committer.commit_job, commits, token)
        except MagicError as error:
            seen.problem = f"the job commit failed: {error}"
    return seen


def as_manifests_say(subject: Subject, objects: Mapping[str, bytes]) -> Iterable[bytes] | None:
    """What a reader of manifests sees in a bucket; None if the committer has no manifests."""
    if not committer_info(subject.committer).driven and subject.committer != "stocator":
        return None
    world = World()
    world.create_bucket(BUCKET)
    store = MemoryStore(BUCKET, world)

    async def lay_down() -> None:
        for key, body in objects.items():
            await store.put(key, body)

    async def read() -> list[bytes]:
        found = await view(store, DESTINATION, READING)
        return [await store.get(f"{DESTINATION}/{name}") for name in (found.files if found else ())]

    sync(get_loop(), lay_down)
    if subject.committer == "stocator":
        return _winners(MemoryFileSystem(world=world), objects)
    result: list[bytes] = sync(get_loop(), read)
    return result


def _winners(filesystem: MemoryFileSystem, objects: Mapping[str, bytes]) -> list[bytes]:
    place = f"memory://{BUCKET}"
    try:
        urls = stocator_files(f"{place}/{DESTINATION}", filesystem=filesystem)
    except ObjectNotFound:
        return []  # nothing is published
    return [objects[url.removeprefix(f"{place}/")] for url in urls]
