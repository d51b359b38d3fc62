"""What writers leave that die in the middle of a file: no listing shows it, and it goes with the job."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import magicfs
from magicfs import datasets
from magicfs.cli.main import main
from magicfs.datasets.connection import open_destination
from magicfs.stores.local import files
from magicfs.upkeep.leftovers import sweep_leftovers
from proofs.scenes.known import all_ended

TMP = ".magicfs-0123456789abcdef.tmp"
KILLED = """
import os, sys, magicfs
from magicfs.stores.local import files
url, name = sys.argv[1:]
def die(temporary, path, *_):
    if path.endswith(name):
        os._exit(9)
    os.link(temporary, path, src_dir_fd=_[0], dst_dir_fd=_[1])
job = magicfs.Job(url, mode="append", committer="magic").setup()
print(job.id, flush=True)
files.link = die
os.replace = lambda one, two, src_dir_fd=None, dst_dir_fd=None: (
    os._exit(9) if two.endswith(name) else os.rename(one, two, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
)
with job.task(0) as task:
    task.filesystem.pipe_file(f"{task.path}/a.bin", b"1")
"""


def left_in(place: Path) -> list[str]:
    return sorted(one.name for one in place.rglob(".magicfs-*.tmp"))


def died(place: Path, name: str) -> str:
    """The id of a job whose worker was killed while it wrote a file of that name."""
    command = [sys.executable, "-c", KILLED, f"file://{place}", name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 9, done.stderr
    assert left_in(place)
    return done.stdout.strip()


@pytest.mark.process
@pytest.mark.parametrize("name", [".pendingset", ".pending", "a.bin"])
def test_an_abort_takes_it_along(tmp_path: Path, name: str) -> None:
    place = tmp_path / "día 1"
    job = died(place, name)
    assert datasets.abort(f"file://{place}", job=job).jobs[0].action == "aborted"
    assert left_in(place) == []
    assert [*place.glob("__magic*")] == []


def test_a_commit_takes_it_along(tmp_path: Path) -> None:
    with magicfs.Job(tmp_path, mode="append", committer="magic") as job:
        with job.task(0) as task:
            task.filesystem.pipe_file(f"{task.path}/a.bin", b"1")
        [sets] = tmp_path.glob("__magic*/**/sets")
        for place in (sets, sets.parent, sets.parent.parent, sets / "sub"):
            place.mkdir(exist_ok=True)
            (place / TMP).write_bytes(b"x")
    assert left_in(tmp_path) == []
    assert [*tmp_path.glob("__magic*")] == []
    assert magicfs.Dataset(tmp_path).verify().files == 1


def test_what_came_after_the_end_is_named_and_goes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = published(tmp_path)
    late = tmp_path / f"__magic_job-{job.id}/job-{job.id}/00/sets" / TMP
    url = f"file://{tmp_path}"
    for way in ("recover", "maintain"):
        late.parent.mkdir(parents=True)
        late.write_bytes(b"x")
        for command in ("doctor", "status"):
            assert main([command, url, "--json"]) == 1
            assert f"__magic_job-{job.id}" in capsys.readouterr().out
        if way == "recover":
            assert main(["recover", url, "--job", job.id, "--abort", "--dry-run"]) == 1
            assert late.exists()
            assert main(["recover", url, "--job", job.id, "--abort"]) == 0
        else:
            [done] = open_destination(url).run(sweep_leftovers, older_than_s=0.0)
            assert (done.job_id, done.action) == (job.id, "swept")
        assert [*tmp_path.glob("__magic*")] == []
        capsys.readouterr()
    assert main(["doctor", url]) == 0


def test_what_is_no_file_of_a_writer_stays(tmp_path: Path) -> None:
    """Nothing goes from a directory where anything else lies, and no link is followed."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / TMP).write_bytes(b"x")
    place = tmp_path / "sales"
    job = published(place)
    sets = place / f"__magic_job-{job.id}/job-{job.id}/00/sets"
    sets.mkdir(parents=True)
    (sets / "link").symlink_to(outside)
    for name in (TMP, "mine.tmp"):
        (sets / name).write_bytes(b"x")
    datasets.abort(f"file://{place}", job=job.id)
    assert (outside / TMP).exists()


def test_a_writer_whose_file_is_taken_begins_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, taken = files.link, list[str]()

    def link(temporary: str, path: str, source: int | None, directory: int | None) -> None:
        if not taken:
            taken.append(temporary)
            os.unlink(temporary, dir_fd=source)
        real(temporary, path, source, directory)

    monkeypatch.setattr(files, "link", link)
    job = published(tmp_path)
    assert taken
    assert magicfs.Dataset(tmp_path).files(job=job.id)[0].size == 1


def published(place: Path) -> magicfs.Job:
    with magicfs.Job(place, mode="append", committer="magic") as job, job.task(0) as task:
        task.filesystem.pipe_file(f"{task.path}/a.bin", b"1")
    all_ended()
    return job
