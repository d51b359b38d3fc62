"""The store that is far away, whole jobs on it, and the arithmetic that goes beyond them."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from benchmarks import latency, latency_study, page
from benchmarks.groups import measure_of
from benchmarks.latency_job import BY_NAME, SUBJECTS, play
from benchmarks.latency_plot import Curve, Plot
from benchmarks.latency_requests import Line, PhaseModel, learn
from benchmarks.latency_store import Budget, LatencyStore, Rates, Server
from benchmarks.latency_study import FAR, Sizes
from benchmarks.session import Session
from magicfs.errors import Unavailable
from magicfs.job.job import Job
from magicfs.stores.conditions import Conditions, assume
from magicfs.stores.memory.filesystem import MemoryFileSystem
from magicfs.stores.memory.store import World
from magicfs.stores.port import Store
from magicfs.stores.retrying import RetryingStore
from magicfs.testing.counting_store import CountingStore
from proofs.doubles import virtual_time

EXACT = Rates(latency_s=1.0, jitter=0, writes_s=0, reads_s=0)


def seconds(server: Server, work: Callable[[LatencyStore], Awaitable[Any]]) -> float:
    """What something takes in virtual time."""

    async def timed() -> float:
        await work(server.store())
        return asyncio.get_running_loop().time()

    return virtual_time.run(timed())


# -- the store -------------------------------------------------------------------------------------------


def test_each_request_takes_its_latency_and_others_at_once_take_no_more() -> None:
    async def work(store: LatencyStore) -> None:
        await store.put("a", b"")
        await asyncio.gather(*(store.put(f"b{n}", b"") for n in range(50)))
        await store.head("a")

    assert seconds(Server(EXACT), work) == pytest.approx(3.0)


def test_copy_takes_as_long_as_its_bytes_need_between_the_slowest_and_the_fastest() -> None:
    async def work(store: LatencyStore) -> None:
        await store.put("a", b"x")
        await store.copy("a", "b")

    found = [seconds(Server(replace(EXACT, object_mb=60.0), seed=seed), work) - 2 for seed in range(20)]
    assert min(found) >= 60 / 10
    assert max(found) <= 60 / 6
    assert len({round(one, 6) for one in found}) > 10


def test_average_copy_is_between_its_limits_and_the_mean_of_many() -> None:
    rates = replace(EXACT, object_mb=60.0)

    async def work(store: LatencyStore) -> None:
        await store.put("a", b"x")
        for number in range(1000):
            await store.copy("a", f"b{number}")

    assert (seconds(Server(rates), work) - 1001) / 1000 == pytest.approx(rates.copy_s, rel=0.02)


@pytest.mark.parametrize("page", [0, 1, 999, 1000, 1001, 2500])
def test_each_page_of_a_listing_is_a_request(page: int) -> None:
    server = Server(EXACT)

    async def work(store: LatencyStore) -> None:
        await asyncio.gather(*(store.inner.put(f"a/{n:05}", b"") for n in range(page)))
        assert [info.key async for info in store.list("a/")] == [f"a/{n:05}" for n in range(page)]

    # What is there after the last full page is known only when one more is asked for.
    assert seconds(server, work) == page // 1000 + 1 == server.tally.counts["list"]


def test_listing_shows_what_was_written_deleted_and_written_again_in_order() -> None:
    async def work(store: LatencyStore) -> None:
        for key in ("b", "a/2", "a/1", "c", "a/1"):
            await store.put(key, b"")
        await store.delete(["a/2", "c"])
        assert [info.key async for info in store.list("")] == ["a/1", "b"]
        await store.put("a/2", b"")
        assert [info.key async for info in store.list("a/")] == ["a/1", "a/2"]
        assert [one async for one in store.list_directories("")] == ["a/"]
        assert [info.key async for info in store.list("", limit=1)] == ["a/1"]

    seconds(Server(EXACT), work)


def test_budget_lets_in_its_rate_and_saves_for_a_short_time() -> None:
    budget = Budget(rate=100.0, burst_s=0.1)
    let_in = [sum(budget.take(second) for _ in range(1000)) for second in (0.0, 0.05, 10.0)]
    assert let_in == [10, 5, 10]


def test_large_request_is_let_in_and_paid_for_afterwards() -> None:
    budget = Budget(rate=100.0, burst_s=0.1)
    assert budget.take(0.0, 60)
    assert not budget.take(0.4)
    assert budget.take(0.52)


def test_what_is_too_early_is_refused_after_its_latency_and_costs_the_store_nothing() -> None:
    server = Server(replace(EXACT, writes_s=100.0, burst_s=0.1))
    refused = 0

    async def put(store: LatencyStore, number: int) -> None:
        nonlocal refused
        try:
            await store.put(f"{number}", b"")
        except Unavailable:
            refused += 1

    async def work(store: LatencyStore) -> None:
        await asyncio.gather(*(put(store, number) for number in range(25)))
        await store.head("0")  # reads have a budget of their own

    assert seconds(server, work) == 2.0
    assert refused == server.tally.refused == 15
    assert server.tally.writes == len(server.objects.world.find("bucket").objects) == 10  # type: ignore[union-attr]


def test_many_writers_get_what_the_store_lets_pass() -> None:
    server = Server(Rates(latency_s=0.1, writes_s=200.0))

    async def work(store: LatencyStore) -> None:
        patient = RetryingStore(store, share=lambda: 0.5)
        numbers = itertools.count()

        async def writer() -> None:
            while (number := next(numbers)) < 2000:
                await patient.put(f"{number}", b"")

        await asyncio.gather(*(writer() for _ in range(30)))

    taken = seconds(server, work)
    assert 2000 / 200 * 0.97 < taken < 2000 / 200 * 1.5
    assert server.tally.refused > 0


def test_bulk_delete_counts_as_many_writes_as_it_has_keys() -> None:
    server = Server(replace(EXACT, writes_s=100.0, burst_s=0.1))

    async def work(store: LatencyStore) -> None:
        await store.delete([f"{n}" for n in range(1000)])
        with pytest.raises(Unavailable):
            await store.put("a", b"")

    seconds(server, work)
    assert server.tally.writes == 1
    assert server.tally.more_keys == 999


# -- jobs ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BY_NAME)
def test_jobs_of_every_committer_publish_all_and_are_the_same_each_time(name: str) -> None:
    rates = Rates(object_mb=1.0)
    first, second = (play(BY_NAME[name], 3, 7, rates) for _ in range(2))
    assert first.commit.seconds > 0
    assert first.total_s == pytest.approx(second.total_s)
    assert first.work.tally.counts == second.work.tally.counts


class Counting(MemoryFileSystem):
    def __init__(self) -> None:
        super().__init__(world=World())
        self.world.create_bucket("bucket")
        self.counts: Counter[str] = Counter()

    def store(self, bucket: str) -> Store:
        return CountingStore(super().store(bucket), self.counts)


@pytest.mark.parametrize("tracking", ["store", "memory"])
def test_requests_are_those_of_the_public_calls(tracking: Any) -> None:
    """What is left out of the model, the thread between caller and loop, makes no request."""
    filesystem = Counting()
    assume(filesystem.store("bucket"), Conditions())
    job = Job(
        "memory://bucket/sales", mode="append", filesystem=filesystem, options={"tracking": tracking}
    ).setup()
    commits = []
    for number in range(3):
        task = job.task(number).setup()
        for file in range(4):
            task.filesystem.pipe_file(f"{task.path}/part-{file}", b"x")
        commits.append(task.commit())
    job.commit(commits)
    played = play(
        BY_NAME["magic" if tracking == "store" else "magic, memory"], 3, 12, replace(EXACT, latency_s=0.01)
    )
    counted = played.setup.tally.counts + played.work.tally.counts + played.commit.tally.counts
    counted["list"] += counted.pop("list_directories", 0)
    assert counted == filesystem.counts


# -- beyond them -----------------------------------------------------------------------------------------


def test_line_goes_through_its_three_runs() -> None:
    found = [7 + 3 * tasks + 0.5 * files for tasks, files in ((10, 1000), (20, 1000), (10, 2000))]
    line = Line.through(10, 1000, found)
    assert line == Line(pytest.approx(7), pytest.approx(3), pytest.approx(0.5))
    assert line.at(100, 100_000) == pytest.approx(7 + 300 + 50_000)


def test_phase_takes_as_long_as_its_chain_or_as_the_store_lets_it_pass() -> None:
    phase = PhaseModel(Line(a_file=1), Line(a_file=2), Line(always=10, a_file=1 / 32), Line(a_file=1 / 32))
    rates = Rates(latency_s=0.1, object_mb=0, writes_s=1000, reads_s=5000)
    assert phase.seconds(10, 3200, rates) == pytest.approx(1 + 10)
    assert phase.seconds(10, 3200, replace(rates, latency_s=0.01)) == pytest.approx(0.1 + 3.2)
    slow = replace(rates, object_mb=8.0, copy_mb_s=(8.0, 8.0))
    assert phase.seconds(10, 3200, slow) == pytest.approx(1 + 10 + 100)


@pytest.mark.sample(most=3)
@pytest.mark.slow
@pytest.mark.parametrize("name", BY_NAME)
def test_arithmetic_agrees_with_the_code_where_both_can_be_had(name: str) -> None:
    """Beyond the sizes that the lines were taken from, in whole waves of 32 requests."""
    model = learn(BY_NAME[name], 2, 128)
    # As slow as in those runs: a driver that has heard nothing of its job for 5 s looks at it again.
    rates = replace(EXACT, object_mb=8.0, copy_mb_s=(8.0, 8.0))
    told = model.predict(7, 448, rates)
    played = play(BY_NAME[name], 7, 448, rates)
    assert played.setup.seconds == pytest.approx(told.setup_s, rel=0.01)
    assert played.work.seconds == pytest.approx(told.work_s, rel=0.03)
    # Three requests one after the other: what is read of many tasks at once comes in waves, too.
    assert played.commit.seconds == pytest.approx(told.commit_s, rel=0.03, abs=3.0)
    for phase in ("work", "commit"):
        lines, tally = model.phases[phase], getattr(played, phase).tally  # type: ignore[index]
        assert tally.writes + tally.more_keys == pytest.approx(lines.writes.at(7, 448), rel=0.02)
        assert tally.reads == pytest.approx(lines.reads.at(7, 448), rel=0.02, abs=3)


# -- plots -----------------------------------------------------------------------------------------------


def test_plot_is_a_picture_with_every_name_and_no_two_on_each_other() -> None:
    curves = {f"name {n} <&>": Curve([(10, 1), (1e6, 1000 + n)], [(100, 3)]) for n in range(10)}
    root = ET.fromstring(Plot("a < b", "files", "seconds", curves).svg())
    texts = {(one.text or ""): float(one.get("y", "0")) for one in root.iter() if one.tag.endswith("text")}
    places = sorted(texts[name] for name in curves)
    assert all(after - before > 12 for before, after in itertools.pairwise(places))
    assert sum(one.tag.endswith("circle") for one in root.iter()) == 10
    assert {"a < b", "files", "seconds", "1,000"} <= texts.keys()


def test_all_committers_are_compared() -> None:
    from magicfs.committers import registry

    assert {one.committer for one in SUBJECTS} == set(registry.committers())
    assert len(SUBJECTS) == len(BY_NAME) == 10


# -- the command -----------------------------------------------------------------------------------------


SMALL = Sizes({FAR: ((2, 200),)}, (1, 100), (1000, 1_000_000))


@pytest.mark.slow
def test_comparison_has_figures_curves_and_plots_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    some = [BY_NAME["magic, memory"], BY_NAME["file v1"], BY_NAME["directory"]]
    monkeypatch.setattr(latency_study, "SUBJECTS", some)
    found = latency_study.study(SMALL)
    figures = found.figures()
    assert figures["latency_job_file_v1_s"] > 3 * figures["latency_job_magic_memory_s"] > 0
    assert figures["latency_apart"] < 0.1
    shares = {name: figures[name] for name in figures if name.startswith("latency_job_150")}
    assert shares.keys() == {"latency_job_150_memory"}
    assert 0.2 < shares["latency_job_150_memory"] < 5
    assert json.loads(json.dumps(found.curves()))["0.15"].keys() == {one.name for one in some}
    assert [run[:4] for run in found.told_runs()] == [[one.name, FAR, 2, 200] for one in some]
    assert found.plots().keys() == {"latency-commit-150", "latency-job-150", "latency-tasks-150"}
    for plot in found.plots().values():
        ET.fromstring(plot.svg())


@pytest.mark.slow
def test_groups_hand_figures_and_pictures_to_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latency_study, "SUBJECTS", [BY_NAME["stocator"]])
    monkeypatch.setattr("benchmarks.groups.latency.QUICK", SMALL)
    monkeypatch.setattr("benchmarks.groups.latency_full.QUICK", SMALL)
    monkeypatch.setattr(Session, "size", lambda *_: 100)
    session = Session(quick=True, quiet=True)
    found = {**measure_of("latency")(session), **measure_of("latency-full")(session)}
    assert {"latency_vs_limit", "throttled_vs_passed", "latency_apart", "latency_apart_full"} <= found.keys()
    assert "latency-job-150" in session.pictures
    assert "latency-job-150-full" in session.pictures
    path = tmp_path / "page.md"
    path.write_text("<!-- bench: written by the run -->\n<!-- bench: end -->\n")
    about = {"cores": 2, "cpu": "", "memory_gb": 1, "system": "", "python": "", "load": 0}
    told = {"quick": True, "remarks": {}, "machine": about, "versions": {}, "fallbacks": {}}
    told |= {"date": "", "whole_s": 1}
    page.write(path, "bench", found, told, pictures=session.pictures)
    assert "![Whole job, 150 ms a request, 100 files of 8 MB a task](page/latency-job-150.svg)" in (
        path.read_text()
    )
    ET.fromstring((tmp_path / "page" / "latency-job-150.svg").read_text())


@pytest.mark.slow
def test_code_that_is_far_from_what_is_told_fails_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latency_study, "SUBJECTS", [BY_NAME["stocator"]])
    monkeypatch.setattr(latency_study, "_APART_MOST", -1.0)
    with pytest.raises(RuntimeError, match=r"stocator, 200 files at 0\.15 s: the code took"):
        latency_study.study(SMALL)


@pytest.mark.slow
def test_rows_of_the_table_end_with_a_line_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert latency.main(["--rows", "--files", "300", "--tasks", "3", "--concurrency", "16"]) == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    for name, limit in (("latency_vs_limit", 3500), ("throttled_vs_passed", 1000)):
        parts = [told[f"{name}_{part}_s"] for part in ("before", "completes", "after")]
        assert sum(parts) == pytest.approx(told[f"{name}_s"], abs=0.01)
        assert told[name] == pytest.approx(told[f"{name}_s"] / (300 / limit), rel=0.01)
        completes = told[f"{name}_completes_s"] / (300 / limit)
        assert told[f"{name}_completes"] == pytest.approx(completes, rel=0.01)
        assert told[f"{name}_most_at_once"] == 16
