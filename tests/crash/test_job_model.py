"""The model of the job object: it holds, every rule is needed, and the shipped code does as it does."""

from __future__ import annotations

import functools
import json
from typing import Any

import pytest

from magicfs.manifests import chain
from magicfs.protocol.job_state import NEXT, JobState
from magicfs.protocol.readback import Outcome
from magicfs.stores.register import Entry, Register
from magicfs.transaction import execute, facts, publish, revert, visible
from magicfs.transaction.output import JobOutput
from magicfs.transaction.record import JobRecord, JobVersion
from proofs import job_model
from proofs.job_model import main as figures_of
from proofs.job_model.checker import Result, check
from proofs.job_model.jobs import Way
from proofs.job_model.main import BREAKS, main
from proofs.job_model.properties import LEGAL
from proofs.job_model.replay import Played, Replayer
from proofs.job_model.rules import Rules
from proofs.job_model.scenes import QUICK, SCENES
from proofs.job_model.walks import walk
from proofs.scenes.mutants import patched
from tests.sample import Some

WRONG = {
    "swap": "decided twice",
    "delete_last": "not his: old1 was deleted",
    "abort_first": "gate: _SUCCESS is there, and job A is half visible",
    "announce_first": "not serial",
    "pointer_match": "forgotten",
    "pointer_again": "chain",
    "walk_always": "chain",
    "read_back": "needless",
    "object_last": "left over: A.facts.x",
    "facts_gone_is_cleaned": "left over: A.job",
    "fence_success": "no job completed, and _SUCCESS speaks for None",
    "restore_again": "no job completed, and _SUCCESS speaks for None",
    "hide_any": "gate: _SUCCESS is there",
    "head_success": "_SUCCESS speaks for old",
    "success_first": "gate: _SUCCESS is there, and job A is half visible",
    "success_last": "_SUCCESS speaks for job A, which is committing",
    "setup_fenced": "left over: A.job",
    "sum_own_name": "chain: a manifest is missing",
    "sum_match": "chain: a manifest is missing",
    "tidy_passed": "chain: a manifest is missing",
    "adopt_looks": "chain: the pointer leads to A1, whose job is committing",
    "adopt_list_again": "chain: the pointer leads to A1, whose job is reverting",
    "below_counts": "not serial",
    "jobs_above": "not serial",
    "named_above": "not serial",
}


@functools.cache
def broken(rule: str) -> Result:
    return figures_of.broken(rule)


@pytest.mark.sample(most=12)
@pytest.mark.parametrize("name", sorted(QUICK))
def test_every_interleaving_holds(name: str) -> None:
    result = check(SCENES[name], Rules())
    assert result.violation is None, result.tell()
    assert 20 < result.states < 10_000
    assert result.finals


def test_every_rule_has_its_scene() -> None:
    assert BREAKS.keys() == WRONG.keys() == set(Rules.__dataclass_fields__)


@pytest.mark.sample(most=10)
@pytest.mark.parametrize("rule", BREAKS)
def test_no_rule_can_be_left_out(rule: str) -> None:
    result = broken(rule)
    assert result.violation is not None
    assert WRONG[rule] in result.violation
    told = result.tell().splitlines()
    assert len(told) == 1 + len(result.trace)
    assert all(line.startswith("  ") and " -> " in line for line in told[1:])


def test_the_trace_is_a_shortest_one() -> None:
    result = broken("delete_last")
    assert [step.request.verb for step in result.trace] == [
        *("get", "put", "get", "get", "list"),  # read the job, write facts, look
        *("put", "jobs", "get", "put"),  # announce, look, commit
        *("get", "delete"),
    ]


def test_the_model_moves_jobs_as_the_protocol_does() -> None:
    assert {(str(old), str(new)) for old, following in NEXT.items() for new in following} == LEGAL


# -- the same on the shipped code ----------------------------------------------------------------------


BY_RENAMES = sorted(rule for rule, scene in BREAKS.items() if not SCENES[scene].side)


