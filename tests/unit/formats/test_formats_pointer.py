from __future__ import annotations

from magicfs.formats.pointer import RUNS_KEPT, Pointer


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
