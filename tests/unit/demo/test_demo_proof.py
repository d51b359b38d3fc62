from __future__ import annotations

import json
from dataclasses import replace

import pytest

from examples.flights.fingerprint import Fingerprint
from examples.flights.proof import Attempts, Publication, Report
from examples.flights.readback import PublishedDataset
from examples.flights.victim import Killed

ROWS = Fingerprint(336_776, 0xA471B21160509DCA)
MAIN = Publication(
    how="spark",
    expected=ROWS,
    found=PublishedDataset(ROWS, 185),
    looks=20,
    visible_before_commit=0,
    pending_before_commit=185,
    saw_all=True,
    pending_after=0,
)
GOOD = Report(
    engine="spark",
    engine_reason="",
    server={"name": "seaweedfs", "version": "4.48", "pid": 7},
    main=MAIN,
    killed=Killed(pid=42, task=3, uploads=5),
    attempts=Attempts(((3, 0),), 1),
    also=(replace(MAIN, how="pandas"),),
    seconds=1.25,
)


def with_main(**changed: object) -> Report:
    return replace(GOOD, main=replace(MAIN, **changed))


def test_everything_proven_has_no_failures():
    assert GOOD.failures() == []
    assert GOOD.to_dict()["ok"] is True


def test_files_that_no_look_could_see_are_no_failure():
    assert with_main(pending_before_commit=184, saw_all=False).failures() == []


def test_figures_are_plain_json():
    told = json.loads(json.dumps(GOOD.to_dict()))
    assert told["killed"] == {"task": 3, "attempt": 0, "pid": 42, "signal": 9, "uploads": 5}
    assert (told["rows_in"], told["rows_out"], told["content_equal"]) == (336_776, 336_776, True)
    assert (told["killed_attempts"], told["retried_attempts"], told["files"]) == (1, 1, 185)
    assert [one["how"] for one in told["also"]] == ["pandas"]


@pytest.mark.parametrize(
    ("report", "said"),
    [
        (with_main(visible_before_commit=1), "1 files were visible before the job commit"),
        (with_main(pending_before_commit=184), "fewer than the 185 files"),
        (with_main(pending_before_commit=0, saw_all=False), "fewer than the 185 files"),
        (with_main(pending_after=2), "2 uploads are still pending"),
        (with_main(found=PublishedDataset(Fingerprint(336_775, ROWS.checksum), 185)), "336775 rows"),
        (with_main(found=PublishedDataset(Fingerprint(ROWS.rows, 1), 185)), "checksum 0000000000000001"),
        (with_main(looks=19), "looked at 19 times"),
        (replace(GOOD, killed=None), "no worker could be killed"),
        (replace(GOOD, attempts=Attempts((), 1)), "lost no attempt of task 3"),
        (replace(GOOD, attempts=Attempts(((4, 0),), 1)), "lost no attempt of task 3"),
        (replace(GOOD, attempts=Attempts(((3, 0),), 0)), "retried no task"),
        (replace(GOOD, also=(replace(MAIN, how="pandas", pending_after=1),)), "pandas: 1 uploads"),
    ],
)
def test_each_proof_that_fails_is_named_and_nothing_else(report, said):
    (failure,) = report.failures()
    assert said in failure
    assert report.to_dict()["ok"] is False