def replayed(rule: str, *, numbered: bool = False, way: Way = "completes") -> list[Played]:
    """The code, led along the trace that breaks the model without a rule."""
    result = broken(rule)
    replayer = Replayer(result.scene, numbered=numbered, way=way)
    return [replayer.play(result.trace, die=die) for die in (False, True)]


@pytest.mark.sample(most=10)
@pytest.mark.parametrize("rule", sorted(BREAKS))
def test_the_code_keeps_every_rule(rule: str) -> None:
    assert [one.violation for one in replayed(rule)] == [None, None]
    assert [one.violation for one in replayed(rule, numbered=True)] == [None, None]


@pytest.mark.sample
@pytest.mark.parametrize(("way", "numbered"), [("manifest", False), ("file", True), ("copies", False)])
@pytest.mark.parametrize("rule", BY_RENAMES)
def test_the_code_keeps_every_rule_where_it_renames(rule: str, way: Way, numbered: bool) -> None:
    assert [one.violation for one in replayed(rule, numbered=numbered, way=way)] == [None, None]


@pytest.mark.parametrize("way", ["manifest", "file"])
def test_the_code_that_renames_makes_the_requests_of_the_model(way: Way) -> None:
    scene = SCENES["append+driver+rollback+late"]
    replayer, turns, unmade = Replayer(scene, way=way), 0, 0
    for trace in check(scene, Rules()).finals:
        played = replayer.play(trace)
        turns, unmade = turns + played.turns, unmade + played.unmade
    assert 0 < unmade * 3 < turns


def test_code_that_does_not_read_a_rename_back_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def failed(self: Any, item: Any) -> bool:
        _, step, error = item
        return self._failed(step, Outcome.FAILED, error)  # type: ignore[no-any-return]

    monkeypatch.setattr(visible._Renaming, "_read_back", failed)
    assert any(WRONG["read_back"] in str(one.violation) for one in replayed("read_back", way="file"))


@pytest.mark.sample
@pytest.mark.parametrize("way", ["completes", "file"])
@pytest.mark.parametrize("name", ["append+driver+rollback+late", "overwrite and overwrite"])
def test_the_code_reaches_every_end(name: str, way: Way) -> None:
    replayer, ends = Replayer(SCENES[name], way=way), set()
    for trace in check(SCENES[name], Rules()).finals:
        played = replayer.play(trace)
        assert played.violation is None
        assert played.unmade * (4 if way == "completes" else 2) < played.turns
        ends.add(tuple(sorted(played.states.items())))
    assert len(ends) > 1


def test_interleavings_drawn_by_chance(some: Some) -> None:
    for name in some(sorted(SCENES), 12):
        for numbered in (False, True):
            replayer = Replayer(SCENES[name], numbered=numbered)
            trace, _, die = walk(SCENES[name], Rules(), f"a sample {numbered}")
            played = replayer.play(trace, die=die)
            assert played.violation is None, (name, numbered)


def test_a_replay_is_the_same_each_time() -> None:
    scene = SCENES["overwrite and overwrite+rollback"]
    trace, _, die = walk(scene, Rules(), "same")
    assert Replayer(scene).play(trace, die=die) == Replayer(scene).play(trace, die=die)


def test_code_that_works_under_the_version_it_created_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    move = JobRecord.move

    async def unfenced(self: JobRecord, version: JobVersion, state: JobState, **changes: Any) -> JobVersion:
        if version.job.state is state is JobState.OPEN and changes.keys() == {"driver"}:
            return version
        return await move(self, version, state, **changes)

    monkeypatch.setattr(JobRecord, "move", unfenced)
    assert any(WRONG["setup_fenced"] in str(one.violation) for one in replayed("setup_fenced"))


async def _swap_blindly(self: Register, entry: Entry, body: bytes) -> Entry:
    info = await self._store.put(self.key, body)
    return Entry(self.key, body, info.etag, entry.number)


def test_code_without_compare_and_swap_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Register, "swap", _swap_blindly)
    for rule in ("swap", "pointer_match"):
        assert any(WRONG[rule] in str(one.violation) for one in replayed(rule)), rule


