"""The reference names what there is, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import magicfs

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference.md").read_text()


@pytest.mark.parametrize("kind", [magicfs.Job, magicfs.Dataset])
def test_each_public_name_is_in_its_table_and_no_other(kind: type) -> None:
    section = PAGE.partition(f"\n## {kind.__name__}\n")[2].partition("\n## ")[0]
    cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    named = {name for cell in cells for name in re.findall(r"`(\w+)", cell)}
    assert named == {name for name in dir(kind) if not name.startswith("_")}


@pytest.mark.parametrize("kind", [magicfs.Task, magicfs.JobReport])
def test_the_others_have_a_page_from_their_docstrings(kind: type) -> None:
    api = "".join(page.read_text() for page in (ROOT / "docs" / "api").glob("*.md"))
    assert f"::: {kind.__module__}" in api


def test_the_example_runs() -> None:
    [example] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(example, "reference.md", "exec"), {})
    assert magicfs.Dataset("memory://bucket/awaited").verify().ok
