"""The model of jobs that rename: it holds, and each rule is needed."""

from __future__ import annotations

from dataclasses import fields

import pytest

from proofs.job_model.main import main
from proofs.job_model.renames import (
    RENAME_BREAKS,
    RENAME_SCENES,
    RenameRules,
    broken_renames,
    check_renames,
    run_renames,
)

WRONG = {
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
}


@pytest.mark.parametrize("scene", RENAME_SCENES)
def test_the_protocol_holds(scene: str) -> None:
    result = check_renames(scene, RenameRules())
    assert result.violation is None, result.trace
    claimed_by_other = {"y"} if "y" in RENAME_SCENES[scene].roles else set()
    assert result.ends == {"", "x"} | claimed_by_other, "it can be published, and discarded"


def test_every_rule_is_broken_on_purpose() -> None:
    assert set(RENAME_BREAKS) == set(WRONG) == {one.name for one in fields(RenameRules)}


@pytest.mark.sample(most=6)
@pytest.mark.parametrize("rule", RENAME_BREAKS)
def test_without_a_rule_something_goes_wrong(rule: str) -> None:
    result = broken_renames(rule)
    assert result.violation == WRONG[rule]
    assert result.trace


def test_what_is_wrong_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[str] = []
    some = {name: one for name, one in RENAME_SCENES.items() if len(one.roles) < 3}
    monkeypatch.setattr("proofs.job_model.renames.RENAME_SCENES", {**some, **CLAIMS})
    figures = run_renames(found)
    assert found == []
    assert figures["rules"] == figures["rules_broken"] == len(WRONG)
    monkeypatch.setattr("proofs.job_model.renames.RENAME_BREAKS", {"exclusive": "renames, driver"})
    assert run_renames(found)["rules_broken"] == 0
    assert found == ["exclusive can be left out, and nothing goes wrong in renames, driver"]


CLAIMS = {one: RENAME_SCENES[one] for one in RENAME_BREAKS.values()}


def test_it_is_part_of_the_model(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proofs.job_model.main.QUICK", frozenset({"append+driver"}))
    monkeypatch.setattr("proofs.job_model.main.BREAKS", {})
    monkeypatch.setattr("proofs.job_model.renames.RENAME_SCENES", CLAIMS)
    main(["--quick", "--sample", "0"])
    assert f'"renames":{{"scenes":{len(CLAIMS)},' in capsys.readouterr().out
