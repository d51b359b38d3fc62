"""Files that are copied to where they are visible, by processes that fail or repeat each other."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from magicfs.engine import BatchResult, Engine
from magicfs.errors import CommitFailed, ObjectNotFound
from magicfs.protocol.readback import Outcome
from magicfs.protocol.steps import Rename
from magicfs.stores.memory.store import MemoryStore, World
from magicfs.testing.faulty_store import Traffic, faulty
from magicfs.testing.store_faults import Actor, Fault, Kind
from magicfs.transaction.visible import rename_files

STEPS = [Rename(f"work/{n} +%", f"sales/ü/{n} +%", n + 1) for n in range(4)]


class Bucket:
    """A bucket that has no rename, with the files of the steps."""

    def __init__(self) -> None:
        self.world = World()
        self.world.create_bucket("bucket")
        self.store = MemoryStore("bucket", self.world)
        for step in STEPS:
            asyncio.run(self.store.put(step.source, b"x" * step.length))
        self.etags: dict[int, str] = {}
        self.traffic = Traffic(())

    def copy(self, *faults: Fault, concurrency: int = 2) -> BatchResult:
        """Make the files visible, from a process of its own."""
        self.etags, self.traffic = {}, Traffic(faults)
        engine = Engine(faulty(self.store, self.traffic, Actor("process")), concurrency)
        return asyncio.run(rename_files(engine, STEPS, self.etags.__setitem__))

    def delete(self, keys: Sequence[str]) -> None:
        asyncio.run(self.store.delete(keys))

    def visible(self) -> list[str]:
        contents = self.world.find("bucket")
        assert contents is not None
        return sorted(key for key in contents.objects if key.startswith("sales/"))

    def copies(self) -> int:
        """How many the last call has made."""
        return sum(request.operation == "copy" for request in self.traffic.log)


@pytest.fixture
def bucket() -> Bucket:
    return Bucket()


def test_files_are_copied_and_told_with_the_etags_that_they_have(bucket: Bucket) -> None:
    result = bucket.copy()
    assert (result.ok, result.done) == (True, 4)
    assert bucket.visible() == [step.key for step in STEPS]
    for number, step in enumerate(STEPS):
        assert asyncio.run(bucket.store.head(step.key)).etag == bucket.etags[number]
        assert asyncio.run(bucket.store.head(step.source)).size == step.length, "it stays for who comes next"


def test_a_second_call_does_the_same_again_also_once_the_sources_are_gone(bucket: Bucket) -> None:
    bucket.copy()
    assert bucket.copy().ok
    bucket.delete([step.source for step in STEPS])
    again = bucket.copy()
    assert (again.ok, again.done, sorted(bucket.etags)) == (True, 4, [0, 1, 2, 3])


@pytest.mark.parametrize("there", [None, b"another length"])
def test_a_source_that_is_gone_without_a_copy_ends_the_batch(bucket: Bucket, there: bytes | None) -> None:
    bucket.delete([STEPS[0].source])
    if there is not None:
        asyncio.run(bucket.store.put(STEPS[0].key, there))
    result = bucket.copy(concurrency=1)
    (failure,) = result.failures
    assert failure.outcome is Outcome.FAILED
    assert isinstance(failure.error, ObjectNotFound)
    assert bucket.copies() == 1, "no other is begun"


def test_a_source_that_somebody_has_changed_is_not_what_its_task_committed(bucket: Bucket) -> None:
    asyncio.run(bucket.store.put(STEPS[0].source, b"longer than it was"))
    (failure,) = bucket.copy(concurrency=1).failures
    assert isinstance(failure.error, CommitFailed)
    assert "it has 18 bytes, and had 1" in str(failure.error)


@pytest.mark.parametrize("kind", [Kind.REPLY_LOST, Kind.ERROR_BEFORE])
@pytest.mark.parametrize("operation", ["copy", "head"])
def test_silence_leaves_open_what_became_of_a_file_and_a_repetition_tells(
    bucket: Bucket, kind: Kind, operation: str
) -> None:
    result = bucket.copy(Fault(kind, operation=operation))
    assert [one.outcome for one in result.failures] == [Outcome.UNKNOWN]
    assert bucket.copy().ok
    assert bucket.visible() == [step.key for step in STEPS]
