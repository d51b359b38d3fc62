"""The model of quarantine and acceptance: it holds, and each rule is needed."""

from __future__ import annotations

from dataclasses import fields

import pytest

from proofs.job_model.audits import (
    AUDIT_BREAKS,
    AUDIT_SCENES,
    AuditRules,
    broken_audit,
    check_audit,
    run_audits,
)
from proofs.job_model.main import main

WRONG = {
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
}
OLD, JUDGED, AGAIN = frozenset({"old"}), frozenset({"judged"}), frozenset({"run again"})


@pytest.mark.parametrize("scene", AUDIT_SCENES)
def test_the_protocol_holds(scene: str) -> None:
    result = check_audit(scene, AuditRules())
    assert result.violation is None, result.trace
    assert frozenset({OLD, JUDGED}) in result.ends, "a job that is held can be accepted, and discarded"
    assert frozenset({OLD}) in result.ends, "one that nobody has judged shows nothing"
    accepted = any(role.startswith("accept") for role in AUDIT_SCENES[scene])
    assert accepted == (frozenset({JUDGED}) in result.ends)
    assert ("rerun" in AUDIT_SCENES[scene]) == (frozenset({AGAIN}) in result.ends)


def test_every_rule_is_broken_on_purpose() -> None:
    assert set(AUDIT_BREAKS) == set(WRONG) == {one.name for one in fields(AuditRules)}


@pytest.mark.sample(most=6)
@pytest.mark.parametrize("rule", AUDIT_BREAKS)
def test_without_a_rule_something_goes_wrong(rule: str) -> None:
    result = broken_audit(rule)
    assert result.violation == WRONG[rule]
    assert result.trace or rule == "accept_held"


def test_what_is_wrong_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[str] = []
    figures = run_audits(found)
    assert found == []
    assert figures["rules"] == figures["rules_broken"] == len(WRONG)
    assert figures["scenes"] == len(AUDIT_SCENES)
    monkeypatch.setattr("proofs.job_model.audits.AUDIT_BREAKS", {"own_token": "judge"})
    assert run_audits(found)["rules_broken"] == 0
    assert found == ["own_token can be left out, and nothing goes wrong in judge"]


def test_it_is_part_of_the_model(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proofs.job_model.main.QUICK", frozenset({"append+driver"}))
    monkeypatch.setattr("proofs.job_model.main.BREAKS", {})
    main(["--quick", "--sample", "0"])
    assert '"audits":{"scenes":14,' in capsys.readouterr().out
