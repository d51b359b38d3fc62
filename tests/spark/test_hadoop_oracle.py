"""Hadoop's own classes, which PySpark's jars hold, read our files, and ours read theirs.

One JVM for all cases, that of the session. S3A's ``SinglePendingCommit`` and ``PendingSet`` are in no jar of
PySpark's: ``tox run -e hadoop`` asks them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET
from zipfile import ZipFile

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

import magicfs
from benchmarks.hadoop_jars import hadoop_version, spark_jars
from magicfs.errors import FormatError
from magicfs.formats.hadoop_uri import encode
from magicfs.formats.statistics import MeanStatistic, Statistics
from magicfs.formats.success import SuccessData, manifest_success
from magicfs.formats.task_manifest import DirectoryEntry, FileEntry, TaskManifest
from magicfs.hadoop import from_hadoop_conf

GOLDEN = Path(__file__).parents[1] / "golden"
HOSTILE = [
    "part-0.csv",
    "día 50%.csv",
    "a+b#c?.csv",
    "x=%2F&y.csv",
    'quo"te\\.csv',
    "日本/数.csv",
    "e\u0301.csv",
]
LONG_MAX = 2**63 - 1
STATISTICS = Statistics(
    counters={"committer_tasks_completed": 3, "ünï": LONG_MAX},
    gauges={"stream_write_queue": -1},
    minimums={"task.min": -1},
    maximums={"task.max": LONG_MAX},
    meanstatistics={"task.mean": MeanStatistic(4, 41), "none": MeanStatistic(0, 0)},
)
SUCCESS = SuccessData(
    timestamp_ms=1_700_000_000_000,
    date="Tue Nov 14 22:13:20 UTC 2023",
    hostname="host",
    committer="magic",
    description="a job",
    job_id="7d0c",
    job_id_source="magicfs",
    diagnostics={"magicfs.mode": "append", "ü b": 'a "quoted"\nline'},
    filenames=tuple(f"/sales/{name}" for name in HOSTILE),
    statistics=STATISTICS,
)
BASE = "s3a://bucket/" + encode("día 50%/sales")
MANIFEST = TaskManifest(
    job_id="7d0c",
    job_attempt=2,
    task_id="task_202601010000_0001_m_000003",
    attempt_id="attempt_202601010000_0001_m_000003_0",
    attempt_directory=f"{BASE}/_temporary/x",
    files=tuple(
        FileEntry(
            f"{BASE}/_temporary/x/{encode(name)}", f"{BASE}/{encode(name)}", number * 2**40, f'"{number}"'
        )
        for number, name in enumerate(HOSTILE)
    ),
    directories=tuple(DirectoryEntry(f"{BASE}/p={number}", number, number + 1) for number in range(3)),
    statistics=STATISTICS,
    extra_data={"k ü": "v"},
)


class Oracle:
    """Hadoop's classes."""

    def __init__(self, spark: SparkSession) -> None:
        context: Any = spark.sparkContext
        self.jvm = context._jvm
        self.hadoop = self.jvm.org.apache.hadoop
        self.files = self.hadoop.mapreduce.lib.output.committer.manifest.files

    def read(self, kind: str, raw: bytes) -> Any:
        """What Hadoop's class makes of a file, valid."""
        value = self.serializer(kind).fromBytes(bytearray(raw))
        return value if kind == "IOStatisticsSnapshot" else value.validate()

    def write(self, kind: str, value: Any) -> bytes:
        """The file that Hadoop makes of a value."""
        return bytes(self.serializer(kind).toBytes(value))

    def path(self, name: str, *, is_uri: bool) -> str:
        """The path that Hadoop reads from a name of a file."""
        return str((self.jvm.java.net.URI(name) if is_uri else self.hadoop.fs.Path(name).toUri()).getPath())

    def serializer(self, kind: str) -> Any:
        """``JsonSerialization`` of a class."""
        if kind == "IOStatisticsSnapshot":
            return self.hadoop.fs.statistics.IOStatisticsSnapshot.serializer()
        return getattr(self.files, kind).serializer()


@pytest.fixture(scope="module")
def oracle(spark: SparkSession) -> Oracle:
    return Oracle(spark)


def plain(success: SuccessData) -> SuccessData:
    """Without what only S3A's writes: Hadoop's manifest committer drops nulls."""
    return replace(success, unknown={})


@pytest.mark.parametrize("write", [SuccessData.to_bytes, manifest_success], ids=["s3a", "manifest"])
def test_success_of_ours_is_read_by_hadoop(oracle: Oracle, write: Callable[[SuccessData], bytes]) -> None:
    theirs = oracle.read("ManifestSuccessData", write(SUCCESS))
    assert (theirs.getJobId(), theirs.getCommitter()) == ("7d0c", "magic")
    assert list(theirs.getFilenames()) == list(SUCCESS.filenames)
    assert dict(theirs.getDiagnostics()) == SUCCESS.diagnostics
    assert theirs.getTimestamp() == SUCCESS.timestamp_ms
    counters = theirs.getIOStatistics().counters()
    assert dict(counters) == STATISTICS.counters


