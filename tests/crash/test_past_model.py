"""The model of rollback and expire: it holds, and each rule is needed."""

from __future__ import annotations

from dataclasses import fields

import pytest

from proofs.job_model.main import main
from proofs.job_model.past import (
    PAST_BREAKS,
    PAST_SCENES,
    PastRules,
    broken_past,
    check_past,
    run_past,
)

WRONG = {
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
}


@pytest.mark.parametrize("scene", PAST_SCENES)
def test_the_protocol_holds(scene: str) -> None:
    result = check_past(scene, PastRules())
    assert result.violation is None, result.trace
    assert result.ends >= {frozenset({"new"})}, "whoever dies early has changed nothing"
    for role, shown in (("rollback", "old"), ("copy", "copied")):
        assert (role in PAST_SCENES[scene]) == (frozenset({shown}) in result.ends)


def test_every_rule_is_broken_on_purpose() -> None:
    assert set(PAST_BREAKS) == set(WRONG) == {one.name for one in fields(PastRules)}


@pytest.mark.sample(most=6)
@pytest.mark.parametrize("rule", PAST_BREAKS)
def test_without_a_rule_something_goes_wrong(rule: str) -> None:
    result = broken_past(rule)
    assert result.violation is not None
    assert result.violation.startswith(WRONG[rule])
    assert result.trace


def test_what_is_wrong_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[str] = []
    figures = run_past(found)
    assert found == []
    assert figures["rules"] == figures["rules_broken"] == len(WRONG)
    assert figures["scenes"] == len(PAST_SCENES)
    monkeypatch.setattr("proofs.job_model.past.PAST_BREAKS", {"mark_first": "expire"})
    assert run_past(found)["rules_broken"] == 0
    assert found == ["mark_first can be left out, and nothing goes wrong in expire"]


def test_it_is_part_of_the_model(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proofs.job_model.main.QUICK", frozenset({"append+driver"}))
    monkeypatch.setattr("proofs.job_model.main.BREAKS", {})
    main(["--quick", "--sample", "0"])
    assert '"past":{"scenes":15,' in capsys.readouterr().out
