"""One file per format and generation, Hadoop's as Hadoop writes it. A writer that changes shows here."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from magicfs.errors import FormatError
from magicfs.formats import deletions
from magicfs.formats.deletions import OldObject
from magicfs.formats.hadoop_uri import encode
from magicfs.formats.job_object import Chunk, JobObject, OldSuccess, SeenPointer
from magicfs.formats.kinds import load
from magicfs.formats.manifest import Manifest, ManifestFile
from magicfs.formats.pending import EtagFormat, Pending, UploadedPart
from magicfs.formats.pendingset import PendingSet
from magicfs.formats.pointer import Pointer
from magicfs.formats.statistics import MeanStatistic, Statistics
from magicfs.formats.success import SuccessData, manifest_success
from magicfs.formats.task_manifest import DirectoryEntry, EntryStatus, FileEntry, TaskManifest
from magicfs.protocol.ids import JobId
from magicfs.protocol.job_state import JobState

GOLDEN = Path(__file__).parents[2] / "golden"
ATTEMPT = "attempt_202311142213_0001_m_000002_0"
WORK = f"s3a://lake/trips/__magic_job-5f1e/job-5f1e/00/tasks/{ATTEMPT}/__base"
GENERATIONS: list[tuple[str, EtagFormat]] = [("g2", "string"), ("g3", "object")]
ALL = [
    "g2.pending",
    "g2.pendingset",
    "g3.pending",
    "g3.pendingset",
    "s3a_SUCCESS.json",
    "manifest_committer_SUCCESS.json",
    "manifest_committer_task-manifest.json",
    "magicfs_manifest_1.json",
    "magicfs_pointer_1.json",
    "magicfs_job_1.json",
    "magicfs_deletions_1.json",
]

STREAM = Statistics(
    counters={"stream_write_bytes": 8388725, "stream_write_block_uploads": 2},
    gauges={"stream_write_block_uploads_pending": 0},
    minimums={"object_multipart_initiated.min": 31},
    maximums={"object_multipart_initiated.max": 31},
    meanstatistics={"object_multipart_initiated.mean": MeanStatistic(1, 31)},
)


def golden(name: str) -> bytes:
    return (GOLDEN / name).read_bytes()


def pending(etag_format: EtagFormat, name: str, parts: int, length: int, **ids: str) -> Pending:
    checksums = ("CRC32C", "yZRlqg==") if etag_format == "object" else (None, None)
    first, rest = UploadedPart('"11cafe"', *checksums), (UploadedPart('"22cafe"'),)
    return Pending(
        uri=encode(f"{WORK}/{name}"),
        upload_id=f"upload-{parts}",
        bucket="lake",
        destination_key=f"trips/{name}",
        parts=(first, *rest[: parts - 1]),
        length=length,
        **ids,
    ).touched(1700000000000)


def sample_pending(etag_format: EtagFormat, **ids: str) -> Pending:
    return pending(etag_format, "city=Zürich/50% +#1 è.parquet", 2, 8388725, **ids)


def sample_set(etag_format: EtagFormat) -> PendingSet:
    ids = {"job_id": "5f1e", "task_id": ATTEMPT}
    large = sample_pending(etag_format, **ids)
    empty = pending(etag_format, "city=東京/part-0.parquet", 1, 0, **ids)
    return PendingSet(job_id="5f1e", commits=(large, empty), statistics=STREAM)


S3A_SUCCESS = SuccessData(
    hostname="driver-7/10.1.2.3",
    committer="magic",
    description="Task committer attempt_202311142213_0001_m_000000_0",
    job_id="5f1e",
    job_id_source="spark.sql.sources.writeJobUUID",
    metrics={"object_put_requests": 9, "op_create": 2},
    diagnostics={
        "fs.s3a.committer.threads": "8",
        "fs.s3a.connection.maximum": "500",
        "fs.s3a.threads.max": "96",
    },
    filenames=("/trips/city=Zürich/50% +#1 è.parquet", "/trips/city=東京/part-0.parquet"),
    statistics=Statistics(
        counters={"committer_commits_completed": 2, "committer_bytes_committed": 8388725},
        minimums={"committer_commit_job.min": 812},
        maximums={"committer_commit_job.max": 812},
        meanstatistics={"committer_commit_job.mean": MeanStatistic(1, 812)},
    ),
).touched(1700000100000)

MANIFEST_SUCCESS = SuccessData(
    timestamp_ms=1767225700000,
    date="2026-01-01T00:01:40Z",
    hostname="driver-1/10.0.0.5",
    committer="org.apache.hadoop.mapreduce.lib.output.committer.manifest.ManifestCommitter",
    job_id="7d0c",
    job_id_source="JobID",
    diagnostics={
        "mapreduce.manifest.committer.io.threads": "32",
        "principal": "alice",
        "stage": "committer_commit_job",
    },
    filenames=("abfs://data@demoacct/sales/year=2026/part%20three.csv",),
    statistics=Statistics(
        counters={"committer_tasks_completed": 1, "committer_bytes_committed": 5242999},
        gauges={"stage.setup.heap.memory": 104857600},
        minimums={"op_rename.min": 12},
        maximums={"op_rename.max": 12},
        meanstatistics={"op_rename.mean": MeanStatistic(1, 12)},
    ),
)


_SALES = "abfs://data@demoacct/sales"
_TASK_WORK = f"{_SALES}/_temporary/7d0c/00/tasks/attempt_202601010000_0001_m_000003_0"
_NAMES = ("year=2026/part three.csv", "year=2026/city=Zürich/50% +#1.csv")

TASK_MANIFEST = TaskManifest(
    job_id="7d0c",
    task_id="task_202601010000_0001_m_000003",
    attempt_id="attempt_202601010000_0001_m_000003_0",
    attempt_directory=_TASK_WORK,
    files=(
        FileEntry(
            encode(f"{_TASK_WORK}/{_NAMES[0]}"), encode(f"{_SALES}/{_NAMES[0]}"), 5242999, "0x8DC0FFEE"
        ),
        FileEntry(encode(f"{_TASK_WORK}/{_NAMES[1]}"), encode(f"{_SALES}/{_NAMES[1]}"), 0),
    ),
    directories=(
        DirectoryEntry(f"{_SALES}/year=2026", EntryStatus.DIR, 1),
        DirectoryEntry(f"{_SALES}/year=2026/city=Zürich", EntryStatus.NOT_FOUND, 2),
    ),
    statistics=Statistics(
        counters={"task_stage_scan_directory": 1},
        minimums={"task_stage_scan_directory.min": 12},
        maximums={"task_stage_scan_directory.max": 12},
        meanstatistics={"committer_task_file_size": MeanStatistic(2, 5242999)},
    ),
)

MANIFEST = Manifest(
    job_id="0c9d2f7e-4a31-4f0e-9a52-6d1f0f7b8e11",
    run_id="día 1/2026-01-31",
    bucket="lake",
    destination="trips",
    conflict="replace_partitions",
    committed_ms=1700000100000,
    previous="5f1e",
    hides="keys",
    deleted=("city=Zürich/50% +#1 è.parquet",),
    partitions=("city=Zürich", "city=東京"),
    older_files=True,
    files=(
        ManifestFile(
            key="city=Zürich/part-0-000000-0c9d2f7e-4a31-4f0e-9a52-6d1f0f7b8e11.parquet",
            size=8388725,
            etag='"11cafe-2"',
            checksum="CRC64NVME:AAAAAAAAAAA=",
            write_id="8a5c",
        ),
        ManifestFile(key="city=東京/part 1.parquet", size=0, etag=""),
    ),
)

POINTER = Pointer(
    job_id="0c9d2f7e-4a31-4f0e-9a52-6d1f0f7b8e11",
    nonce="77aa",
    changed_ms=1700000100001,
    runs=(("día 0", "5f1e"), ("día 1/2026-01-31", "0c9d2f7e-4a31-4f0e-9a52-6d1f0f7b8e11")),
)


_FACTS = (
    "trips/__magic_job-0c9d2f7e-4a31-4f0e-9a52-6d1f0f7b8e11/job-0c9d2f7e-4a31-4f0e-9a52-6d1f0f7b8e11/facts"
)

JOB = JobObject(
    job_id=JobId("0c9d2f7e-4a31-4f0e-9a52-6d1f0f7b8e11"),
    bucket="lake",
    destination="trips",
    state=JobState.COMMITTING,
    nonce="77aa",
    driver="88bb",
    attempt=1,
    conflict="replace_partitions",
    unique_names=False,
    tracking="memory",
    run_id="día 1/2026-01-31",
    created_ms=1700000000000,
    changed_ms=1700000100000,
    host="driver-7",
    tasks=2,
    files=3,
    size=8388725,
    chunks=(Chunk(f"{_FACTS}/66cc/00000.json", "ab" * 32, 3, 8388725),),
    deletions=(Chunk(f"{_FACTS}/55dd/deletions-00000.json", "cd" * 32, 2, 4096),),
    partitions=("city=Zürich", "city=東京"),
    pointer=SeenPointer("5f1e", '"11cafe"'),
    older_files=True,
    old_success=OldSuccess(f"{_FACTS}/66cc/_SUCCESS", "ef" * 32, '"22cafe"'),
    equal_keys=("trips/city=Zürich/50% +#1 è.parquet",),
    irreversible=True,
    reason="",
    unknown={"later": [1, None]},
)

DELETIONS = (
    OldObject("trips/city=Zürich/50% +#1 è.parquet", '"11cafe-2"', 4096),
    OldObject("trips/city=東京/part-0.parquet", '"22cafe"', 0),
)


def with_stream_statistics(found: Pending) -> Pending:
    return replace(found, statistics=STREAM)


@pytest.mark.parametrize(("generation", "etag_format"), GENERATIONS)
def test_pending(generation: str, etag_format: EtagFormat) -> None:
    raw, expected = golden(f"{generation}.pending"), with_stream_statistics(sample_pending(etag_format))
    assert Pending.from_bytes("x.pending", raw) == expected
    assert Pending.from_bytes("x.pending", raw).to_bytes(etag_format) == raw
    assert expected.to_bytes(etag_format) == raw


@pytest.mark.parametrize(("generation", "etag_format"), GENERATIONS)
def test_pendingset(generation: str, etag_format: EtagFormat) -> None:
    raw, expected = golden(f"{generation}.pendingset"), sample_set(etag_format)
    assert PendingSet.from_bytes("t.pendingset", raw) == expected
    assert PendingSet.from_bytes("t.pendingset", raw).to_bytes(etag_format) == raw
    assert expected.to_bytes(etag_format) == raw


def test_success_of_s3a() -> None:
    raw = golden("s3a_SUCCESS.json")
    assert SuccessData.from_bytes("_SUCCESS", raw) == S3A_SUCCESS
    assert S3A_SUCCESS.to_bytes() == raw


def test_success_of_the_manifest_committer() -> None:
    assert SuccessData.from_bytes("_SUCCESS", golden("manifest_committer_SUCCESS.json")) == MANIFEST_SUCCESS
    assert SuccessData.from_bytes("_SUCCESS", MANIFEST_SUCCESS.to_bytes()) == MANIFEST_SUCCESS
    assert manifest_success(MANIFEST_SUCCESS) == golden("manifest_committer_SUCCESS.json")


def test_task_manifest_of_the_manifest_committer() -> None:
    raw = golden("manifest_committer_task-manifest.json")
    assert TaskManifest.from_bytes("x-manifest.json", raw) == TASK_MANIFEST
    assert TASK_MANIFEST.to_bytes() == raw


def test_manifest() -> None:
    raw = golden("magicfs_manifest_1.json")
    assert Manifest.from_bytes("_magicfs/x.json", raw) == MANIFEST
    assert MANIFEST.to_bytes() == raw


def test_pointer() -> None:
    raw = golden("magicfs_pointer_1.json")
    assert Pointer.from_bytes("_magicfs/current.json", raw) == POINTER
    assert POINTER.to_bytes() == raw


def test_job_object() -> None:
    raw = golden("magicfs_job_1.json")
    assert JobObject.from_bytes("job.json", raw) == JOB
    assert JOB.to_bytes() == raw


def test_deletions() -> None:
    raw = golden("magicfs_deletions_1.json")
    assert deletions.read("deletions-00000.json", raw) == DELETIONS
    assert deletions.write(DELETIONS) == raw


def test_no_golden_file_is_left_out() -> None:
    ours = {
        path.name
        for path in GOLDEN.iterdir()
        if path.name.endswith((".pending", ".pendingset", "_SUCCESS.json", "-manifest.json"))
        or path.name.startswith("magicfs_")
    }
    assert ours == set(ALL)


@pytest.mark.parametrize("name", ALL)
def test_cut_off_anywhere_it_cannot_be_believed(name: str) -> None:
    raw = golden(name)
    path = "_SUCCESS" if "SUCCESS" in name else name
    assert load(path, raw)
    for length in range(len(raw)):
        with pytest.raises(FormatError):
            load(path, raw[:length])
