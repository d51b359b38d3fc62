"""The reference names what there is, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import magicfs

PAGE = (Path(__file__).parents[2] / "docs" / "reference.md").read_text()


@pytest.mark.parametrize("kind", [magicfs.Job, magicfs.Task, magicfs.JobReport, magicfs.Dataset])
def test_each_public_name_is_in_its_table_and_no_other(kind: type) -> None:
    section = PAGE.partition(f"\n## {kind.__name__}\n")[2].partition("\n## ")[0]
    cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    named = {name for cell in cells for name in re.findall(r"`(\w+)", cell)}
    there = {name for name in dir(kind) if not name.startswith("_")} | (
        {"id"} if kind is magicfs.Task else set()
    )
    assert named == there


def test_the_example_runs() -> None:
    [example] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(example, "reference.md", "exec"), {})
    assert magicfs.Dataset("memory://bucket/awaited").verify().ok
