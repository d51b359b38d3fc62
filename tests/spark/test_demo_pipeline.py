"""The pipeline of the page about the demo, run as it stands against a real server."""

from __future__ import annotations

from pathlib import Path

import pytest

from proofs.doubles.servers import Server
from proofs.scenes.java import skip_without_java
from proofs.spark_proof import demo_lines

TEXT = demo_lines.PAGE.read_text()
FLIGHTS_COUNT = 336_776


def test_the_pipeline_has_ten_lines_at_most() -> None:
    code = demo_lines.pipeline(TEXT)
    assert len([line for line in code.splitlines() if line]) <= 10
    assert code.count(demo_lines.URL) == 1


@pytest.mark.nightly
def test_the_pipeline_publishes_what_the_demo_publishes(ministack: Server, tmp_path: Path) -> None:
    skip_without_java()
    said: list[str] = []
    figures = demo_lines.run(TEXT, ministack, tmp_path, said.append)
    assert figures == {
        **dict.fromkeys(("rows_wrong", "pending_after", "work_after", "troubles"), 0),
        "demo_lines": 10,
        "demo_rows": FLIGHTS_COUNT,
    }, said
