from __future__ import annotations

import json
import sys

import pytest

from magicfs.errors import FormatError
from magicfs.formats.pointer import RUNS_KEPT, Pointer


@pytest.mark.slow
def test_moving_remembers_the_last_runs() -> None:
    pointer = Pointer(job_id="j", nonce="n", changed_ms=1, unknown={"zz": 1})
    for number in range(RUNS_KEPT + 5):
        pointer = pointer.moved(f"j{number}", f"run {number}", f"n{number}", number)
    last = RUNS_KEPT + 4
    assert (pointer.job_id, pointer.nonce, pointer.changed_ms) == (f"j{last}", f"n{last}", last)
    assert len(pointer.runs) == RUNS_KEPT
    assert pointer.runs[0] == ("run 5", "j5")
    assert pointer.runs[-1] == (f"run {last}", f"j{last}")
    assert pointer.job_of_run("run 5") == "j5"
    assert pointer.job_of_run("run 4") is None
    assert pointer.unknown == {"zz": 1}
    assert pointer.moved("x", None, "n", 1).runs == pointer.runs
    again = pointer.moved("x", "run 7", "n", 1)
    assert again.job_of_run("run 7") == "x"
    assert len(again.runs) == RUNS_KEPT


def moved(pointer: Pointer, *runs: str) -> Pointer:
    for run in runs:
        pointer = pointer.moved(f"j-{run}", run, "n", 1)
    return pointer


def test_a_pointer_knows_which_runs_it_has_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[Pointer.__module__], "RUNS_KEPT", 3)
    pointer = moved(Pointer(job_id="x", nonce="n", changed_ms=0), *"abc")
    assert not pointer.may_have_forgotten("a")
    again = Pointer.from_bytes("p", pointer.to_bytes())
    assert again == pointer, "and that it has forgotten none"
    pointer = moved(again, *"defg")
    assert [run for run, _ in pointer.runs] == ["e", "f", "g"]
    again = Pointer.from_bytes("p", pointer.to_bytes())
    assert again == pointer
    assert [run for run in "abcdefgh" if again.may_have_forgotten(run)] == ["a", "b", "c", "d"]


def test_a_pointer_with_more_runs_than_it_can_know_asks_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules[Pointer.__module__]
    monkeypatch.setattr(module, "RUNS_KEPT", 2)
    monkeypatch.setattr(module, "_FORGOTTEN_MAX", 2)
    pointer = moved(Pointer(job_id="x", nonce="n", changed_ms=0), *"abcd")
    assert not pointer.may_have_forgotten("never")
    assert moved(pointer, "e").may_have_forgotten("never")


def test_long_names_of_runs_do_not_make_a_pointer_too_large_to_read() -> None:
    long = "r" * 3_000_000
    pointer = Pointer(job_id="x", nonce="n", changed_ms=0)
    for number in range(4):
        pointer = pointer.moved("j", f"{number}{long}", "n", 1)
    assert len(pointer.runs) == 2
    assert Pointer.from_bytes("p", pointer.to_bytes()) == pointer
    assert pointer.may_have_forgotten(f"0{long}")
    assert not pointer.may_have_forgotten("never")


@pytest.mark.parametrize("found", ["AAA=", "A", "é", "AAAA AAAA"])
def test_digests_that_cannot_be_are_refused(found: str) -> None:
    document = json.loads(Pointer(job_id="x", nonce="n", changed_ms=0).to_bytes())
    raw = json.dumps(document | {"forgottenRuns": found}).encode()
    with pytest.raises(FormatError, match="forgottenRuns"):
        Pointer.from_bytes("p", raw)
