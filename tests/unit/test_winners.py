"""Which committed attempts a job publishes, and what it refuses."""

from __future__ import annotations

import random

import pytest

from magicfs.errors import CommitFailed, ProtocolViolation
from magicfs.protocol.ids import AttemptId, JobId, TaskId
from magicfs.protocol.winners import Attempt, KeyCheck, StoredSet, check_attempts, last_committed

JOB = JobId("job")


def attempt(task: str, attempt: str, job: str = "job") -> Attempt:
    return Attempt(JobId(job), TaskId(task), AttemptId(attempt))


def stored(key: str, task: str, modified: float) -> StoredSet:
    return StoredSet(key, TaskId(task), modified)


def test_one_attempt_of_each_task_is_accepted() -> None:
    check_attempts(JOB, [attempt("0", "a"), attempt("1", "b")])


def test_no_attempt_at_all_is_accepted() -> None:
    check_attempts(JOB, [])


def test_attempt_of_another_job_is_refused_by_name() -> None:
    with pytest.raises(ProtocolViolation, match="task 1 was committed for job other, not job"):
        check_attempts(JOB, [attempt("0", "a"), attempt("1", "b", job="other")])


def test_one_attempt_twice_is_refused() -> None:
    with pytest.raises(ProtocolViolation, match="task 0 was committed twice; pass the one commit"):
        check_attempts(JOB, [attempt("0", "a"), attempt("0", "a")])


def test_two_attempts_of_one_task_are_refused_by_name() -> None:
    with pytest.raises(ProtocolViolation, match="task 0 was committed by two attempts, a and b"):
        check_attempts(JOB, [attempt("0", "a"), attempt("1", "c"), attempt("0", "b")])


def test_last_written_set_of_each_task_counts_in_any_order_of_listing() -> None:
    sets = [
        stored("sets/a", "0", 5.0),
        stored("sets/b", "0", 6.0),
        stored("sets/c", "0", 4.0),
        stored("sets/d", "1", 1.0),
    ]
    for seed in range(10):
        random.Random(seed).shuffle(sets)
        assert [one.key for one in last_committed(sets)] == ["sets/b", "sets/d"]


def test_sets_of_one_second_are_chosen_among_by_their_keys() -> None:
    sets = [stored("sets/a", "0", 5.0), stored("sets/b", "0", 5.0)]
    assert last_committed(sets) == last_committed(reversed(sets)) == [sets[1]]


def test_no_sets_give_no_winners() -> None:
    assert last_committed([]) == []


@pytest.mark.parametrize(
    ("bucket", "key"),
    [
        ("bucket", "dataset10/part-0"),
        ("bucket", "dataset1"),
        ("bucket", "dataset1/"),
        ("bucket", "other/dataset1/part-0"),
        ("bucket", ""),
        ("other", "dataset1/part-0"),
    ],
)
def test_key_outside_the_destination_is_refused_by_name(bucket: str, key: str) -> None:
    with pytest.raises(CommitFailed, match="is outside bucket/dataset1; nothing was published") as caught:
        KeyCheck("bucket", "dataset1").add([(bucket, key)], "set of task 7")
    assert caught.value.failed == (key,)
    assert "set of task 7" in str(caught.value)


def test_key_of_two_tasks_is_refused_by_name() -> None:
    check = KeyCheck("bucket", "dataset1")
    keys = {"first": "dataset1/ü", "decomposed, so another key": "dataset1/u\u0308", "second": "dataset1/ü"}
    for source, key in keys.items():
        check.add([("bucket", key)], source)
    with pytest.raises(CommitFailed, match=r"ü is written by two tasks \(second is the second\)"):
        check.finish(keys.items)


def test_whole_bucket_takes_every_key() -> None:
    check = KeyCheck("bucket", "")
    for key in ("a", "b/c", "__x"):
        check.add([("bucket", key)], "set")