@pytest.mark.parametrize("write", [SuccessData.to_bytes, manifest_success], ids=["s3a", "manifest"])
def test_success_that_hadoop_writes_again_says_the_same(
    oracle: Oracle, write: Callable[[SuccessData], bytes]
) -> None:
    raw = oracle.write("ManifestSuccessData", oracle.read("ManifestSuccessData", write(SUCCESS)))
    assert plain(SuccessData.from_bytes("_SUCCESS", raw)) == SUCCESS


def job_on_disk(directory: Path, committer: str) -> magicfs.Job:
    """A job with hostile names."""
    return magicfs.Job(f"file://{directory}/día 50% + #1", committer=committer)


def write_hostile(task: magicfs.Task) -> None:
    for name in ("p=ü 1/a+b.csv", "p=2/c%d.csv"):
        task.filesystem.makedirs(f"{task.path}/{name.partition('/')[0]}", exist_ok=True)
        task.filesystem.pipe_file(f"{task.path}/{name}", b"x,1\n")


@pytest.mark.parametrize("committer", ["manifest", "file"])
def test_success_that_a_job_leaves_is_read_by_hadoop(oracle: Oracle, tmp_path: Path, committer: str) -> None:
    with job_on_disk(tmp_path, committer) as job, job.task(0) as task:
        write_hostile(task)
    raw = (tmp_path / "día 50% + #1" / "_SUCCESS").read_bytes()
    theirs = oracle.read("ManifestSuccessData", raw)
    assert (theirs.getJobId(), theirs.getCommitter()) == (job.id, committer)
    # As Hadoop reads a path from them: each is a file that is there. Only the manifest committer's are URIs.
    found = [Path(oracle.path(one, is_uri=committer == "manifest")) for one in theirs.getFilenames()]
    assert len(found) == 2
    assert all(one.is_file() for one in found)


@pytest.mark.parametrize("committer", ["manifest", "file"])
def test_manifests_that_tasks_leave_are_read_by_hadoop_and_name_files_that_are_there(
    oracle: Oracle, tmp_path: Path, committer: str
) -> None:
    with job_on_disk(tmp_path, committer) as job:
        for number in range(2):
            with job.task(number) as task:
                write_hostile(task)
        found = sorted(tmp_path.glob("*/_temporary/*/00/manifests/*-manifest.json"))
        assert len(found) == 2
        moves = []
        for path in found:
            theirs = oracle.read("TaskManifest", path.read_bytes())
            assert (theirs.getJobId(), theirs.getTotalFileSize()) == (job.id, 8)
            assert path.name == f"{theirs.getTaskAttemptID()}-manifest.json"
            directories = {one.getDestPath().toUri().getPath() for one in theirs.getDestDirectories()}
            assert {Path(one).name for one in directories} == {"p=ü 1", "p=2"}
            for entry in theirs.getFilesToCommit():
                source = Path(entry.getSourcePath().toUri().getPath())
                assert (entry.getSize(), source.read_bytes()) == (4, b"x,1\n")
                moves.append(entry.getDestPath().toUri().getPath())
    # Where Hadoop would rename them to they are, now that the job is published.
    assert len(set(moves)) == 4
    assert all(Path(one).is_file() for one in moves)


def test_manifest_of_ours_is_read_by_hadoop(oracle: Oracle) -> None:
    theirs = oracle.read("TaskManifest", MANIFEST.to_bytes())
    assert theirs.getTaskAttemptID() == MANIFEST.attempt_id
    assert theirs.getTotalFileSize() == MANIFEST.size
    for mine, entry in zip(MANIFEST.files, theirs.getFilesToCommit(), strict=True):
        assert (entry.getSource(), entry.getDest()) == (mine.source, mine.destination)
        assert (entry.getSize(), entry.getEtag()) == (mine.size, mine.etag)
    # The path that Hadoop will rename to.
    paths = [entry.getDestPath().toUri().getPath() for entry in theirs.getFilesToCommit()]
    assert paths == [f"/día 50%/sales/{name}" for name in HOSTILE]


def test_manifest_that_hadoop_writes_again_says_the_same(oracle: Oracle) -> None:
    raw = oracle.write("TaskManifest", oracle.read("TaskManifest", MANIFEST.to_bytes()))
    assert replace(TaskManifest.from_bytes("d/t-manifest.json", raw), unknown={}) == MANIFEST


def test_manifest_that_hadoop_makes_is_read_by_us(oracle: Oracle) -> None:
    path = oracle.hadoop.fs.Path
    theirs = oracle.files.TaskManifest()
    theirs.setJobId("7d0c")
    theirs.setJobAttemptNumber(1)
    theirs.setTaskID("task_1")
    theirs.setTaskAttemptID("attempt_1")
    theirs.setTaskAttemptDir("s3a://bucket/x")
    for number, name in enumerate(HOSTILE):
        entry = oracle.files.FileEntry(
            path(f"s3a://bucket/tmp/{name}"), path(f"s3a://bucket/sales/{name}"), number, f"e{number}"
        )
        theirs.addFileToCommit(entry)
    ours = TaskManifest.from_bytes("d/t-manifest.json", oracle.write("TaskManifest", theirs))
    assert [one.destination for one in ours.files] == [
        f"s3a://bucket/sales/{encode(name)}" for name in HOSTILE
    ]
    assert [(one.size, one.etag) for one in ours.files] == [(n, f"e{n}") for n in range(len(HOSTILE))]
    assert (ours.job_id, ours.job_attempt, ours.attempt_id) == ("7d0c", 1, "attempt_1")


