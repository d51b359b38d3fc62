"""The demo as a newcomer runs it: a program, its output and its exit status."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from examples.flights.__main__ import main
from examples.flights.main import choose_engine
from magicfs.errors import UsageError
from proofs.doubles.servers import Server
from proofs.scenes.java import skip_without_java

ROOT = Path(__file__).parents[2]
FLIGHTS = 336_776
PARTITIONS = 185
TIMEOUT = 280

# What switches the delayed upload off, in every Python process that finds it on its path.
COMPLETE_AT_CLOSE = """
from magicfs.filesystem.upload.stream import Upload

record = Upload.record

async def complete(upload):
    parts = sorted(upload._parts, key=lambda part: part.number)
    await upload._store.complete_upload(upload.key, upload._upload_id, parts)
    await record(upload)

Upload.record = complete
"""


def run_demo(*arguments: str, **changed: str | None) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in (os.environ | changed).items() if value is not None}
    command = [sys.executable, "-m", "examples.flights", *arguments]
    return subprocess.run(
        command,
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )


def figures_of(done: subprocess.CompletedProcess[str]) -> dict[str, object]:
    assert done.stdout.count("\n") == 1, done.stdout + done.stderr
    figures: dict[str, object] = json.loads(done.stdout)
    return figures


@pytest.mark.nightly
@pytest.mark.parametrize("store", ["gcs", "azure", "local"])
def test_it_proves_the_same_on_other_stores(store: str) -> None:
    figures = figures_of(run_demo("--json", "--store", store, "--engine", "processes"))
    assert (figures["ok"], figures["failures"]) == (True, [])
    assert figures["rows_out"] == FLIGHTS
    assert figures["killed_attempts"] == 1


def test_a_server_of_ones_own_speaks_s3(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--store", "gcs", "--server", "http://127.0.0.1:9"]) == 2
    assert "--server is an S3 endpoint, and --store is gcs" in capsys.readouterr().err


@pytest.fixture
def java() -> None:
    skip_without_java()


@pytest.fixture
def old_java(tmp_path: Path) -> Path:
    """A directory with a ``java`` that calls itself 11."""
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 'openjdk version \"11.0.26\" 2025-01-21' >&2\n")
    program.chmod(0o755)
    return program.parent


@pytest.mark.nightly
@pytest.mark.timeout(TIMEOUT)
def test_spark_publishes_every_flight_once_although_a_worker_is_killed(java: None):
    done = run_demo("--json")
    figures = figures_of(done)
    assert (done.returncode, figures["failures"], figures["engine"]) == (0, [], "spark")
    assert (figures["rows_in"], figures["rows_out"], figures["content_equal"]) == (FLIGHTS, FLIGHTS, True)
    assert figures["files"] == PARTITIONS
    assert figures["looks"] >= 20
    assert (figures["visible_before_commit"], figures["pending_after"]) == (0, 0)
    # The killed attempt's uploads were pending beside those of the attempt that replaced it.
    assert figures["pending_before_commit"] >= PARTITIONS + figures["killed"]["uploads"]
    assert figures["killed"]["attempt"] == 0
    assert figures["killed"]["signal"] == 9
    assert (figures["killed_attempts"], figures["retried_attempts"]) == (1, 1)
    also = {one["how"]: one for one in figures["also"]}
    assert set(also) == {
        "pyarrow.dataset.write_dataset",
        "pandas.DataFrame.to_parquet",
        "DataFrame.mapInPandas",
    }
    assert all(one["content_equal"] for one in also.values())
    assert (
        also["DataFrame.mapInPandas"]["rows_out"] < also["pandas.DataFrame.to_parquet"]["rows_out"] == FLIGHTS
    )
    assert figures["server"]["name"] == "seaweedfs"
    assert not Path(f"/proc/{figures['server']['pid']}").exists()


@pytest.mark.nightly
@pytest.mark.timeout(TIMEOUT)
def test_files_that_are_visible_at_once_are_seen_and_the_demo_fails(java: None, tmp_path: Path):
    (tmp_path / "sitecustomize.py").write_text(COMPLETE_AT_CLOSE)
    done = run_demo("--json", "--engine", "spark", PYTHONPATH=str(tmp_path))
    figures = figures_of(done)
    assert done.returncode == 1
    assert figures["visible_before_commit"] > 0
    assert not figures["ok"]
    assert "visible before the job commit" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.nightly
@pytest.mark.timeout(TIMEOUT)
def test_without_java_processes_publish_the_same_and_the_demo_says_so(tmp_path: Path):
    done = run_demo("--json", PATH=str(tmp_path), JAVA_HOME=None)
    figures = figures_of(done)
    assert (done.returncode, figures["failures"], figures["engine"]) == (0, [], "processes")
    assert "processes instead of Spark" in done.stderr
    assert "Java" in figures["engine_reason"]
    assert (figures["rows_out"], figures["content_equal"], figures["files"]) == (FLIGHTS, True, PARTITIONS)
    assert (figures["killed_attempts"], figures["retried_attempts"]) == (1, 1)
    assert len(figures["also"]) == 2


@pytest.mark.nightly
@pytest.mark.timeout(TIMEOUT)
def test_with_an_old_java_and_a_given_server_it_falls_back_and_removes_its_bucket(
    old_java: Path, ministack: Server
):
    done = run_demo(
        "--server",
        ministack.endpoint,
        PATH=str(old_java),
        JAVA_HOME=None,
        AWS_ACCESS_KEY_ID=ministack.access_key,
        AWS_SECRET_ACCESS_KEY=ministack.secret_key,
    )
    assert done.returncode == 0, done.stderr
    assert "is 11.0.26" in done.stderr
    assert "processes instead of Spark" in done.stderr
    assert "every proof holds" in done.stdout
    buckets = ministack.s3_client().list_buckets()["Buckets"]
    assert not [bucket for bucket in buckets if bucket["Name"].startswith("magicfs-demo-")]


def test_spark_that_was_asked_for_and_cannot_run_exits_2(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert main(["--engine", "spark"]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "install Java 17" in shown.err


def test_server_that_is_no_url_exits_2():
    # In a process of its own, for it joins the tables first.
    done = run_demo("--server", "localhost:9000", "--engine", "processes")
    assert done.returncode == 2
    assert "http://localhost:9000" in done.stderr


def test_broken_java_home_is_no_reason_not_to_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    engine, reason = choose_engine(None)
    assert engine == "processes"
    assert "JAVA_HOME" in reason
    with pytest.raises(UsageError, match="JAVA_HOME"):
        choose_engine("spark")


def test_processes_that_were_asked_for_need_no_reason(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    assert choose_engine("processes") == ("processes", "")