def test_code_that_deletes_too_early_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    hide = publish.hide_success

    async def delete_first(
        engine: Any, context: Any, record: JobRecord, version: JobVersion, etag: str | None
    ) -> JobVersion:
        old = await facts.read_deletions(engine, context, version.job)
        check = functools.partial(record.confirm, version)
        await publish.delete_old(engine, record.conditions, old, JobOutput(), check)
        return await hide(engine, context, record, version, etag)

    monkeypatch.setattr(publish, "hide_success", delete_first)
    assert any(WRONG["delete_last"] in str(one.violation) for one in replayed("delete_last"))


def test_code_that_does_not_fence_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def put_back(engine: Any, context: Any, _conditions: Any, _etag: str, raw: bytes) -> None:
        await engine.store.put(context.layout.success_key, raw)

    monkeypatch.setattr(revert, "_restore_success", put_back)
    assert any(WRONG["fence_success"] in str(one.violation) for one in replayed("fence_success"))


def test_code_that_forgets_to_look_for_itself_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(*_: Any) -> bool:
        return False

    monkeypatch.setattr(chain, "_is_linked", never)
    assert any(WRONG["walk_always"] in str(one.violation) for one in replayed("walk_always"))


def test_code_that_leaves_the_uploads_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    remove = JobRecord.remove

    async def end_first(self: execute.Executor, version: JobVersion, **_: Any) -> list[Any]:
        await remove(self.record, version)
        return []

    monkeypatch.setattr(execute.Executor, "_end", end_first)
    assert any("left over" in str(one.violation) for one in replayed("object_last"))


FAR = {
    "tidy_passed": (
        "magicfs.past.compact",
        'if dash and keep.get(f"{stem}-", job) != job:',
        "if job != linked[0].job_id:",
    ),
    "adopt_looks": ("magicfs.operate.adopt", "await refuse_unfinished(engine, location)", "pass"),
    "adopt_list_again": (
        "magicfs.operate.adopt",
        "there = await listed_files(store, location)",
        "there = found.files",
    ),
    "below_counts": (
        "magicfs.transaction.others",
        "look = _Look(engine, context, partitions)",
        "return InTheWay()",
    ),
    "jobs_above": (
        "magicfs.transaction.others",
        "if whatever or (changes and reaches(directory, one.scope, destination, self._partitions)):",
        "if whatever:",
    ),
    "named_above": ("magicfs.transaction.others", "await self._dataset_above(parent)", "pass"),
}
"""Code without the rules of maintenance and of other destinations."""


@pytest.mark.sample(most=4)
@pytest.mark.parametrize("rule", FAR)
def test_code_without_a_rule_of_the_other_sides_is_noticed(rule: str) -> None:
    assert [one.violation for one in replayed(rule)] == [None, None]
    with patched(*FAR[rule]):
        assert any(one.violation for one in replayed(rule))


# -- its figures ---------------------------------------------------------------------------------------
@pytest.mark.nightly
def test_figures(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    far = {"append+driver+compact", "append around append"}
    monkeypatch.setattr("proofs.job_model.main.QUICK", {"append+driver", "overwrite+driver"} | far)
    rules = ("delete_last", "sum_match", "jobs_above")
    monkeypatch.setattr("proofs.job_model.main.BREAKS", {rule: BREAKS[rule] for rule in rules})
    figures = job_model.run(0, 1)
    assert figures["scenes"] == 4
    assert all(of["settings"] == of["mutants"] == 1 < of["scenes"] for of in figures["sides"].values())
    assert figures["states"] > 40
    assert figures["replayed"] == figures["traces"] > figures["renamed"] > 4
    assert (figures["rules"], figures["rules_broken"], figures["violations"]) == (3, 3, 0)
    assert main(["--quick", "--sample", "3"]) == 0
    printed = capsys.readouterr().out.splitlines()
    monkeypatch.setattr("proofs.job_model.main.QUICK", {"append+driver"} | far - {"append around append"})
    assert main(["--quick", "--sample", "0"]) == 1, "nothing of other destinations was checked"
    assert json.loads(printed[-1]).keys() >= {"states", "transitions", "traces", "replayed", "violations"}
