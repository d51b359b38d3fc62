"""The models beside that of the job object: each holds, and each rule of each is needed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, replace

import pytest

from proofs.job_model.audits import AUDITS
from proofs.job_model.explore import Explored, Model
from proofs.job_model.main import main
from proofs.job_model.past import PAST
from proofs.job_model.renames import RENAMES

MODELS = {"audits": AUDITS, "past": PAST, "renames": RENAMES}
WRONG: Mapping[str, Mapping[str, str]] = {
    "audits": {
        "judge_first": "readers see a job that nobody has accepted",
        "facts_first": "a job that is held cannot be accepted",
        "hold": "readers see a job that nobody has accepted",
        "ask_token": "readers see ['judged', 'late'], which nobody has judged",
        "own_token": "readers see ['judged', 'late'], which nobody has judged",
        "accept_judged": "a job that is held cannot be accepted",
        "accept_held": "a job was published without its files",
        "swap": "readers miss files of a job that was discarded",
        "leave": "a recovery has touched a job that is held",
        "end_of_run": "one run is published twice",
        "look_at_run": "one run is published twice",
        "keep_said": "readers see a job that nobody has accepted",
        "remember": "readers see a job that nobody has accepted",
        "unjudged_facts": "a job was published without its files",
    },
    "past": {
        "mark_first": "readers miss ['old']",
        "look_for_rollbacks": "readers miss ['old']",
        "look_at_shown": "readers miss ['old']",
        "look_again": "readers miss ['old']",
        "mark_lasts": "['old'] is left",
        "mark_matches": "readers miss ['new']",
        "see_mark": "readers miss ['old']",
        "announce_first": "readers miss ['old']",
        "pointer_again": "readers miss ['old']",
        "look_whether_there": "readers miss ['old']",
        "leave_kept": "a file is gone before its time",
        "link_keeps": "['held'] is left",
        "same_files": "readers see rows again that another job has replaced",
        "leave_added": "['added'] is left",
        "delete_named": "readers miss ['added']",
        "copy_first": "readers miss ['copied']",
    },
    "renames": {
        "swap": "a job has begun to commit, and file 1 is gone",
        "read_back": "a job is taken back, and nobody had asked for that",
        "replaced_forward": "the destination changed without a job that was committed",
        "copies_forward": "the destination changed without a job that was committed",
        "sources_first": "the destination changed without a job that was committed",
        "work_first": "a file is back that a later job has replaced",
        "into_directory": "a task was told that it has committed, and its job had ended",
        "exclusive": "two attempts of one task are visible",
        "found_counts": "a job has begun to commit, and file 1 is gone",
        "moves_rest": "file 1 of a published job is not there",
    },
}
OLD, JUDGED, AGAIN = frozenset({"old"}), frozenset({"judged"}), frozenset({"run again"})


@pytest.mark.parametrize(("name", "scene"), [(name, one) for name in MODELS for one in MODELS[name].scenes])
def test_the_protocol_holds(name: str, scene: str) -> None:
    result = MODELS[name].check(scene)
    assert result.violation is None, result.trace
    {"audits": ends_of_audits, "past": ends_of_past, "renames": ends_of_renames}[name](scene, result)


def ends_of_audits(scene: str, result: Explored) -> None:
    assert frozenset({OLD, JUDGED}) in result.ends, "a job that is held can be accepted, and discarded"
    assert frozenset({OLD}) in result.ends, "one that nobody has judged shows nothing"
    accepted = any(role.startswith("accept") for role in AUDITS.scenes[scene])
    assert accepted == (frozenset({JUDGED}) in result.ends)
    assert ("rerun" in AUDITS.scenes[scene]) == (frozenset({AGAIN}) in result.ends)


def ends_of_past(scene: str, result: Explored) -> None:
    assert result.ends >= {frozenset({"new"})}, "whoever dies early has changed nothing"
    for role, shown in (("rollback", "old"), ("copy", "copied")):
        assert (role in PAST.scenes[scene]) == (frozenset({shown}) in result.ends)


def ends_of_renames(scene: str, result: Explored) -> None:
    claimed_by_other = {"y"} if "y" in RENAMES.scenes[scene].roles else set()
    assert result.ends == {"", "x"} | claimed_by_other, "it can be published, and discarded"


@pytest.mark.parametrize("name", MODELS)
def test_every_rule_is_broken_on_purpose(name: str) -> None:
    model = MODELS[name]
    assert set(model.breaks) == set(WRONG[name]) == {one.name for one in fields(model.rules)}


@pytest.mark.parametrize(("name", "rule"), [(name, rule) for name in WRONG for rule in WRONG[name]])
def test_without_a_rule_something_goes_wrong(name: str, rule: str) -> None:
    result = MODELS[name].broken(rule)
    assert result.violation is not None
    assert result.violation.startswith(WRONG[name][rule])
    assert result.trace or rule == "accept_held"


def small(model: Model, rule: str, scene: str) -> Model:
    """One rule of it, left out in one scene."""
    return replace(model, scenes={scene: model.scenes[scene]}, breaks={rule: scene})


def test_what_is_wrong_is_told() -> None:
    found: list[str] = []
    figures = small(AUDITS, "judge_first", "judge").run(found)
    assert found == []
    assert figures == {"scenes": 1, "states": 3, "transitions": 2, "rules": 1, "rules_broken": 1}
    assert small(AUDITS, "own_token", "judge").run(found)["rules_broken"] == 0
    assert found.pop() == "own_token can be left out, and nothing goes wrong in judge"
    wrong = replace(AUDITS, rules=replace(AUDITS.rules, judge_first=False))
    small(wrong, "judge_first", "judge").run(found)
    trace = ["driver 0: driver-read", "driver 0: commit-point"]
    assert found == [f"judge: readers see a job that nobody has accepted after {trace}"]


def test_they_are_part_of_the_model(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proofs.job_model.main.QUICK", frozenset({"append+driver"}))
    monkeypatch.setattr("proofs.job_model.main.BREAKS", {})
    for name, model in MODELS.items():
        few = small(model, *next(iter(model.breaks.items())))
        monkeypatch.setattr(f"proofs.job_model.main.{name.upper()}", few)
    main(["--quick", "--sample", "0"])
    figures = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert [figures[name]["rules_broken"] for name in MODELS] == [1, 1, 1]
