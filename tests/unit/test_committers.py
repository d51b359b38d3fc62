"""Which committers there are, what is refused, and ``docs/committers.md``."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

import magicfs
from magicfs.committers.registry import committers
from magicfs.errors import UsageError
from magicfs.protocol.modes import WRITE_MODES
from proofs.scenes.arranged import arranged

TEXT = (Path(__file__).parents[2] / "docs" / "committers.md").read_text()


def rows(head: str) -> list[list[str]]:
    """The cells of the table whose first line begins so."""
    lines = TEXT.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(head)) + 2
    table = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        table.append([cell.strip() for cell in line.strip("|").split("|")])
    return table


def test_every_committer_has_its_row() -> None:
    named = [re.findall(r"`([a-z-]+)`", row[0])[0] for row in rows("| committer | task attempts write")]
    assert list(dict.fromkeys(named)) == list(committers())


def test_modes_are_those_of_the_code() -> None:
    shown = {row[0].strip("`"): row[1:5] for row in rows("| | `error`")}
    others = shown.pop("the others")
    for name, traits in committers().items():
        said = {mode for mode, cell in zip(WRITE_MODES, shown.get(name, others), strict=True) if cell}
        assert said == set(traits.modes), name


def test_every_option_is_told() -> None:
    for name, traits in committers().items():
        if name == "file":  # the others have pages of their own, or no options
            assert all(f"`{one.name}`" in TEXT for one in fields(traits.options)), name


EXAMPLES = re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)


@pytest.mark.process
@pytest.mark.parametrize("code", EXAMPLES, ids=range(len(EXAMPLES)))
def test_an_example_runs_as_it_stands(code: str) -> None:
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 2


@pytest.mark.parametrize("name", [name for name, traits in committers().items() if not traits.driven])
def test_a_run_id_needs_a_job_object(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="run_id needs a job object to find an earlier job"):
        magicfs.Job(f"file://{tmp_path}/sales", committer=name, run_id="a run")


def test_the_best_committer_is_chosen_with_a_reason(tmp_path: Path) -> None:
    job = magicfs.Job("memory://bucket/sales", committer="auto")
    assert (job.spec.options.committer, job.spec.reason[:6]) == ("magic", "memory")
    job = magicfs.Job(f"file://{tmp_path}/sales", committer="auto")
    assert job.spec.options.committer == "manifest"
    assert "renames in one step" in job.spec.reason


def test_what_cannot_be_is_refused_with_what_can() -> None:
    for arguments, words in (
        ({"committer": "magik"}, "choose one of magic, directory"),
        (
            {"committer": "directory", "mode": "overwrite_partitions"},
            "committers that have it: magic, part",
        ),
        ({"committer": "manifest"}, "use committer='magic'"),
        ({"committer": "file", "committer_options": {"algoritm": 2}}, "did you mean 'algorithm'?"),
        ({"committer": "magic", "committer_options": {"threads": 2}}, "no option 'threads'"),
        ({"committer": "file", "committer_options": {"algorithm": 3}}, "choose 1 or 2"),
        ({"committer": "direct", "tracking": "memory"}, "tracking='memory' is for delayed uploads"),
    ):
        with pytest.raises(UsageError, match=re.escape(words)):
            magicfs.Job("memory://bucket/sales", **arranged(**arguments))
