"""Names that are kept for committers are refused by all who publish a task's files by renaming them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import magicfs
from magicfs.errors import CommitFailed
from proofs.scenes.arranged import arranged

RENAMING = [
    {"committer": "file", "committer_options": {"algorithm": 1}},
    {"committer": "file", "committer_options": {"algorithm": 2}},
    {"committer": "manifest"},
]
RESERVED = [
    "_temporary/a",
    "_temporary",
    "_magicfs/current.json",
    "__magic_job-1/a",
    "p=1/_temporary/a",
    "p=1/q=2/_temporary_0",
    "p=1/_magicfs/current.json",
    "p=1/__magic/a",
]
DATA = ["p=_temporary/a", "p=1/a_temporary", "_other/a", "_temporary_id=1/a"]


def files_of(directory: Path) -> set[str]:
    names = {path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file()}
    return {name for name in names if not name.startswith("_magicfs/")}


@pytest.mark.parametrize("how", RENAMING, ids=["file-1", "file-2", "manifest"])
class TestCommittersThatRename:
    @pytest.mark.parametrize("name", RESERVED)
    def test_a_reserved_name_fails_its_task(self, tmp_path: Path, how: dict[str, Any], name: str) -> None:
        with magicfs.Job(
            f"file://{tmp_path}/sales", mode="append", **arranged(unique_names=False, **how)
        ) as job:
            with pytest.raises(CommitFailed, match=f"{name}'.*committers"), job.task(0) as task:
                task.filesystem.pipe_file(f"{task.path}/{name}", b"x")
            with job.task(1) as task:
                task.filesystem.pipe_file(f"{task.path}/a", b"x")
        assert files_of(tmp_path / "sales") == {"_SUCCESS", "a"}

    def test_other_names_are_data(self, tmp_path: Path, how: dict[str, Any]) -> None:
        job = magicfs.Job(f"file://{tmp_path}/sales", mode="append", **arranged(unique_names=False, **how))
        with job, job.task(0) as task:
            for name in DATA:
                task.filesystem.pipe_file(f"{task.path}/{name}", b"x")
        assert files_of(tmp_path / "sales") == {"_SUCCESS", *DATA}

    def test_an_empty_reserved_directory_is_left_out(self, tmp_path: Path, how: dict[str, Any]) -> None:
        job = magicfs.Job(f"file://{tmp_path}/sales", mode="append", **arranged(unique_names=False, **how))
        with job, job.task(0) as task:
            task.filesystem.makedirs(f"{task.path}/p=1/_temporary/b")
            task.filesystem.pipe_file(f"{task.path}/p=1/a", b"x")
        assert files_of(tmp_path / "sales") == {"_SUCCESS", "p=1/a"}
