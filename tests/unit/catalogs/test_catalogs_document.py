"""What the page about catalogs says is true."""

from __future__ import annotations

import re
from pathlib import Path

import magicfs

PAGE = (Path(__file__).parents[3] / "docs" / "catalogs.md").read_text()


def test_its_examples_run_one_after_the_other() -> None:
    examples = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile("\n".join(examples), "catalogs.md", "exec"), {})
    assert magicfs.Dataset("memory://bucket/sales").history()
