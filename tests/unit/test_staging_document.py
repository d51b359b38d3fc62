"""What docs/staging-committers.md shows runs."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from magicfs.committers.registry import committers
from magicfs.committers.staging.cluster import ClusterLayout
from magicfs.protocol.ids import attempt_id, task_id

TEXT = (Path(__file__).parents[2] / "docs" / "staging-committers.md").read_text(encoding="utf-8")


def test_every_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    examples = re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)
    assert examples
    for code in examples:
        exec(compile(code, "docs/staging-committers.md", "exec"), {})
    assert list((tmp_path / f"magicfs-{os.geteuid()}").iterdir()) == []


def test_modes_are_those_of_the_committers() -> None:
    rows = {row.split("|")[1].strip(" `"): row for row in TEXT.splitlines() if row.startswith("| ")}
    assert {"error", "append"} <= rows.keys()
    assert set(committers()["directory"].modes) == {"error", "append", "overwrite"}
    assert set(committers()["partitioned"].modes) == {"error", "append", "overwrite_partitions"}
    assert "`overwrite`:" in rows["replacing"].split("|")[2]
    assert "`overwrite_partitions`:" in rows["replacing"].split("|")[3]


def test_layout_of_the_cluster_is_as_told() -> None:
    task = task_id(0)
    layout = ClusterLayout("<user>", "<job>")
    attempt = attempt_id(task, "a")
    for path in (layout.own_set(0, attempt, task), layout.committed(0, task)):
        told = path.replace("/0/", "/<N>/").replace(attempt, "<attempt>").replace(task, "<task>")
        assert f"DIR/{told}\n" in TEXT
