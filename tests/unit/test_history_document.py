"""What the page about the past says is true."""

from __future__ import annotations

import re
from pathlib import Path
from uuid import uuid4

import magicfs

PAGE = (Path(__file__).parents[2] / "docs" / "history.md").read_text()


def test_its_examples_run_one_after_the_other() -> None:
    examples = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    bucket = uuid4().hex  # other pages write to the one that is named
    code = "\n".join(examples).replace("memory://bucket/", f"memory://{bucket}/")
    exec(compile(code, "history.md", "exec"), {})
    assert len(magicfs.Dataset(f"memory://{bucket}/sales").history()) == 4
