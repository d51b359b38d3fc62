"""Jobs that an earlier magicfs set up with ``publish="flip"`` are shown, and nothing acts on them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import magicfs
from magicfs import datasets
from magicfs.cli.main import main
from magicfs.errors import CommitDenied, FormatError
from magicfs.protocol.job_state import JobState

JOB = "0c9d2f7e-4a31-4f0e-9a52-6d1f0f7b8e11"
REFUSED = (
    f"job {JOB} was set up with publish='flip', which this version of magicfs no longer carries out; nothing"
)


@pytest.fixture
def sales(tmp_path: Path) -> Path:
    """A destination with a dataset, and next to it a directory that is nobody's concern."""
    (tmp_path / "lake" / "other").mkdir(parents=True)
    (tmp_path / "lake" / "other" / "file").write_bytes(b"x")
    destination = tmp_path / "lake" / "sales"
    publish(destination, "old")
    return destination


def url(destination: Path) -> str:
    return f"file://{destination}"


def publish(destination: Path, name: str, **options: Any) -> None:
    with magicfs.Job(url(destination), **{"conflict": "append", **options}) as job, job.task(0) as task:
        task.filesystem.pipe_file(f"{task.path}/{name}", name.encode())


def everything(destination: Path) -> dict[str, bytes]:
    """All files next to a destination and in it."""
    lake = destination.parent
    return {str(one.relative_to(lake)): one.read_bytes() for one in lake.rglob("*") if one.is_file()}


def made(destination: Path) -> Path:
    return destination.parent / f".{destination.name}.magicfs-{JOB}"


def flipping(destination: Path, new: Path | None = None, *, state: str = "open", **options: Any) -> Path:
    """Leave what such a job left; returns the directory of its work."""
    magicfs.Job(url(destination), job_id=JOB, conflict="replace", **options).setup()
    [work] = destination.glob("__magic_job-*/job-*")
    place = str(new or made(destination)).removeprefix("/")
    for version in work.glob("job*.json"):
        document = json.loads(version.read_bytes())
        version.write_text(json.dumps(document | {"state": state, "new": place}))
    made(destination).mkdir()
    (made(destination) / "part").write_bytes(b"new")
    return work


COMMANDS: dict[str, Callable[[Path], object]] = {
    "recover": lambda sales: magicfs.recover(url(sales)),
    "recover --job": lambda sales: magicfs.recover(url(sales), job=JOB),
    "recover --rollback": lambda sales: magicfs.recover(url(sales), rollback=True),
    "recover --dry-run": lambda sales: magicfs.recover(url(sales), dry_run=True),
    "abort": lambda sales: datasets.abort(url(sales)),
    "abort --job": lambda sales: datasets.abort(url(sales), job=JOB, driver_is_dead=True),
    "commit": lambda sales: datasets.commit(url(sales), job=JOB),
    "same job": lambda sales: publish(sales, "x", job_id=JOB, attempt=1),
    "same run": lambda sales: publish(sales, "x", run_id="monday"),
}


@pytest.mark.parametrize("state", JobState)
@pytest.mark.parametrize("command", COMMANDS)
def test_nothing_acts_on_one(sales: Path, command: str, state: JobState) -> None:
    flipping(sales, state=state.value, run_id="monday")
    before = everything(sales)
    with pytest.raises(FormatError, match=REFUSED) as refused:
        COMMANDS[command](sales)
    assert everything(sales) == before
    assert refused.value.field == "new"
    work = sales / f"__magic_job-{JOB}" / f"job-{JOB}"
    assert f"remove the directory '{made(sales)}', and then '{work}'" in str(refused.value)


def test_a_job_that_replaces_names_it_and_one_that_appends_goes_on(sales: Path) -> None:
    flipping(sales)
    before = everything(sales)
    with pytest.raises(CommitDenied, match=REFUSED):
        publish(sales, "new", conflict="replace")
    assert everything(sales) == before
    publish(sales, "more")
    assert magicfs.verify(url(sales)).ok


def test_it_is_ended_by_hand_as_the_error_says(sales: Path) -> None:
    shutil.rmtree(flipping(sales))
    shutil.rmtree(made(sales))
    assert magicfs.recover(url(sales)).jobs == ()
    publish(sales, "new", conflict="replace")
    assert magicfs.verify(url(sales)).ok


@pytest.mark.parametrize("command", COMMANDS)
def test_a_directory_that_is_not_its_own_is_left_alone(sales: Path, command: str) -> None:
    flipping(sales, sales.parent / "other", state="reverting", run_id="monday")
    before = everything(sales)
    with pytest.raises(FormatError, match=REFUSED) as refused:
        COMMANDS[command](sales)
    assert everything(sales) == before
    assert f"leave '{sales.parent / 'other'}' alone, which is not where" in str(refused.value)
    assert "remove the directory" not in str(refused.value)


def test_it_is_shown(sales: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(flipping(sales) / "job.json")]) == 0
    [line] = [one for one in capsys.readouterr().out.splitlines() if one.startswith("made in ")]
    assert line.split()[-1] == str(made(sales)).removeprefix("/")


@pytest.mark.parametrize("is_left", ["object", "directory", "aside"])
def test_a_checkup_finds_it(sales: Path, is_left: str) -> None:
    work = flipping(sales)
    if is_left != "object":
        shutil.rmtree(work)
    if is_left == "aside":
        made(sales).rename(f"{made(sales)}~old")
    [jobs] = [one for one in magicfs.doctor(url(sales)).findings if one.subject == "jobs"]
    assert jobs.verdict == "look"
    assert "1 unfinished" in jobs.told
    assert REFUSED in jobs.told


class TestOfWhichOnlyDirectoriesAreLeft:
    @pytest.mark.parametrize("command", sorted(COMMANDS.keys() - {"commit", "same job", "same run"}))
    def test_nothing_acts_on_them(self, sales: Path, command: str) -> None:
        shutil.rmtree(flipping(sales))
        before = everything(sales)
        with pytest.raises(FormatError, match=REFUSED) as refused:
            COMMANDS[command](sales)
        assert everything(sales) == before
        assert f"look into '{made(sales)}'" in str(refused.value)
        assert f"remove it once '{sales}' holds what it should" in str(refused.value)

    def test_the_old_dataset_is_not_thrown_away(self, sales: Path) -> None:
        shutil.rmtree(flipping(sales))
        old = sales.rename(f"{made(sales)}~old")
        with pytest.raises(FormatError, match=REFUSED) as refused:
            magicfs.recover(url(sales))
        assert f"rename '{old}' to '{sales}' if nothing is there" in str(refused.value)
        old.rename(sales)
        assert magicfs.verify(url(sales)).ok

    def test_other_jobs_are_brought_to_their_end_by_name(self, sales: Path) -> None:
        shutil.rmtree(flipping(sales))
        other = magicfs.Job(url(sales), conflict="append").setup()
        assert [one.action for one in datasets.abort(url(sales), job=other.id).jobs] == ["aborted"]

    def test_of_another_dataset_they_are_not_taken(self, sales: Path) -> None:
        (sales.parent / f".sales.magicfs-1.magicfs-{JOB}").mkdir()
        assert magicfs.recover(url(sales)).jobs == ()
