from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable

import pytest

import magicfs
from magicfs.testing.servers import Server

HOSTILE = "día 1/50% +#ä.parquet"

Program = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def program(ministack: Server, tmp_path) -> Program:
    """Run the program as a user would: the endpoint as an option, the credentials in the environment."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    environment |= {
        "AWS_ACCESS_KEY_ID": ministack.access_key,
        "AWS_SECRET_ACCESS_KEY": ministack.secret_key,
        "AWS_DEFAULT_REGION": ministack.region,
        "AWS_CONFIG_FILE": str(tmp_path / "none"),
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "none"),
    }

    def run(*arguments: str, **changed: str | None) -> subprocess.CompletedProcess[str]:
        used = {name: value for name, value in (environment | changed).items() if value is not None}
        options = json.dumps({"endpoint_url": ministack.endpoint})
        command = [
            sys.executable,
            "-m",
            "magicfs.cli",
            arguments[0],
            "--storage-options",
            options,
            *arguments[1:],
        ]
        return subprocess.run(command, env=used, capture_output=True, text=True, timeout=60, check=False)

    return run


@pytest.fixture
def job(ministack: Server, bucket_factory: Callable[..., str]) -> magicfs.Job:
    bucket = bucket_factory(ministack)
    options = ministack.storage_options()
    return magicfs.Job(f"s3://{bucket}/sales", conflict="append", storage_options=options).setup()


def write_task(job: magicfs.Job, *names: str) -> magicfs.Task:
    task = job.task(0).setup()
    for name in names:
        task.filesystem.pipe_file(f"{task.path}/{name}", b"12345")
    return task


def test_pending_uploads_of_a_real_server_exit_1_with_their_sizes(program: Program, job: magicfs.Job):
    write_task(job, HOSTILE, "plain.parquet").commit()
    done = program("pending", job.url, "--json")
    assert (done.returncode, done.stderr) == (1, "")
    document = json.loads(done.stdout)
    assert done.stdout.count("\n") == 1
    assert [(upload["bytes"], upload["job_id"]) for upload in document["pending"]] == [(5, job.id)] * 2
    assert {upload["key"] for upload in document["pending"]} == {
        f"sales/día 1/50% +#ä-000000-{job.id}.parquet",
        f"sales/plain-000000-{job.id}.parquet",
    }


def test_nothing_pending_after_the_job_exits_0(program: Program, job: magicfs.Job):
    job.commit([write_task(job, "a.parquet").commit()])
    done = program("pending", job.url)
    assert (done.returncode, done.stderr) == (0, "")


def test_success_file_of_a_job_is_shown(program: Program, job: magicfs.Job):
    job.commit([write_task(job, HOSTILE).commit()])
    done = program("show", f"{job.url}/_SUCCESS", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    shown = json.loads(done.stdout)
    assert (shown["kind"], shown["document"]["jobId"]) == ("success", job.id)


def test_pending_file_with_a_hostile_name_is_shown(program: Program, job: magicfs.Job):
    task = write_task(job, HOSTILE)
    done = program("show", f"s3://{task.path}/{HOSTILE}.pending")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"sales/día 1/50% +#ä-000000-{job.id}.parquet" in done.stdout


def test_missing_bucket_exits_3_and_says_what_to_do(program: Program):
    done = program("pending", "s3://no-such-bucket-here/sales")
    assert (done.returncode, done.stdout) == (3, "")
    assert "no-such-bucket-here" in done.stderr
    assert "create the bucket" in done.stderr
    assert "Traceback" not in done.stderr


def test_missing_credentials_exit_3_and_say_what_to_set(program: Program, job: magicfs.Job):
    done = program(
        "pending",
        job.url,
        AWS_ACCESS_KEY_ID=None,
        AWS_SECRET_ACCESS_KEY=None,
        AWS_EC2_METADATA_DISABLED="true",
    )
    assert done.returncode == 3
    assert "credentials" in done.stderr
    assert "Traceback" not in done.stderr


def test_unreachable_endpoint_exits_3(program: Program):
    done = program(
        "pending", "s3://bucket/sales", "--storage-options", '{"endpoint_url": "http://127.0.0.1:9"}'
    )
    assert done.returncode == 3
    assert "check that the endpoint is right" in done.stderr
