"""What ``tox run -e hadoop`` is made of, without Hadoop: its cases, its points, its table, and its skip."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.hadoop_jars import MissingTool, Unreachable
from proofs.hadoop import conflicts, main
from proofs.hadoop.crossings import CASES
from proofs.hadoop.kills import points

PAGE = Path(__file__).parents[2] / "docs" / "hadoop.md"


def test_every_crossing_has_cases_and_conflict_modes_have_eighty() -> None:
    assert all(CASES[letter] for letter in "abcde")
    assert "_spark_killed_after_five_of_sixteen_completes" in [case.__name__ for case in CASES["a"]]
    names = [case.name for case in conflicts.CASES]
    assert len(names) == len(set(names)) >= 80
    assert {case.theirs for case in conflicts.CASES} == {"fail", "append", "replace"}


def test_table_of_the_page_is_that_of_the_comparison() -> None:
    assert conflicts.documented(PAGE.read_text(encoding="utf-8")) == list(conflicts.DIFFERENCES)


def test_table_ends_with_its_section() -> None:
    text = (
        "## Differences of modes\n\n| difference | why |\n| --- | --- |\n| one | so |\n"
        "| two | so |\n"
        "## Next\n\n| a | b |\n| --- | --- |\n| three | so |\n"
    )
    assert conflicts.documented(text) == ["one", "two"]
    assert conflicts.documented("## Next\n") == []


def test_jobs_are_killed_before_each_request_or_at_least_at_each_complete() -> None:
    operations = ["PutObject"] * 9 + ["CompleteMultipartUpload"] * 4 + ["PutObject", "DeleteObjects"]
    assert points(operations, every=True) == list(range(16))
    assert {9, 10, 11, 12, 13, 14} <= set(points(operations, every=False))


@pytest.mark.parametrize(
    ("ci", "problem", "status"), [("true", Unreachable, 2), ("", Unreachable, 0), ("", MissingTool, 2)]
)
def test_what_cannot_be_fetched_is_told_and_fails_in_ci(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    ci: str,
    problem: type[MissingTool],
    status: int,
) -> None:
    def fail(*_: object) -> None:
        raise problem("Maven has not fetched the jars\nCould not transfer")

    monkeypatch.setenv("CI", ci)
    monkeypatch.setattr(main, "require_java", fail)
    assert main.main(["--quick"]) == status
    said = capsys.readouterr()
    assert json.loads(said.out.splitlines()[-1]) == {"skipped": "Maven has not fetched the jars"}
    assert "Could not transfer" in said.err
