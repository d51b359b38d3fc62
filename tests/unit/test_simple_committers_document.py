"""What docs/simple-committers.md shows runs, and costs what it says."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

import magicfs
from magicfs.classic.tracking import final_tracker
from magicfs.stores.conditions import Conditions, assume
from magicfs.stores.memory.store import default_world
from proofs.scenes.final_scene import FinalScene
from proofs.scenes.memory_scene import BUCKET, CountingFileSystem

TEXT = (Path(__file__).parents[2] / "docs" / "simple-committers.md").read_text(encoding="utf-8")
NAMES = {
    "HEAD": "head",
    "PUT": "put",
    "LIST": "list",
    "LIST of uploads": "list_uploads",
    "DELETE": "delete",
}
FILES = 2


def costs(column: str) -> dict[str, Counter[str]]:
    """The requests of a committer as the table has them, for two files."""
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in TEXT.splitlines() if line[:1] == "|"
    ]
    head = next(place for place, row in enumerate(rows) if row[1:] == [f"`{one}`" for one in COMMITTERS])
    place = COMMITTERS.index(column) + 1
    found = {}
    for row in rows[head + 2 :]:
        parts = re.findall(r"(\d+|[nF]) ([A-Z]+(?: of uploads)?)", row[place])
        found[row[0]] = Counter(
            {NAMES[name]: FILES if number in {"n", "F"} else int(number) for number, name in parts}
        )
    return found


COMMITTERS = ["direct", "stocator", "task-completing"]


def test_the_example_runs_as_it_stands(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)
    try:
        exec(compile(code, "docs/simple-committers.md", "exec"), {})
        exec(compile(code, "docs/simple-committers.md", "exec"), {})
    finally:
        default_world().delete_bucket("bucket")
    assert len(capsys.readouterr().out.splitlines()) == 3 + 6


@pytest.mark.parametrize("committer", COMMITTERS[:2])
def test_requests_are_those_of_the_table(committer: str) -> None:
    final_tracker().clear()
    job = FinalScene(committer).job()
    told = costs(committer)

    def asked() -> Counter[str]:
        counted = Counter(request.operation for request in job.traffic.log)
        job.traffic.log.clear()
        return counted

    job.setup()
    assert asked() == told["setup"]
    attempt = job.attempt(0)
    for number in range(FILES):
        attempt.write(f"part-{number}.csv")
    commit = attempt.commit()
    assert asked() == told["task commit"]
    job.commit([commit])
    assert asked() == told["job commit"]


def test_requests_of_task_completing_are_those_of_the_table() -> None:
    files = CountingFileSystem()
    files.world.create_bucket(BUCKET)
    assume(files.store(BUCKET), Conditions())
    told = costs("task-completing")

    def asked() -> Counter[str]:
        counted = Counter(files.counts)
        files.counts.clear()
        return counted

    job = magicfs.Job(f"memory://{BUCKET}/sales", committer="task-completing", filesystem=files).setup()
    assert asked() == told["setup"] + Counter(list=1), "mode='error' looks for data"
    with job.task(0) as task:
        for number in range(FILES):
            task.filesystem.pipe_file(f"{task.path}/part-{number}.csv", b"row\n")
        asked()
    assert asked()["complete_upload"] == FILES
    job.commit(job.commits)
    assert asked() == told["job commit"]
