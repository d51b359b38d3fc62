"""``magicfs job``: every part in this process, on a store in memory, but for the commands that tasks run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

import magicfs
from magicfs.cli import main as cli
from proofs.scenes.unfinished import Bucket

Ran = Callable[..., tuple[int, str, str]]
HOSTILE = "día 1/50% +#ä.txt"


@pytest.fixture
def bucket() -> Bucket:
    return Bucket(f"b-{uuid4().hex[:8]}")


@pytest.fixture
def url(bucket: Bucket) -> str:
    return bucket.url("sales #1")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Ran:
    def main(*arguments: str) -> tuple[int, str, str]:
        code = cli.main(["job", *arguments])
        said = capsys.readouterr()
        return code, said.out, said.err

    return main


@pytest.fixture
def job(run: Ran, url: str) -> str:
    code, out, _ = run("setup", url, "--mode", "append")
    assert code == 0
    return out.strip()


def data(bucket: Bucket) -> list[bytes]:
    return sorted(bucket.data("sales #1").values())


def left(bucket: Bucket) -> list[str]:
    return [*(key for key in bucket.objects() if "__magic" in key), *map(str, bucket.uploads())]


def files(directory: Path, **bodies: str) -> str:
    directory.mkdir()
    for name, body in bodies.items():
        (directory / name).write_text(body)
    return str(directory)


def test_files_of_tasks_are_published_by_the_commit_and_not_before(bucket, run, job, tmp_path):
    (tmp_path / "día 1").mkdir()
    (tmp_path / HOSTILE).write_text("one")
    assert run("task", job, "1", str(tmp_path))[0] == 0
    two = tmp_path / "two.txt"
    two.write_text("two")
    assert run("task", job, "2", str(two))[1] == (
        "task 000002: 1 files uploaded; they are published when the job is committed\n"
    )
    assert data(bucket) == []
    code, out, _ = run("commit", job, "--tasks", "2")
    assert (code, out.split()[0]) == (0, "published")
    assert data(bucket) == [b"one", b"two"]
    assert left(bucket) == []
    names = [key.removeprefix("sales #1/") for key in bucket.data("sales #1")]
    assert any(name.startswith("día 1/50% +#ä-000001-") for name in names)


def test_task_that_ran_twice_is_published_once(bucket, run, job, tmp_path):
    for number, body in enumerate(["first", "second"]):
        assert run("task", job, "7", files(tmp_path / str(number), **{"a.txt": body, body: body}))[0] == 0
    assert run("commit", job)[0] == 0
    assert data(bucket) == [b"second", b"second"]
    assert left(bucket) == []


def test_commit_says_again_that_all_is_well(run, job, tmp_path):
    assert run("task", job, "1", files(tmp_path / "a", a="a"))[0] == 0
    assert run("commit", job)[0] == 0
    code, out, err = run("commit", job)
    assert (code, err) == (0, "")
    assert "published" in out
    code, out, _ = run("commit", "--json", job)
    assert (code, json.loads(out)["published"]) == (0, True)


def test_commit_of_too_few_tasks_changes_nothing(bucket, run, job, tmp_path):
    run("task", job, "1", files(tmp_path / "a", a="a"))
    before = bucket.objects()
    code, out, err = run("commit", job, "--tasks", "2")
    assert (code, out) == (2, "")
    assert "1 tasks of job" in err
    assert "2 were expected; nothing was changed" in err
    assert bucket.objects() == before
    assert run("commit", job, "--tasks", "1")[0] == 0


def test_abort_leaves_nothing_and_a_later_task_is_refused(bucket, run, job, tmp_path):
    run("task", job, "1", files(tmp_path / "a", a="a"))
    assert run("abort", job)[0] == 0
    assert (data(bucket), left(bucket)) == ([], [])
    code, out, err = run("task", job, "2", files(tmp_path / "b", b="b"))
    assert (code, out) == (2, "")
    assert "was aborted; nothing was changed" in err
    assert left(bucket) == []


def test_task_after_the_commit_is_denied(bucket, run, job, tmp_path):
    run("task", job, "1", files(tmp_path / "a", a="a"))
    run("commit", job)
    code, _, err = run("task", job, "2", files(tmp_path / "b", b="b"))
    assert code == 4
    assert "is already published, and accepts no more tasks" in err
    assert left(bucket) == []


def test_run_is_published_once(bucket, url, run, tmp_path):
    def whole(number: int) -> list[tuple[int, str, str]]:
        setup = run("setup", url, "--mode", "append", "--run-id", "2026-11-25 +%#")
        name = setup[1].strip()
        task = run("task", name, "1", files(tmp_path / str(number), a=f"run {number}"))
        return [setup, task, run("commit", name)]

    first, second = whole(1), whole(2)
    assert [code for code, _, _ in (*first, *second)] == [0] * 6
    assert second[0][1].strip() == f"{first[0][1].strip()}#published"
    assert [out for _, out, _ in second[1:]] == ["the run is already published; nothing to do\n"] * 2
    assert data(bucket) == [b"run 1"]
    assert left(bucket) == []


@pytest.mark.parametrize(
    "name", ["", "sales", "s3://bucket/sales", "s3://b/__magic_job-", "s3://b/__magic_job-x/y"]
)
@pytest.mark.parametrize("part", ["task", "commit", "abort"])
def test_name_of_no_job_exits_2(run, name, part):
    code, out, err = run(part, name, *(["1", "a"] if part == "task" else []))
    assert (code, out) == (2, "")
    assert "does not name a job" in err


@pytest.mark.parametrize(
    "rest", [[], ["--"], ["a", "--json"], ["--json", "a"], ["a", "--", "b"], ["/no/such"]]
)
def test_task_of_neither_files_nor_a_command_exits_2(run, job, rest):
    code, out, err = run("task", job, "1", *rest)
    assert (code, out) == (2, "")
    assert "nothing was changed" in err


def test_two_files_of_one_name_are_refused(run, job, tmp_path):
    one, two = files(tmp_path / "a", x="1"), files(tmp_path / "b", x="2")
    assert "hold a file 'x'; nothing was changed" in run("task", job, "1", one, two)[2]


@pytest.mark.parametrize("kind", ["file", "directory", "pipe"])
def test_link_or_pipe_in_a_directory_is_refused_by_name(bucket, run, job, tmp_path, kind):
    (tmp_path / "secret").write_text("secret")
    given = files(tmp_path / "a", x="1")
    if kind == "pipe":
        os.mkfifo(tmp_path / "a" / "odd")
    else:
        (tmp_path / "a" / "odd").symlink_to(tmp_path / "secret" if kind == "file" else tmp_path)
    before = bucket.objects()
    code, _, err = run("task", job, "1", given)
    assert code == 2
    assert f"{str(tmp_path / 'a' / 'odd')!a} is {'no file' if kind == 'pipe' else 'a symbolic link'}" in err
    assert bucket.objects() == before


def test_path_that_is_a_link_itself_is_what_it_leads_to(bucket, run, job, tmp_path):
    (tmp_path / "link").symlink_to(files(tmp_path / "a", x="1"))
    assert run("task", job, "1", str(tmp_path / "link"))[0] == 0
    assert run("commit", job)[0] == 0
    assert data(bucket) == [b"1"]


def test_job_of_a_program_takes_no_tasks(url, run, tmp_path):
    with (
        pytest.raises(ZeroDivisionError),
        magicfs.Job(url, mode="append", options={"tracking": "memory"}) as job,
    ):
        code, _, err = run("task", f"{url}/__magic_job-{job.id}", "1", files(tmp_path / "a", a="a"))
        raise ZeroDivisionError
    assert code == 2
    assert "was set up by a program" in err


@pytest.mark.process
class TestCommands:
    SCRIPT = 'echo said; mkdir "$MAGICFS_OUTPUT/d +%"; echo "$MAGICFS_TASK" > "$MAGICFS_OUTPUT/d +%/a b.txt"'

    def test_what_a_command_writes_is_uploaded(self, bucket, run, job):
        code, out, _ = run("task", "--json", job, "007", "--", "sh", "-c", self.SCRIPT)
        assert (code, json.loads(out)) == (0, {"task": "000007", "files": 1, "bytes": 7})
        assert run("commit", job)[0] == 0
        assert data(bucket) == [b"000007\n"]

    def test_command_that_fails_leaves_nothing(self, bucket, run, job):
        before = bucket.objects()
        code, out, _ = run("task", job, "1", "--", "sh", "-c", f"{self.SCRIPT}; exit 3")
        assert code == 9
        assert "ended with status 3; nothing was uploaded" in out
        assert bucket.objects() == before

    def test_command_that_is_not_there_exits_2(self, run, job):
        code, out, err = run("task", job, "1", "--", "/no/such/command")
        assert (code, out) == (2, "")
        assert "cannot be run" in err

    def test_a_terminated_task_ends_its_command_and_leaves_no_directory(self, tmp_path):
        home = tmp_path / "store"
        home.mkdir()
        program = [sys.executable, "-m", "magicfs.cli", "job"]
        environment = os.environ | {"TMPDIR": str(tmp_path / "tmp")}
        (tmp_path / "tmp").mkdir()
        made = subprocess.run(
            [*program, "setup", f"file://{home}/sales"], capture_output=True, text=True, check=True
        )
        began = tmp_path / "began"
        script = f"echo $$ > {began}.x; mv {began}.x {began}; exec sleep 600"
        arguments = ["task", made.stdout.strip(), "1", "--", "sh", "-c", script]
        task = subprocess.Popen([*program, *arguments], env=environment)
        while not began.exists():
            assert task.poll() is None
            time.sleep(0.02)
        task.send_signal(signal.SIGTERM)
        assert task.wait(30) == 128 + signal.SIGTERM
        with pytest.raises(ProcessLookupError):
            os.kill(int(began.read_text()), 0)
        assert list((tmp_path / "tmp").iterdir()) == []