def test_success_that_hadoop_makes_is_read_by_us(oracle: Oracle) -> None:
    theirs = oracle.files.ManifestSuccessData()
    theirs.setName(oracle.files.ManifestSuccessData.NAME)
    theirs.setSuccess(False)
    theirs.setState("FAILED")
    theirs.setTimestamp(LONG_MAX)
    theirs.setJobId("7d0c")
    theirs.setDescription("día")
    theirs.putDiagnostic("ü", "")
    theirs.recordJobFailure(oracle.jvm.java.io.IOException("it broke: ü"))
    ours = SuccessData.from_bytes("_SUCCESS", oracle.write("ManifestSuccessData", theirs))
    assert (ours.success, ours.state, ours.timestamp_ms) == (False, "FAILED", LONG_MAX)
    assert (ours.job_id, ours.description) == ("7d0c", "día")
    assert "it broke: ü" in "".join(ours.diagnostics.values())


def test_statistics_are_the_same_on_both_sides(oracle: Oracle) -> None:
    marker = replace(SUCCESS, statistics=STATISTICS)
    theirs = oracle.read("ManifestSuccessData", marker.to_bytes()).getIOStatistics()
    again = oracle.write("IOStatisticsSnapshot", theirs)
    snapshot = oracle.read("IOStatisticsSnapshot", again)
    snapshot.aggregate(theirs)
    theirs_twice = replace(marker, statistics=Statistics())
    read = oracle.read("ManifestSuccessData", theirs_twice.to_bytes())
    read.setIOStatistics(snapshot)
    ours = SuccessData.from_bytes("_SUCCESS", oracle.write("ManifestSuccessData", read))
    # As HADOOP-16830 adds snapshots up, and ours do.
    assert ours.statistics.counters["committer_tasks_completed"] == 6
    assert ours.statistics.minimums == (STATISTICS + STATISTICS).minimums
    assert ours.statistics.maximums == (STATISTICS + STATISTICS).maximums
    mean = ours.statistics.meanstatistics["task.mean"]
    assert (mean.samples, mean.sum) == (8, 82)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("ManifestSuccessData", "s3a_SUCCESS.json"),
        ("ManifestSuccessData", "manifest_committer_SUCCESS.json"),
        ("ManifestSuccessData", "stocator_SUCCESS.json"),
        ("TaskManifest", "manifest_committer_task-manifest.json"),
    ],
)
def test_golden_file_is_valid_for_hadoop(oracle: Oracle, kind: str, name: str) -> None:
    assert oracle.read(kind, (GOLDEN / name).read_bytes()) is not None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"name":"org', b'"name":"com'),
        (b'"success":true', b'"success":[]'),
        (b'"filenames":[', b'"filenames":[{},'),
    ],
)
def test_broken_success_is_refused_by_both(oracle: Oracle, old: bytes, new: bytes) -> None:
    raw = SUCCESS.to_bytes()
    broken = raw.replace(old, new, 1)
    if broken == raw:
        pytest.fail(f"{old!r} is not in the file: {raw[:200]!r}")
    with pytest.raises(Py4JJavaError):
        oracle.read("ManifestSuccessData", broken)
    with pytest.raises(FormatError):
        SuccessData.from_bytes("_SUCCESS", broken)


def _defaults() -> dict[str, str]:
    """All options that Hadoop knows, as its own files of defaults set them."""
    found = {}
    for jar in spark_jars().glob("hadoop-client-api-*.jar"):
        with ZipFile(jar) as archive:
            for name in ("core-default.xml", "mapred-default.xml"):
                for one in ET.fromstring(archive.read(name)):
                    found[one.findtext("name", "")] = one.findtext("value", "")
    return found


@pytest.mark.sample(most=3)
@pytest.mark.parametrize("committer", ["file", "directory", "partitioned", "magic"])
@pytest.mark.parametrize("url", ["s3a://bucket/x", "abfs://c@a.dfs.core.windows.net/x", "gs://bucket/x"])
def test_defaults_of_a_release_are_those_of_its_own_files(
    url: str, committer: str, caplog: pytest.LogCaptureFixture
) -> None:
    """All of Hadoop's own defaults are understood, and change nothing of what ``hadoop=`` knows by itself."""
    release = hadoop_version()
    named = {"fs.s3a.committer.name": committer}
    assert from_hadoop_conf(_defaults() | named, url, hadoop=release) == from_hadoop_conf(
        named, url, hadoop=release
    )
    assert from_hadoop_conf(_defaults(), url, hadoop=release) == from_hadoop_conf({}, url, hadoop=release)
    assert from_hadoop_conf(_defaults(), url, hadoop=release).storage_options == {}
    assert caplog.text == ""
