"""Small things that people stumbled over on the command line."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from uuid import uuid4

import pytest

import magicfs
from magicfs import datasets
from magicfs.cli.main import commands_of, main
from magicfs.errors import UsageError
from proofs.scenes.unfinished import Bucket

OLD = ("p=1/a", "p=1/b", "p=2/a")


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"file://{tmp_path}/sales 50%"


def write(job: magicfs.Job, task: int, name: str) -> None:
    with job.task(task) as one:
        one.filesystem.pipe_file(f"{one.path}/{name}", b"1")


def unfinished(url: str, mode: str) -> magicfs.Job:
    """A job of which one task has committed, at a dataset of three files."""
    with magicfs.Job(url, committer="magic", mode="append") as before:
        for number, name in enumerate(OLD):
            write(before, number, name)
    job = magicfs.Job(url, committer="magic", mode=mode).setup()
    write(job, 0, "p=1/new")
    return job


def test_a_commit_with_fewer_tasks_than_asked_for_is_refused(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    job = unfinished(url, "append")
    for more in ((), ("--dry-run",)):
        assert main(["recover", "--commit", url, "--job", job.id, "--tasks", "2", *more]) == 2
        said = capsys.readouterr().err
        assert f"1 tasks of job {job.id} have committed, but 2 were expected; nothing was changed" in said
    with pytest.raises(UsageError, match="wait for the others"):
        datasets.commit(url, job.id, tasks=7)
    assert main(["recover", "--commit", url, "--job", job.id, "--tasks", "1"]) == 0
    assert magicfs.Dataset(url).verify().files == 4


@pytest.mark.parametrize(("mode", "old"), [("overwrite", 3), ("overwrite_partitions", 2), ("append", 0)])
def test_a_dry_run_says_what_a_replace_would_delete(
    url: str, mode: str, old: int, capsys: pytest.CaptureFixture[str]
) -> None:
    job = unfinished(url, mode)
    assert main(["recover", "--commit", url, "--job", job.id, "--dry-run"]) == 1
    assert (f"would delete  {old} old files" in capsys.readouterr().out) == bool(old)
    assert main(["recover", "--commit", url, "--job", job.id, "--dry-run", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["replaced"] == old
    assert datasets.commit(url, job.id).files_deleted == old


def test_verify_says_that_foreign_files_may_be_of_an_unfinished_job(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = unfinished(url, "append")
    (tmp_path / "sales 50%" / "p=1" / "visible").write_bytes(b"1")
    assert main(["verify", url]) == 1
    said = capsys.readouterr().out
    assert f"unfinished  {job.id}" in said
    assert f"a half published job: magicfs recover {url} --dry-run" in said
    job.abort()
    assert magicfs.Dataset(url).verify().unfinished == ()


def test_the_filesystem_of_a_task_says_what_it_is(url: str) -> None:
    job = unfinished(url, "append")
    shown = repr(job.task(1).setup().filesystem)
    assert shown == str(job.task(2).setup().filesystem) == "<MagicFileSystem around file, tracking store>"


@pytest.mark.process
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_each_command_and_its_options(
    shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(name in script for name in commands_of())
    assert "driver-is-dead" in script
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script.encode(), check=True)


@pytest.mark.process
def test_bash_completes_a_command_and_an_option(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--completion", "bash"])
    ask = """
    COMP_WORDS=(magicfs doc); COMP_CWORD=1; _magicfs; echo "${COMPREPLY[@]}"
    COMP_WORDS=(magicfs recover --dr); COMP_CWORD=2; _magicfs; echo "${COMPREPLY[@]}"
    COMP_WORDS=(magicfs job se); COMP_CWORD=2; _magicfs; echo "${COMPREPLY[@]}"
    """
    script = capsys.readouterr().out + ask
    done = subprocess.run(["bash"], input=script, text=True, capture_output=True, check=True)
    assert done.stdout.splitlines() == ["doctor", "--driver-is-dead --dry-run", "setup"]


LOOKS = (["recover"], ["doctor"], ["uploads"], ["log"], ["log", "--all"], ["status"])


@pytest.mark.parametrize("command", [*LOOKS, ["adopt"], ["verify"], ["maintain"]], ids=" ".join)
@pytest.mark.parametrize("typo", ["salse", "sale", "sales/2", "sales1"])
def test_a_place_where_nothing_is_has_a_status_that_scripts_notice(
    typo: str, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    bucket = Bucket(f"b-{uuid4().hex[:8]}")
    bucket.put("sales/a.bin", b"1")
    url = bucket.url(typo)
    assert main([command[0], url, *command[1:]]) == 3
    said = "".join(capsys.readouterr())
    assert url.removeprefix("memory://") in said
    assert "check the URL" in said
    assert main([command[0], url, *command[1:], "--json"]) == 3
    shown = capsys.readouterr()
    assert "ObjectNotFound" in (shown.out or shown.err)
    assert bucket.objects() == {"sales/a.bin": b"1"}


@pytest.mark.parametrize("command", LOOKS[1:], ids=" ".join)
def test_what_has_files_or_is_a_bucket_is_a_place(
    command: list[str], url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    bucket = Bucket(f"b-{uuid4().hex[:8]}")
    assert main([command[0], bucket.url("").rstrip("/"), *command[1:]]) == 0
    bucket.put("files/a.bin", b"1")
    bucket.create_upload("sales/begun.bin")
    for name in ("files", "sales"):
        assert main([command[0], bucket.url(name), *command[1:]]) in {0, 1}
    assert main([command[0], url, *command[1:]]) == 3
    capsys.readouterr()
