"""The program on a server: once as a user runs it, and then in this process."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import NamedTuple

import pytest
from s3fs import S3FileSystem

import magicfs
from magicfs.cli import main as cli
from proofs.doubles.servers import Server
from proofs.scenes.known import all_ended

HOSTILE = "día 1/50% +#ä.parquet"


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


Program = Callable[..., Done]


@pytest.fixture
def options(ministack: Server, tmp_path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The endpoint as an option, the credentials in the environment."""
    S3FileSystem.clear_instance_cache()  # an instance keeps the credentials that it has found
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ministack.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", ministack.secret_key)
    monkeypatch.setenv("AWS_DEFAULT_REGION", ministack.region)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    return ["--storage-options", json.dumps({"endpoint_url": ministack.endpoint})]


@pytest.fixture
def program(options: list[str], capsys: pytest.CaptureFixture[str]) -> Program:
    def run(*arguments: str) -> Done:
        status = cli.main([arguments[0], *options, *arguments[1:]])
        said = capsys.readouterr()
        assert "Traceback" not in said.err
        return Done(status, said.out, said.err)

    return run


@pytest.fixture
def job(ministack: Server, bucket_factory: Callable[..., str]) -> magicfs.Job:
    bucket = bucket_factory(ministack)
    options = ministack.storage_options()
    return magicfs.Job(f"s3://{bucket}/sales", mode="append", storage_options=options).setup()


def write_task(job: magicfs.Job, *names: str) -> magicfs.Task:
    task = job.task(0).setup()
    for name in names:
        task.filesystem.pipe_file(f"{task.path}/{name}", b"12345")
    return task


def test_pending_uploads_of_a_real_server_exit_1_with_their_sizes(options: list[str], job: magicfs.Job):
    write_task(job, HOSTILE, "plain.parquet").commit()
    command = [sys.executable, "-m", "magicfs.cli", "uploads", *options, job.url, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (1, "")
    document = json.loads(done.stdout)
    assert done.stdout.count("\n") == 1
    assert [(upload["bytes"], upload["job_id"]) for upload in document["pending"]] == [(5, job.id)] * 2
    assert {upload["key"] for upload in document["pending"]} == {
        f"sales/día 1/50% +#ä-000000-{job.id}.parquet",
        f"sales/plain-000000-{job.id}.parquet",
    }


def test_success_file_of_a_job_is_shown(program: Program, job: magicfs.Job):
    job.commit([write_task(job, HOSTILE).commit()])
    done = program("show", f"{job.url}/_SUCCESS", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    shown = json.loads(done.stdout)
    assert (shown["kind"], shown["document"]["jobId"]) == ("success", job.id)
    done = program("uploads", job.url)
    assert (done.returncode, done.stderr) == (0, "")


def test_pending_file_with_a_hostile_name_is_shown(program: Program, job: magicfs.Job):
    task = write_task(job, HOSTILE)
    all_ended()
    done = program("show", f"s3://{task.path}/{HOSTILE}.pending")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"sales/día 1/50% +#ä-000000-{job.id}.parquet" in done.stdout


def test_missing_bucket_exits_3_and_says_what_to_do(program: Program):
    done = program("uploads", "s3://no-such-bucket-here/sales")
    assert (done.returncode, done.stdout) == (3, "")
    assert "no-such-bucket-here" in done.stderr
    assert "create the bucket" in done.stderr


def test_missing_credentials_exit_3_and_say_what_to_set(
    program: Program, job: magicfs.Job, monkeypatch: pytest.MonkeyPatch
):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    done = program("uploads", job.url)
    assert done.returncode == 3
    assert "credentials" in done.stderr


def test_unreachable_endpoint_exits_3(program: Program):
    once = {"endpoint_url": "http://127.0.0.1:9", "config_kwargs": {"retries": {"total_max_attempts": 1}}}
    done = program("uploads", "s3://bucket/sales", "--storage-options", json.dumps(once))
    assert done.returncode == 3
    assert "check that the endpoint is right" in done.stderr
