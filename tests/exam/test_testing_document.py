"""What docs/testing.md shows: the exam of a store of one's own, and a job on it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import magicfs.testing

PAGE = (Path(__file__).parents[2] / "docs" / "testing.md").read_text()

_exam, _job = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
_shown: dict[str, Any] = {"__name__": __name__}
exec(compile(_exam, "docs/testing.md", "exec"), _shown)

# Collected here, so that all of its tests run.
TestBottleStore = _shown["TestBottleStore"]


def test_exam_of_a_store_takes_about_twenty_lines() -> None:
    lines = _exam[_exam.index("class TestBottleStore") :].split("\n")
    assert len([line for line in lines if line.strip()]) <= 20


def test_job_runs_on_a_filesystem_that_brings_its_store() -> None:
    shown = dict(_shown)
    exec(compile(_job, "docs/testing.md", "exec"), shown)
    assert (shown["job"].report.committer, shown["job"].report.files) == ("magic", 1)


def test_tools_that_the_page_names_are_there() -> None:
    directory = Path(magicfs.testing.__file__).parent
    table = PAGE.partition("## The other tools")[2]
    named = set(re.findall(r"`(\w+)`", table))
    for name in named:
        assert (directory / f"{name}.py").is_file(), name
