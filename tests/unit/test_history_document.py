"""What the page about the past says is true."""

from __future__ import annotations

import re
from pathlib import Path

import magicfs

PAGE = (Path(__file__).parents[2] / "docs" / "history.md").read_text()


def test_its_examples_run_one_after_the_other() -> None:
    examples = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile("\n".join(examples), "history.md", "exec"), {})
    assert len(magicfs.history("memory://bucket/sales")) == 4
