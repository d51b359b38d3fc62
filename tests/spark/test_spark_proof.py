"""The proof's own arithmetic, and one short run of all of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from uuid import uuid4

import pytest

from magicfs.testing.faults import RequestSeen
from proofs.doubles.servers import Server
from proofs.spark_proof import marked, plans
from proofs.spark_proof.figures import PARTS, Goal, summary
from proofs.spark_proof.orders import BATCH_ROWS, Order, batch_rows, half_batches, rows_wrong
from proofs.spark_proof.plans import Phase, Profile
from proofs.spark_proof.watching import profile_of
from proofs.spark_proof.witness import Judge, Lane, Witness

PROFILE = Profile(setup=10, tasks=40, total=70)


def goal(*parts: str, kills: int = 1) -> Goal:
    return Goal(parts, kills, kills, kills, quick=True, server="ministack", seed=7)


def test_rows_are_counted_as_each_mode_leaves_them() -> None:
    old = Counter({(1, 1): 1, (2, 2): 1, (3, 0): 1})
    append, overwrite = Order(4, "write", "append", rows=3), Order(4, "write", "overwrite", rows=3)
    assert append.new() == Counter({(4_000_000, 1): 1, (4_000_001, 2): 1, (4_000_002, 0): 1})
    assert append.after(old) == old + append.new()
    assert overwrite.after(old) == overwrite.new()
    partition = Order(4, "write", "overwrite_partitions", rows=2)
    assert partition.after(old) == Counter({(2, 2): 1, (3, 0): 1, (4_000_000, 1): 1, (4_000_001, 1): 1})
    assert Order.from_dict(json.loads(json.dumps(partition.to_dict()))) == partition


def test_rows_that_are_missing_doubled_and_foreign_are_wrong() -> None:
    expected = batch_rows(0)
    assert rows_wrong(expected, batch_rows(0)) == 0
    seen = expected.copy()
    seen[0, 0] -= 1
    seen[1, 1] += 1
    seen[10**9, 0] += 1
    assert rows_wrong(+seen, expected) == 3


def test_half_a_batch_is_told_from_a_whole_one() -> None:
    whole = batch_rows(0) + batch_rows(7)
    assert half_batches(whole) == 0
    assert half_batches(Counter()) == 0
    assert half_batches(whole - Counter([(7 * BATCH_ROWS, 7 * BATCH_ROWS % 3)])) == 1
    assert half_batches(whole + batch_rows(7)) == BATCH_ROWS


def test_plans_can_be_repeated_and_meet_every_route_mode_phase_and_target() -> None:
    drivers = [plans.driver_plan(1, number) for number in range(20)]
    assert drivers == [plans.driver_plan(1, number) for number in range(20)]
    assert drivers != [plans.driver_plan(2, number) for number in range(20)]
    assert {(one.order.route, one.order.mode) for one in drivers} == {
        (route, mode)
        for route in ("format", "write")
        for mode in ("append", "overwrite", "overwrite_partitions")
    }
    assert Counter(one.phase for one in drivers) == {
        Phase.COMMIT: 10,
        Phase.TASKS: 6,
        Phase.AFTER: 2,
        Phase.SETUP: 2,
    }
    assert {(one.phase, one.target) for one in drivers} >= {
        (phase, target) for phase in (Phase.COMMIT, Phase.TASKS) for target in ("jvm", "all")
    }
    executors = [plans.executor_plan(1, number) for number in range(50)]
    assert len({one.moment for one in executors}) == 50
    assert all(0 < one.moment < 1 and 0 <= one.victim < 1 for one in executors)
    streams = [plans.stream_plan(1, number, 3) for number in range(20)]
    assert {(one.route, one.target) for one in streams} == {
        (route, target) for route in ("format", "write") for target in ("jvm", "all")
    }


@pytest.mark.parametrize(
    ("phase", "first", "last"), [(Phase.SETUP, 1, 10), (Phase.TASKS, 11, 40), (Phase.COMMIT, 41, 70)]
)
def test_a_phase_is_met_from_its_first_to_its_last_request(phase: Phase, first: int, last: int) -> None:
    order = Order(0, "write", "append")
    moments = [plans.DriverPlan(order, phase, moment, "jvm", recover=True) for moment in (0.0, 1.0)]
    assert [one.request(PROFILE) for one in moments] == [first, last]
    after = plans.DriverPlan(order, Phase.AFTER, 0.5, "jvm", recover=True)
    assert after.request(PROFILE) is None


def test_phases_are_told_from_requests() -> None:
    def request(operation: str, path: str) -> RequestSeen:
        return RequestSeen(operation, "PUT", path, "", 200, None)

    requests = [
        request("CreateMultipartUpload", "/b/d/__magic_job-1/probe-1"),
        request("PutObject", "/b/d/__magic_job-1/job.json"),
        request("CreateMultipartUpload", "/b/d/p=1/part-00000"),
        request("UploadPart", "/b/d/p=1/part-00000"),
        request("CompleteMultipartUpload", "/b/d/p=1/part-00000"),
    ]
    assert profile_of(requests) == Profile(setup=2, tasks=4, total=5)
    with pytest.raises(ValueError, match="no file was uploaded"):
        profile_of(requests[:2])


def test_figures_of_parts_are_added_up_and_nothing_wrong_is_hidden() -> None:
    clean = {"rows_wrong": 0, "pending_after": 0, "work_after": 0, "troubles": 0}
    found = [clean | {"executor_kills": 1}, clean | {"driver_kills": 1}, clean | {"stream_restarts": 1}]
    figures = summary(found, goal("executors", "drivers", "streams"), 1.0)
    assert figures["ok"] is True
    assert figures["ratio_s3"] is None
    assert [figures[name] for name in ("executor_kills", "driver_kills", "stream_restarts")] == [1, 1, 1]
    for name in clean:
        wrong = [found[0], found[1] | {name: 2}, found[2] | {name: 1}]
        figures = summary(wrong, goal("executors", "drivers", "streams"), 1.0)
        assert (figures["ok"], figures[name]) == (False, 3)
    assert summary(found, goal("executors", kills=2), 1.0)["ok"] is False
    assert summary([{"troubles": 1}], goal("connect"), 1.0)["ok"] is False


def test_processes_are_found_by_their_mark_and_by_their_parent() -> None:
    mark = uuid4().hex
    environment = {**os.environ, marked.VARIABLE: mark}
    child = subprocess.Popen(
        [sys.executable, "-c", "print(flush=True); input()", "a-word"],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert child.stdout is not None
        child.stdout.readline()
        assert marked.marked(mark) == [child.pid]
        assert marked.children(os.getpid(), "a-word") == [child.pid]
        assert marked.wait_for_end(mark, 0.1) == [child.pid]
        marked.kill([child.pid])
        child.wait()
        marked.kill([child.pid])
        assert marked.wait_for_end(mark, 30) == []
        assert marked.children(os.getpid(), "a-word") == []
    finally:
        child.kill()
        child.communicate()


def test_the_judge_sees_what_is_wrong(ministack: Server, bucket_factory: object) -> None:
    assert callable(bucket_factory)
    bucket = bucket_factory(ministack)
    lane = Lane(bucket, "d", rows=Counter({(1, 1): 1}))
    said: list[str] = []
    judge = Judge(Witness(ministack), said.append)
    judge.rows(lane, "test", lane.rows)
    assert judge.figures["rows_wrong"] == 1
    judge.rows(lane, "test", lane.rows, Counter())
    assert judge.figures["rows_wrong"] == 1
    client = ministack.s3_client()
    client.create_multipart_upload(Bucket=bucket, Key="d/p=1/x")
    client.put_object(Bucket=bucket, Key="d/__magic_job-1/job.json", Body=b"{}")
    judge.leftovers(lane, "test")
    assert (judge.figures["pending_after"], judge.figures["work_after"]) == (1, 1)
    assert judge.figures["troubles"] == 3
    assert sum(one.startswith("WRONG: ") for one in said) == 3
    assert said[-1] == "d/__magic_job-1/job.json says: b'{}'"


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_a_quick_run_of_everything_is_clean() -> None:
    command = [sys.executable, "-m", "proofs.spark_proof", "--quick"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-5000:]
    figures = json.loads(done.stdout.splitlines()[-1])
    assert figures["ok"] is True
    counts = [figures[name] for name in ("executor_kills", "driver_kills", "stream_restarts")]
    assert counts == [4, 2, 2]
    assert figures["rows_wrong"] == figures["pending_after"] == figures["troubles"] == 0
    assert figures["classic_writes"] == figures["connect_writes"] > 0
    assert figures["speculation_losers"] == 2
    ratios = ("ratio_2m_rows", "ratio_200_partitions", "ratio_s3")
    assert all(figures[name] > 0 for name in ratios)
    assert (figures["demo_lines"], figures["demo_rows"]) == (10, 336_776)
    assert all(f"seconds_{part}" in figures for part in PARTS)
