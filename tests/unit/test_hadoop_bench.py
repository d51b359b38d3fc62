"""What measures beside Hadoop, without Hadoop: turns, ratios, the jars asked for, and missing tools."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from benchmarks import hadoop, hadoop_jars, hadoop_reads
from benchmarks.figures import Figure
from benchmarks.groups import measure_of
from benchmarks.hadoop import Results
from benchmarks.hadoop_spark import OURS, QUICK, SHAPES, WRITERS
from benchmarks.hadoop_turns import Seconds, Turns, check_and_clear, processor_s
from benchmarks.session import Session
from benchmarks.targets import of_run
from proofs.doubles.servers import Ministack

POM = "{http://maven.apache.org/POM/4.0.0}"


def turns_of(rounds: int, sides: dict[str, list[float]], phases: tuple[str, ...] = ("write",)) -> Turns:
    """Turns that took these seconds."""
    left = {name: iter([99.0, *seconds]) for name, seconds in sides.items()}

    def side(name: str) -> dict[str, Seconds]:
        seconds = next(left[name])
        return {phase: Seconds(seconds, seconds / 2, seconds / 4) for phase in phases}

    turns = Turns({name: lambda name=name: side(name) for name in sides}, rounds)  # type: ignore[misc]
    turns.run("test")
    return turns


# -- turns -----------------------------------------------------------------------------------------------


def test_order_of_sides_rotates_and_first_round_is_thrown_away() -> None:
    order = []

    def side(name: str) -> dict[str, Seconds]:
        order.append(name)
        return {"write": Seconds(len(order), 0)}

    turns = Turns({name: lambda name=name: side(name) for name in "abc"}, 3)  # type: ignore[misc]
    turns.run("test")
    assert "".join(order) == "cab" + "abc" + "bca" + "cab"
    assert turns.walls("a", "write") == [4, 9, 11]


def test_ratio_is_of_medians_and_times_tell_client_and_server_apart() -> None:
    turns = turns_of(3, {"ours": [1, 2, 9], "theirs": [4, 4, 2]})
    assert turns.ratio("ours", "theirs", "write") == Figure(0.5, 0.25, 4.5, 3)
    [ours, _] = turns.times("group")
    assert (ours.group, ours.side, ours.phase) == ("group", "ours", "write")
    assert [one.value for one in ours.times] == [2, 1, 0.5]


@pytest.mark.process
def test_processor_time_is_that_of_a_process_and_of_those_that_it_starts() -> None:
    work = "import time\nwhile time.process_time() < 0.3: pass\nprint(flush=True)\ninput()"
    with subprocess.Popen(
        [sys.executable, "-c", work], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        alone = processor_s(os.getpid(), {child.pid})
        together = processor_s(os.getpid())
        child.communicate("\n")
    assert together - alone >= 0.25
    assert processor_s(os.getpid()) >= together  # it was waited for


@pytest.fixture(scope="module")
def server() -> Iterator[Ministack]:
    with Ministack() as found:
        yield found


@pytest.mark.process
def test_what_a_side_left_is_looked_at_and_deleted(server: Ministack) -> None:
    bucket = server.create_bucket("turns")
    for number in range(3):
        server.write(bucket, f"job/part-{number}.bin", b"x")
    server.write(bucket, "job/_SUCCESS", b"{}")
    server.write(bucket, "job2/part-0.bin", b"x")
    with pytest.raises(RuntimeError, match="3 files are visible instead of 4"):
        check_and_clear(server, bucket, "job", ".bin", 4)
    upload = server.open_upload(bucket, "job/part-9.bin")
    with pytest.raises(RuntimeError, match="1 uploads are still open"):
        check_and_clear(server, bucket, "job", ".bin", 3)
    server.abort_upload(bucket, "job/part-9.bin", upload)
    check_and_clear(server, bucket, "job", ".bin", 3)
    assert server.all_keys(bucket) == ["job2/part-0.bin"]


# -- figures ---------------------------------------------------------------------------------------------


def results() -> Results:
    sides = {"hadoop-store": [4.0], "hadoop-memory": [5.0]}
    sides |= {"ours-store": [2.0], "ours-memory": [1.0], "ours-bundles": [0.5]}
    slow = {**sides, "ours-store": [3.0]}
    phases = ("job_commit", "whole")
    writers = {"s3a-magic": [4.0], "s3a-directory": [2.0], "s3a-file": [8.0], "format": [2.0], "write": [1.0]}
    first = {"s3a-magic": [4.0], "format": [1.0], "write": [3.0]}
    return Results(
        {1000: turns_of(1, sides, phases), 5000: turns_of(1, slow, phases)},
        {20_000: turns_of(1, slow, phases)},
        {name: turns_of(1, writers) for name in SHAPES},
        turns_of(1, first),
        {
            "local": turns_of(1, {"ours": [1.0], "spark": [2.0]}, hadoop_reads.PHASES),
            "s3": turns_of(1, {"ours": [2.0], "spark": [2.0]}, hadoop_reads.PHASES),
        },
        {"hadoop": "3.5.0"},
    )


def test_every_row_of_the_table_is_measured_and_the_worst_counts() -> None:
    found = {name: one.value for name, one in results().figures.items()}
    assert {target.name for target in of_run("bench-hadoop")} <= found.keys()
    assert found["hadoop_commit_store"] == found["hadoop_job_store_5000"] == 0.75
    assert found["hadoop_job_store_1000"] == 0.5
    assert found["hadoop_commit_memory"] == found["hadoop_stub_commit_memory"] == 0.25
    assert found["hadoop_stub_commit_store"] == found["hadoop_stub_commit_store_20000"] == 0.75
    assert found["hadoop_commit_both_memory_1000"] == 0.2
    assert found["spark_tiny"] == found["spark_many_format"] == 0.5
    assert found["spark_rows_write"] == 0.25
    assert found["spark_rows_write_to_directory"] == 0.5
    assert found["spark_rows_format_to_file"] == 0.25
    assert found["spark_first"] == 0.75
    assert found["spark_read_all"] == found["spark_read_all_s3"] == 1.0
    assert found["spark_read_all_local"] == 0.5


def test_line_is_json_with_every_ratio_and_every_side() -> None:
    told = json.loads(results().line())
    assert told["hadoop_commit_store"] == 0.75
    assert told["spread"]["spark_first"] == [0.75, 0.75]
    assert ["Spark, first write", "write", "write", 3.0, 1.5, 0.75] in told["sides"]
    assert told["versions"] == {"hadoop": "3.5.0"}


def test_what_was_not_measured_has_no_figure() -> None:
    assert Results(spark={"tiny": turns_of(1, {one: [1.0] for one in WRITERS})}).figures.keys() == {
        *("spark_tiny", "spark_tiny_format", "spark_tiny_write"),
        *(f"spark_tiny_{ours}_to_{theirs}" for ours in OURS for theirs in ("directory", "file")),
    }


def test_shapes_are_those_of_the_table() -> None:
    assert {name: (one.files, one.partitions * one.rows) for name, one in SHAPES.items()} == {
        "tiny": (200, 20_000),
        "rows": (8, 8_000_000),
        "many": (2000, 20_000),
    }
    assert QUICK.keys() == SHAPES.keys()
    assert all(one.rows % max(one.values, 1) == 0 for one in (*SHAPES.values(), *QUICK.values()))


def test_group_hands_figures_sides_and_fallbacks_to_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}

    def run(directory: Path, **how: Any) -> Results:
        asked.update(how, directory=directory)
        return replace(results(), fallbacks={"PutObject": 2})

    monkeypatch.setattr(hadoop, "run", run)
    session = Session(rounds=4, quick=True, quiet=True)
    found = measure_of("hadoop")(session)
    assert found == results().figures
    assert (asked["quick"], asked["rounds"]) == (True, 4)
    assert not asked["directory"].exists()
    assert session.fallbacks == {"PutObject": 2}
    assert session.versions["hadoop"] == "3.5.0"
    assert {one.group for one in session.sides} == {
        *("directly, 1000 files", "directly, 5000 files", "directly, 20000 files, stub"),
        "Spark, first write",
        *(f"Spark, {name}" for name in SHAPES),
        *(f"Spark reads, {place}" for place in hadoop_reads.PLACES),
    }


def test_jars_are_kept_in_the_environment_of_tox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOX_ENV_DIR", str(tmp_path / "bench-hadoop"))
    with hadoop.scratch() as directory:
        assert directory.parent == tmp_path / "bench-hadoop" / "tmp"
        assert directory.is_dir()
    assert not directory.exists()


# -- jars ------------------------------------------------------------------------------------------------


def test_jars_are_those_of_the_hadoop_that_pyspark_has() -> None:
    version = hadoop_jars.hadoop_version(["spark-core_2.13-4.1.0.jar", "hadoop-client-api-3.4.2.jar"])
    assert version == "3.4.2"
    with pytest.raises(hadoop_jars.MissingTool, match="no hadoop-client-api"):
        hadoop_jars.hadoop_version(["hadoop-client-runtime-3.4.2.jar"])


def test_project_file_asks_for_the_connector_without_the_bundle_of_all_services() -> None:
    project = ET.fromstring(hadoop_jars.pom_text("3.4.2"))
    found = {
        one.findtext(f"{POM}artifactId"): one.findtext(f"{POM}version")
        for one in project.iter(f"{POM}dependency")
    }
    assert found["hadoop-aws"] == "3.4.2" == project.findtext(f"{POM}parent/{POM}version")
    assert found["s3"] == "${aws-java-sdk-v2.version}"
    assert "bundle" not in found
    assert "bundle" in {one.findtext(f"{POM}artifactId") for one in project.iter(f"{POM}exclusion")}


def test_project_file_of_an_older_hadoop_brings_its_client_and_its_generation_of_the_sdk() -> None:
    project = ET.fromstring(hadoop_jars.pom_text("3.3.6", own_client=True))
    found = {
        one.findtext(f"{POM}artifactId"): one.findtext(f"{POM}version")
        for one in project.iter(f"{POM}dependency")
    }
    assert found["hadoop-client-api"] == found["hadoop-client-runtime"] == "3.3.6"
    assert found["aws-java-sdk-s3"] == "${aws-java-sdk.version}"
    assert "aws-java-sdk-bundle" in {
        one.findtext(f"{POM}artifactId") for one in project.iter(f"{POM}exclusion")
    }


def test_without_maven_it_fails_and_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(hadoop_jars.MissingTool, match=r"no mvn here.* apt-get install maven"):
        hadoop_jars.make(tmp_path)


@pytest.mark.process
def test_tool_that_fails_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    maven = tmp_path / "mvn"
    maven.write_text("#!/bin/sh\necho Could not transfer artifact\nexit 1\n")
    maven.chmod(0o755)
    monkeypatch.setattr(hadoop_jars, "_compiler", lambda: "javac")
    monkeypatch.setattr(hadoop_jars, "hadoop_version", lambda: "3.4.2")
    monkeypatch.setattr(hadoop_jars, "_tool", lambda *_: str(maven))
    with pytest.raises(hadoop_jars.MissingTool, match=r"(?s)Maven Central or a mirror.*Could not transfer"):
        hadoop_jars.make(tmp_path)


def test_command_ends_with_2_where_something_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    assert hadoop.main(["--quick"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "nothing was measured: " in captured.err
    assert "install" in captured.err


def test_unknown_part_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        hadoop.main(["--only", "directly,flink"])
    assert "--only knows directly, stub, first, spark, reads, not flink" in capsys.readouterr().err
