"""A job of three tasks whose driver dies after k of n completes, for every k and every conflict mode."""

from __future__ import annotations

from uuid import uuid4

import pytest

from magicfs.cli import main as cli
from magicfs.protocol.job_state import JobState
from proofs.scenes.unfinished import Bucket, died_in

OLD = {"sales/day=1/old.bin": b"old", "sales/day=7/kept.bin": b"kept"}
NEW = {b"0", b"1", b"2"}
AFTER = {
    "fail": {},
    "append": OLD,
    "replace": {},
    "replace_partitions": {"sales/day=7/kept.bin": b"kept"},
}

every_mode = pytest.mark.parametrize("conflict", AFTER)


@pytest.fixture
def bucket() -> Bucket:
    return Bucket(f"b-{uuid4().hex[:8]}")


def fill(bucket: Bucket, conflict: str) -> dict[str, bytes]:
    """What lies there before the job; ``fail`` publishes only where nothing does."""
    old = {} if conflict == "fail" else dict(OLD)
    for key, body in old.items():
        bucket.put(key, body)
    bucket.put("sales/_SUCCESS", b'{"name": "theirs"}')
    return bucket.objects()


def work(bucket: Bucket) -> list[str]:
    return [key for key in bucket.objects() if "__magic" in key]


@every_mode
@pytest.mark.parametrize("completed", range(4))
def test_recover_makes_the_dataset_whole(bucket: Bucket, conflict: str, completed: int) -> None:
    fill(bucket, conflict)
    url = bucket.url("sales")
    died_in(JobState.COMMITTING, url, completed=completed, conflict=conflict)
    assert len({*bucket.data("sales").values()} & NEW) == completed
    assert "sales/_SUCCESS" not in bucket.objects()
    assert cli.main(["recover", url]) == 0
    data = bucket.data("sales")
    old = {key: body for key, body in data.items() if body not in NEW}
    assert old == AFTER[conflict]
    assert {*data.values()} - {*old.values()} == NEW
    assert "sales/_SUCCESS" in bucket.objects()
    assert not work(bucket)
    assert not bucket.uploads()


@every_mode
@pytest.mark.parametrize("completed", range(4))
def test_rollback_restores_the_old_state(bucket: Bucket, conflict: str, completed: int) -> None:
    before = fill(bucket, conflict)
    url = bucket.url("sales")
    died_in(JobState.COMMITTING, url, completed=completed, conflict=conflict)
    assert cli.main(["recover", "--rollback", url]) == 0
    after = bucket.objects()
    assert after.pop("sales/_SUCCESS").strip() == before.pop("sales/_SUCCESS")
    assert after == before
    assert not bucket.uploads()


@every_mode
def test_rollback_of_a_completed_job_refuses_and_touches_nothing(bucket: Bucket, conflict: str) -> None:
    fill(bucket, conflict)
    url = bucket.url("sales")
    died_in(JobState.COMPLETED, url, conflict=conflict)
    before = bucket.objects()
    assert cli.main(["recover", "--rollback", url]) == 4
    assert bucket.objects() == before
    assert cli.main(["recover", url]) == 0
    data = bucket.data("sales")
    assert {key: body for key, body in data.items() if body not in NEW} == AFTER[conflict]


@every_mode
@pytest.mark.parametrize("command", [["recover", "--abort"], ["abort"]])
def test_a_driver_that_died_before_its_commit_point_is_aborted_without_a_trace(
    bucket: Bucket, conflict: str, command: list[str]
) -> None:
    before = fill(bucket, conflict)
    url = bucket.url("sales")
    died_in(JobState.OPEN, url, conflict=conflict)
    assert cli.main([*command, url]) == 0
    assert bucket.objects() == before
    assert not bucket.uploads()
