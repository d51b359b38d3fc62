"""What holds of every persisted format. ``FORMATS`` is the table of them.

What is special to one format has a module of its own beside this one.
"""

from __future__ import annotations

import builtins
import collections.abc
import contextlib
import copy
import inspect
import json
import pickle
import re
import sys
import types
import typing
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicfs.alias.records import AliasName, Claim, Copy
from magicfs.classic.records import FILE_LIST_FORMAT, FileList, Winners
from magicfs.cli.main import main
from magicfs.errors import FormatError, UsageError
from magicfs.formats import deletions, limits
from magicfs.formats.audit import Audit, Verdict
from magicfs.formats.deletions import (
    DELETIONS_FORMAT,
    OldObject,
)
from magicfs.formats.document import member
from magicfs.formats.fields import LONG_MAX
from magicfs.formats.footer import Field, FileFooters, Footer, Schema, Values
from magicfs.formats.hadoop_uri import encode
from magicfs.formats.job_location import JobLocation
from magicfs.formats.job_object import (
    Chunk,
    JobObject,
    OldSuccess,
    SeenPointer,
)
from magicfs.formats.job_options import Audits, Collected, Hadoop, JobOptions, Keep, Places, Rollback
from magicfs.formats.kinds import KINDS, detect, load
from magicfs.formats.log import (
    LEVEL_MAX,
    Log,
    LogFile,
    LoggedJob,
    LoggedNames,
    LoggedPart,
    LogNames,
    LogPart,
)
from magicfs.formats.manifest import (
    FilesPart,
    Footers,
    KeptFiles,
    Manifest,
    ManifestFile,
    ManifestFiles,
)
from magicfs.formats.pending import EtagFormat, Pending
from magicfs.formats.pendingset import PendingSet
from magicfs.formats.plain_pending import Body, Source, UploadedPart
from magicfs.formats.pointer import (
    Keeping,
    Pointer,
)
from magicfs.formats.registration import Registration
from magicfs.formats.rows import MOMENT_MAX_MS
from magicfs.formats.statistics import MeanStatistic, Statistics
from magicfs.formats.success import SuccessData, manifest_success
from magicfs.formats.tag import Tag
from magicfs.formats.task_manifest import DirectoryEntry, EntryStatus, FileEntry, TaskManifest
from magicfs.protocol.ids import AttemptId, JobId, TaskId
from magicfs.protocol.job_state import JobState
from magicfs.protocol.modes import REMOVALS, WRITE_MODES
from magicfs.releases.record import RELEASE_FORMAT, Member, Record, Released
from magicfs.testing.strategies import keys
from magicfs.watch.operations import FORMAT as OPERATION_FORMAT
from magicfs.watch.operations import Operation

ROOT = Path(__file__).parents[3]
GOLDEN = ROOT / "tests" / "golden"
PATH = "bucket/d/some file"


@dataclass(frozen=True, kw_only=True)
class Format:
    """One format and generation."""

    golden: str
    value: Any  # what the golden file says
    read: Callable[..., Any]
    write: Callable[[Any], bytes]
    made: st.SearchStrategy[Any] | None  # any value; None where another entry of the table makes them
    kind: str | None  # None for what is never a file of its own
    required: tuple[str, ...]  # fields without which nothing can be read
    refused: dict[str, list[Any]]  # values of the right type that a field may not have
    ignored: tuple[str, ...] = ()  # fields that may hold anything
    kept: tuple[str, ...] = ()  # objects below the top whose unknown fields are kept
    own: str | None = None  # our name for it, with a version
    text: str | None = None  # an attribute that any text may be in
    forgets: bool = False  # whether unknown fields are dropped

    @property
    def raw(self) -> bytes:
        return (GOLDEN / self.golden).read_bytes()

    @property
    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.raw)
        return found


# -- golden values ---------------------------------------------------------------------------------------

ATTEMPT = "attempt_202311142213_0001_m_000002_0"
JOB_ID = JobId("0c9d2f7e-4a31-4f0e-9a52-6d1f0f7b8e11")
NAMES = ("city=Zürich/50% +#1 è.parquet", "city=東京/part-0.parquet")
STREAM = Statistics(
    counters={"stream_write_bytes": 8388725, "stream_write_block_uploads": 2},
    gauges={"stream_write_block_uploads_pending": 0},
    minimums={"object_multipart_initiated.min": 31},
    maximums={"object_multipart_initiated.max": 31},
    meanstatistics={"object_multipart_initiated.mean": MeanStatistic(1, 31)},
)


def pending(etag_format: EtagFormat, name: str, parts: int, length: int, **ids: str) -> Pending:
    checksums = ("CRC32C", "yZRlqg==") if etag_format == "object" else (None, None)
    first, rest = UploadedPart('"11cafe"', *checksums), (UploadedPart('"22cafe"'),)
    return Pending(
        uri=encode(f"s3a://lake/trips/__magic_job-5f1e/job-5f1e/00/tasks/{ATTEMPT}/__base/{name}"),
        upload_id=f"upload-{parts}",
        bucket="lake",
        destination_key=f"trips/{name}",
        parts=(first, *rest[: parts - 1]),
        length=length,
        **ids,
    ).touched(1700000000000)


def pending_file(etag_format: EtagFormat) -> Pending:
    return replace(pending(etag_format, NAMES[0], 2, 8388725), statistics=STREAM)


def pending_set(etag_format: EtagFormat) -> PendingSet:
    ids = {"job_id": "5f1e", "task_id": ATTEMPT}
    large, empty = (
        pending(etag_format, NAMES[0], 2, 8388725, **ids),
        pending(etag_format, NAMES[1], 1, 0, **ids),
    )
    return PendingSet(job_id="5f1e", commits=(large, empty), statistics=STREAM)


def with_bodies(value: PendingSet) -> PendingSet:
    """A pending set of small files: with bodies in a bundle in place of uploads."""
    key = "trips/__magic_job-5f1e/job-5f1e/00/bundles/attempt-000000-a1.00001"
    bodies = [Body(key, 7 * number, "0123456789abcdef" * 4) for number, _ in enumerate(value.commits)]
    commits = zip(value.commits, bodies, strict=True)
    return replace(
        value, commits=tuple(replace(one, upload_id="", parts=(), body=body) for one, body in commits)
    )


def with_sources(value: PendingSet) -> PendingSet:
    """A set of files that are renamed, with what such entries keep."""
    work = "trips/_temporary/5f1e/00/tasks/attempt-000000-a1"
    commits = [
        Pending(
            bucket=one.bucket,
            destination_key=one.destination_key,
            job_id=one.job_id,
            task_id=one.task_id,
            source=Source(f"{work}/{number} 50% +#é", '"ab-cd-ef"' if number else ""),
            length=one.length,
            unknown=one.unknown,
        )
        for number, one in enumerate(value.commits)
    ]
    return replace(value, commits=tuple(commits))


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
    filenames=tuple(f"/trips/{name}" for name in NAMES),
    statistics=Statistics(
        counters={"committer_commits_completed": 2, "committer_bytes_committed": 8388725},
        minimums={"committer_commit_job.min": 812},
        maximums={"committer_commit_job.max": 812},
        meanstatistics={"committer_commit_job.mean": MeanStatistic(1, 812)},
    ),
).touched(1700000100000)

WINNERS = Winners({"5f1e": {ATTEMPT: 2}, JOB_ID: {"attempt-000000-a1": 1, "attempt-000001-b2": 0}})
STOCATOR_SUCCESS = WINNERS.written_into(
    SuccessData(hostname="driver-7", committer="stocator", job_id=JOB_ID, filenames=("/trips/part-0.csv",))
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
_RENAMED = ("year=2026/part three.csv", "year=2026/city=Zürich/50% +#1.csv")
TASK_MANIFEST = TaskManifest(
    job_id="7d0c",
    task_id="task_202601010000_0001_m_000003",
    attempt_id="attempt_202601010000_0001_m_000003_0",
    attempt_directory=_TASK_WORK,
    files=(
        FileEntry(
            encode(f"{_TASK_WORK}/{_RENAMED[0]}"), encode(f"{_SALES}/{_RENAMED[0]}"), 5242999, "0x8DC0FFEE"
        ),
        FileEntry(encode(f"{_TASK_WORK}/{_RENAMED[1]}"), encode(f"{_SALES}/{_RENAMED[1]}"), 0),
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
    job_id=JOB_ID,
    run_id="día 1/2026-01-31",
    bucket="lake",
    destination="trips",
    mode="overwrite_partitions",
    committed_ms=1700000100000,
    previous="5f1e",
    hides="keys",
    deleted=(NAMES[0],),
    partitions=("city=Zürich", "city=東京"),
    older_files=True,
    files=(
        ManifestFile(
            key=f"city=Zürich/part-0-000000-{JOB_ID}.parquet",
            size=8388725,
            etag='"11cafe-2"',
            checksum="CRC64NVME:AAAAAAAAAAA=",
            write_id="8a5c",
        ),
        ManifestFile(key="city=東京/part 1.parquet", size=0, etag=""),
    ),
)
MANIFEST_IN_PARTS = replace(
    MANIFEST,
    files=(),
    parts=(
        FilesPart(
            name="00000-0123456789abcdef.json", sha256="0123456789abcdef" * 4, files=20000, size=8388725
        ),
        FilesPart(name="00001-fedcba9876543210.json", sha256="fedcba9876543210" * 4, files=1, size=0),
    ),
)
MANIFEST_OF_VERSIONS = replace(
    MANIFEST,
    files=(replace(MANIFEST.files[0], version="3/L4kqtJlcpXroDTDmJ+rmSpXd3dIbrHY"), MANIFEST.files[1]),
)
MANIFEST_FILES = ManifestFiles(job_id=JOB_ID, files=MANIFEST.files)
SUM = replace(
    MANIFEST,
    run_id=None,
    mode="compact",
    hides="all",
    replaced="5f1e",
    deleted=(),
    partitions=None,
)

MANIFEST_OF_FOOTERS = replace(
    MANIFEST,
    files=(replace(MANIFEST.files[0], rows=3), replace(MANIFEST.files[1], rows=0)),
    footers=Footers(
        rows=3,
        schemas=("0123456789abcdef",),
        lists=(
            FilesPart(name="footers-00000-cdcdcdcdcdcdcdcd.json", sha256="cd" * 32, files=2, size=8388725),
        ),
    ),
)

_SCHEMA = Schema(
    (Field(("n",), "int64", 1), Field(("día", "list", "element"), "string", 3, 1)), "0123456789abcdef"
)
FOOTERS = FileFooters(
    job_id=JOB_ID,
    files={
        NAMES[0]: Footer(
            rows=3,
            format="parquet",
            schema=_SCHEMA,
            values=(Values(1, -5, 7), Values(None, "a", "zz", False)),
            metadata={"who": "ü"},
        ),
        "city=東京/part-1.parquet": Footer(
            rows=1, format="parquet", schema=_SCHEMA, values=(None, Values(1))
        ),
        "city=東京/part 1.csv": Footer(rows=0, format="csv"),
    },
)

SUM_OF_OBJECT_SETTINGS = replace(
    SUM, object_settings={"ACL": "bucket-owner-full-control", "StorageClass": "STANDARD_IA"}
)

POINTER = Pointer(
    job_id=JOB_ID,
    nonce="77aa",
    changed_ms=1700000100001,
    runs=(("día 0", "5f1e"), ("día 1/2026-01-31", JOB_ID)),
)

_SUM_ID = "compact-7d0e2f2c-5b7a-5f5e-9a52-6d1f0f7b8e11-0123456789ab"
LOG_FILE = LogFile(job_id=_SUM_ID, name="log-00002-0123456789abcdef.json", sha256="0123456789abcdef" * 4)
SUM_OF_LOG = replace(SUM, log=LOG_FILE)
LOGGED_POINTER = replace(
    POINTER,
    runs=(("día 2", JOB_ID),),
    log=LOG_FILE,
    keeping=(Keeping(job_id="5f1e", until_ms=1700604900000),),
)
_LOG_PARTS = (
    LogPart(
        job_id="compact-5f1e-0123456789ab",
        name="log-00000-fedcba9876543210.json",
        sha256="fedcba9876543210" * 4,
        level=1,
        jobs=3200,
        oldest_ms=1600000000000,
    ),
    LogPart(
        job_id=_SUM_ID,
        name="log-00001-cdcdcdcdcdcdcdcd.json",
        sha256="cd" * 32,
        level=0,
        jobs=100,
        oldest_ms=1650000000000,
    ),
)
_LOGGED_JOBS = (
    LoggedJob(job_id="4e0d", run_id="día 0", mode="append", committed_ms=1600000000000, files=0, size=0),
    LoggedJob(
        job_id="5f1e",
        mode="overwrite",
        committed_ms=1700000000000,
        files=2,
        size=8388725,
        restores="4e0d",
        kept_until_ms=1700604900000,
    ),
)
LOG = Log(
    job_id=_SUM_ID,
    newest="5f1e",
    jobs=3302,
    runs=3301,
    parts=_LOG_PARTS,
    last=_LOGGED_JOBS,
    names=(LogNames(job_id=_SUM_ID, names=6602, sha256=("ab" * 32, "ef" * 32)),),
    outdated=("compact-5f1e-0123456789ab/names-00000-0123456789abcdef.json",),
)
LOG_PART = LoggedPart(job_id=_SUM_ID, jobs=_LOGGED_JOBS)
LOG_PART_OF_PARTS = LoggedPart(job_id=_SUM_ID, parts=_LOG_PARTS)
LOG_NAMES = LoggedNames(
    job_id=_SUM_ID, runs=(("día 0", "4e0d"), ("día 1/2026-01-31", JOB_ID)), jobs=("4e0d", "5f1e")
)

_FACTS = f"trips/__magic_job-{JOB_ID}/job-{JOB_ID}/facts"
JOB = JobObject(
    job_id=JOB_ID,
    bucket="lake",
    destination="trips",
    state=JobState.COMMITTING,
    nonce="77aa",
    driver="88bb",
    attempt=1,
    options=JobOptions(
        committer="magic",
        mode="overwrite_partitions",
        unique_names=False,
        tracking="memory",
        run_id="día 1/2026-01-31",
    ),
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
    equal_keys=(f"trips/{NAMES[0]}",),
    irreversible=True,
    reason="",
    unknown={"later": [1, None]},
)
_AUDIT = Audit(
    verdicts=(
        Verdict(rule="RowChange(less=0.2, more=None)", passed=False, told="70 rows after 100 (-30.0%)"),
        Verdict(rule="día", passed=True),
    ),
    against="5f1e",
    audited_ms=1700000100000,
)
JUDGED_JOB = replace(JOB, state=JobState.OPEN, audit=_AUDIT, reason="the audit failed", unknown={})
ACCEPTED_JOB = replace(JUDGED_JOB, audit=replace(_AUDIT, accepted="día: weekend"))
MANIFEST_OF_AUDIT = replace(MANIFEST, audit=replace(_AUDIT, accepted="día: weekend"))

JOB_OF_OPTIONS = replace(
    JOB,
    options=JobOptions(
        committer="directory",
        mode="overwrite",
        run_id="día 1/2026-01-31",
        rerun="overwrite",
        success_marker=False,
        unique_names=False,
        tracking="memory",
        part_size=5 * 2**20,
        small_files=64 * 1024,
        keep=Keep(ms=604_800_000, in_place=True, rule="within=1d,daily=7,tagged"),
        collect=Collected(footers=True, checksums=True),
        audit=Audits(rules=("RowChange(less=0.2, more=None)", "día"), unknown={"later": "día"}),
        places=Places(
            extra=("trips-csv", "trips raw/ü"),
            also_overwrite=("trips/old", "trips raw/ü"),
            own_path="trips/__magic/mine",
        ),
        rollback=Rollback(job="5f1e", partitions=("city=Zürich", "city=東京")),
        hadoop=Hadoop(layout="__magic", etag_format="object", sets=True, begun_by="hadoop-magic"),
        unknown={"later": [1, None]},
    ),
    older_extra=("trips raw/ü",),
    object_settings={
        "ACL": "bucket-owner-full-control",
        "SSEKMSKeyId": "schlüssel",
        "ServerSideEncryption": "aws:kms",
    },
    restored=(Chunk(f"{_FACTS}/66cc/restored-00000.json", "ab" * 32, 3, 8388725),),
    hidden=(Chunk(f"{_FACTS}/55dd/hidden-00000.json", "cd" * 32, 2, 4096),),
    numbered_versions=True,
    unknown={},
)
DELETIONS_OF_VERSIONS = (
    OldObject(NAMES[0], '"11cafe-2"', 8388725, "3/L4kqtJlcpXroDTDmJ+rmSpXd3dIbrHY"),
    OldObject("city=東京/part 1.parquet", '"e"', 0),
)
MANIFEST_OF_THE_PAST = replace(
    MANIFEST,
    kept=KeptFiles(
        until_ms=1700604900000,
        lists=(FilesPart(name="kept-00000-cdcdcdcdcdcdcdcd.json", sha256="cd" * 32, files=2, size=4096),),
    ),
    restores="4e0d",
    unknown={},
)
KEEPING_POINTER = replace(
    POINTER,
    keeping=(
        Keeping(job_id="5f1e", until_ms=1700604900000, expires=True),
        Keeping(job_id=JOB_ID, until_ms=1700604900001, unknown={"later": 1}),
    ),
    unknown={},
)
POINTER_OF_LISTS = replace(
    KEEPING_POINTER,
    keeping=(
        Keeping(job_id="5f1e", until_ms=1700604900000, lists=("cd" * 32, "0123456789abcdef" * 4)),
        Keeping(job_id=JOB_ID, until_ms=1700604900001),
    ),
)
TAG = Tag(
    name="quarter-1", job_id=JOB_ID, nonce="77aa", created_ms=1700000100001, unknown={"later": [1, None]}
)
TAG_THAT_KEEPS = replace(TAG, keeps="tag-0c9d2f7e-4a31-4f0e-9a52-6d1f0f7b8e11", unknown={})

REGISTRATION = Registration(
    job_id=JOB_ID,
    catalog="iceberg",
    table="db.día 1",
    options={"catalog": "default", "uriSha256": "abab"},
    line="magicfs maintain 's3://lake/trips' --register iceberg --table 'db.día 1' --catalog-name default",
    unknown={"later": [1, None]},
)

DELETIONS = (
    OldObject(f"trips/{NAMES[0]}", '"11cafe-2"', 4096),
    OldObject(f"trips/{NAMES[1]}", '"22cafe"', 0),
)
JOB_LOCATION = JobLocation(JOB_ID, "trips/city=Zürich")
FILE_LIST = FileList(JOB_ID, "000000", "attempt-000000-a1", ((NAMES[0], 4096), (NAMES[1], 0)))

OPERATION = Operation(
    verb="rollback",
    job_id=JOB_ID,
    action="published",
    when_ms=1700000100000,
    user="zoë",
    host="driver-7",
    reason="día 1 was wrong",
)

CLAIM = Claim(
    nonce="5f0c1d2e3b4a59687786958473625140",
    dataset="lake/sales",
    name="latest é.csv",
    file="a.csv",
    job_id="0b3f2f4e-7c7f-4d39-9c7e-2f1d3a5b6c7d",
    etag='"d41d8cd98f00b204e9800998ecf8427e"',
    done=True,
    copies=(Copy(size=3, write_id="8d0f6c1f0a9b4c3e8d0f6c1f0a9b4c3e"), Copy(size=0)),
)

_HOLD = "release-0123456789abcdef-0123456789ab-01234567"
_MEMBER = Member(name="trips", url="s3://lake/trips", job_id="5f1e", manifest="ab" * 32, hold=_HOLD)
_RELEASED = Released(id="11" * 16, number=1, published_ms=1700000000000, members=(_MEMBER,), run_id="día 0")
RELEASE = Record(
    nonce="77aa",
    changed_ms=1700000100001,
    sweeps=2,
    releases=(
        _RELEASED,
        replace(
            _RELEASED,
            id="22" * 16,
            number=3,
            members=(replace(_MEMBER, name="día 1", url="s3://lake/día 1", job_id=JOB_ID), _MEMBER),
            run_id=None,
            restores="11" * 16,
        ),
    ),
    tags={"quarter 1/ü": "11" * 16},
)

# -- any values ------------------------------------------------------------------------------------------

_numbers = st.integers(0, LONG_MAX)
_hostile = st.text() | st.sampled_from(
    [*'#?%+\\"\x00\u2028é😀', "a b", "50%", "%2F", "Zürich", "東京", "../x", "e\u0301"]
)
_some = _hostile.filter(bool)
_ids = st.from_regex(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,8}", fullmatch=True).map(JobId)
_key = st.builds("{}/{}".format, st.sampled_from(["dataset1", "dataset10", "d"]), _hostile)
_TYPES: dict[Any, st.SearchStrategy[Any]] = {
    JobId: _ids,
    int: _numbers,
    bool: st.booleans(),
    object: _hostile,
    type(None): st.none(),
    **dict.fromkeys((str, TaskId, AttemptId), _some),
}
_ATTRIBUTES: dict[str, st.SearchStrategy[Any]] = {
    "job_id": _ids,
    "key": keys(),
    "sha256": st.just("0123456789abcdef" * 4),
    "unknown": st.dictionaries(_hostile.map("x-{}".format), _hostile, max_size=3),
    "statistics": st.builds(Statistics, st.dictionaries(_hostile, _numbers, max_size=2)),
    "JobOptions.committer": _some,
    "JobOptions.mode": st.sampled_from((*WRITE_MODES, *REMOVALS)),
    "JobOptions.part_size": st.integers(1, 2**40),
    "JobOptions.run_id": st.none() | _some,
    "JobOptions.small_files": st.none() | st.integers(1, 2**40),
    "JobOptions.warn_below": st.none() | st.integers(1, 2**40),
    **dict.fromkeys(("JobOptions.allow_empty", "JobOptions.single_driver"), st.just(False)),
    "JobOptions.inline_limit": st.none(),
    "Keep.ms": st.none() | st.integers(1, 2**40),
    "Rollback.job": st.none() | _ids,
    "Hadoop.begun_by": _hostile,
    "Manifest.restores": st.none() | _ids,
    "Audit.against": st.none() | _ids,
    "Verdict.rule": _ids,
    "KeptFiles.until_ms": st.integers(0, 2**40),
    "Places.own_path": st.none() | keys(),
    "Manifest.job_id": _ids.map("j{}".format),
    "Manifest.previous": st.none() | _ids.map("p{}".format),
    "Manifest.hides": st.just("all"),
    "Manifest.replaced": st.none() | _ids,
    "Pending.destination_key": _key,
    "Pending.upload_id": _some,
    "Pending.body": st.none(),
    "Pending.source": st.none(),
    "Pointer.runs": st.lists(st.tuples(_hostile, _ids), max_size=3, unique_by=lambda one: one[0]).map(tuple),
    "Pointer.forgotten": st.sampled_from(["", "?", "AAAAAA==", "q83vASNFZ4k="]),
    "FilesPart.name": _ids,
    "Tag.keeps": st.just("") | _ids,
    **dict.fromkeys(("LogFile.name", "LogPart.name"), st.just("log-00000-0123456789abcdef.json")),
    "LogPart.level": st.integers(0, LEVEL_MAX),
    "LogNames.sha256": st.just(("0123456789abcdef" * 4,)),
    "Keeping.lists": st.sampled_from([(), ("cd" * 32,), ("cd" * 32, "0123456789abcdef" * 4)]),
    "Log.newest": _ids,
    "Log.outdated": st.just(("a/log-00000-0123456789abcdef.json", "b/names-00001-0123456789abcdef.json")),
    "LoggedJob.restores": st.none() | _ids,
    "Record.nonce": _some,
    "Record.changed_ms": st.integers(0, MOMENT_MAX_MS),
    "Record.tags": st.just({}),
    "Released.id": st.from_regex(r"[0-9a-f]{32}", fullmatch=True),
    "Released.published_ms": st.integers(0, MOMENT_MAX_MS),
    "Released.restores": st.none() | st.just("11" * 16),
    "Member.name": _some.filter(str.isprintable),
    "Member.url": st.sampled_from(["s3://lake/trips", "gs://lake/día 1"]),
    "Member.manifest": st.just("ab" * 32),
    "Member.hold": st.just(_HOLD),
    "FileList.files": st.dictionaries(keys(), _numbers, max_size=3).map(lambda found: tuple(found.items())),
}
_UNIQUE = {
    Pending: "destination_key",
    ManifestFile: "key",
    FileEntry: "destination",
    LogPart: "job_id",
    Released: "id",
    Member: "name",
}


def any_value(made: type) -> st.SearchStrategy[Any]:
    """Any value of a class, whatever its type hints allow: a field that is added is tried here, too."""
    given: dict[str, st.SearchStrategy[Any]] = {}
    hints = get_type_hints(made)
    defaults = {one.name: one.default for one in fields(made)} if is_dataclass(made) else _defaults(made)
    for attribute, default in defaults.items():
        given[attribute] = _hostile if default == "" else _any_of(hints[attribute])
        for name in (attribute, f"{made.__name__}.{attribute}"):
            given[attribute] = _ATTRIBUTES.get(name, given[attribute])
    return st.builds(made, **given)


def _defaults(made: Any) -> dict[str, Any]:
    """The members of a named tuple, each with its default."""
    return dict.fromkeys(made._fields, None) | made._field_defaults


def _any_of(hint: Any) -> st.SearchStrategy[Any]:
    if hint in _TYPES:
        return _TYPES[hint]
    if is_dataclass(hint):
        return any_value(hint)
    inner = get_args(hint)
    match get_origin(hint):
        case typing.Literal:
            return st.sampled_from(inner)
        case types.UnionType:
            return st.one_of(map(_any_of, inner))
        case collections.abc.Mapping:
            return st.dictionaries(_hostile, _any_of(inner[1]), max_size=3)
        case builtins.tuple if inner[-1] is ...:
            name = _UNIQUE.get(inner[0])
            by = (lambda one: getattr(one, name)) if name is not None else None
            least = 1 if inner[0] is UploadedPart else 0
            return st.lists(_any_of(inner[0]), min_size=least, max_size=3, unique_by=by).map(tuple)
        case builtins.tuple:
            return st.tuples(*map(_any_of, inner))
    return st.sampled_from(hint)


def in_order(record: Record) -> Record:
    """The same with releases that are numbered, and a tag for each."""
    releases = tuple(replace(one, number=place) for place, one in enumerate(record.releases, 1))
    return replace(record, releases=releases, tags={f"tag {one.number}": one.id for one in releases})


def etags_alone(value: Pending) -> Pending:
    """A pending upload with nothing of its parts that the older generation lacks."""
    return replace(value, parts=tuple(UploadedPart(part.etag) for part in value.parts))


# -- the table -------------------------------------------------------------------------------------------

_NO_JOB = ["", "../x", "a/b", ".."]
_NO_SIZE = [-1]
_STATISTICS = ("iostatistics",)
_PENDING: dict[str, list[Any]] = {
    "version": [1, 3],
    "uploadId": [""],
    "bucket": [None],
    "destinationKey": ["", "/d/x"],
    "etags": [[], None],
    "etags[0]": ["", None, 2],
    "length": _NO_SIZE,
    "created": _NO_SIZE,
    "saved": _NO_SIZE,
}
G3_PENDING = Format(
    kind="pending",
    golden="g3.pending",
    value=pending_file("object"),
    read=Pending.from_bytes,
    write=lambda value: value.to_bytes("object"),
    made=any_value(Pending),
    required=("uploadId", "bucket", "destinationKey", "etags", "length"),
    refused=_PENDING | {"etags[0].etag": ["", None]},
    ignored=("partCount",),
    kept=("etags[0]", *_STATISTICS, 'iostatistics.meanstatistics["object_multipart_initiated.mean"]'),
    text="destination_key",
)
G3_PENDINGSET = Format(
    kind="pendingset",
    golden="g3.pendingset",
    value=pending_set("object"),
    read=PendingSet.from_bytes,
    write=lambda value: value.to_bytes("object"),
    made=any_value(PendingSet),
    required=("commits", *(f"commits[1].{field}" for field in G3_PENDING.required)),
    refused={f"commits[0].{field}": values for field, values in G3_PENDING.refused.items()}
    | {"version": [2], "commits[1].destinationKey": [f"trips/{NAMES[0]}"]},
    ignored=("commits[0].partCount", "commits[1].partCount"),
    kept=("commits[1]", "commits[0].etags[0]", *_STATISTICS),
    text="job_id",
)
SUCCESS = Format(
    kind="success",
    golden="s3a_SUCCESS.json",
    value=S3A_SUCCESS,
    read=SuccessData.from_bytes,
    write=SuccessData.to_bytes,
    made=any_value(SuccessData).map(lambda one: replace(one, filenames=one.filenames[:100])),
    required=("name",),
    refused={"name": ["", "org.example.Other/1"], "timestamp": _NO_SIZE},
    kept=_STATISTICS,
    text="committer",
)
PUBLISHED = Format(
    kind="manifest",
    own=Manifest.FORMAT,
    golden="magicfs_manifest_1.json",
    value=MANIFEST,
    read=Manifest.from_bytes,
    write=Manifest.to_bytes,
    made=any_value(Manifest).map(lambda one: replace(one, files=()) if one.parts else one),
    required=(
        *("format", "jobId", "bucket", "mode", "committed", "hides", "files"),
        *("files[0].key", "files[0].size"),
    ),
    refused={
        "jobId": [*_NO_JOB, "x" * 101],
        "bucket": [None],
        "mode": [""],
        "committed": _NO_SIZE,
        "previous": ["a/b", JOB_ID],
        "hides": ["some", ""],
        "replaced": ["5f1e", "."],
        "files[0].key": ["", "../other/x", "a/./x", ".."],
        "files[0].size": _NO_SIZE,
        "files[1].key": [f"city=Zürich/part-0-000000-{JOB_ID}.parquet"],
    },
    kept=("files[0]",),
    text="destination",
)
TAG_FORM = Format(
    kind="tag",
    own=Tag.FORMAT,
    golden="magicfs_tag_1.json",
    value=TAG,
    read=Tag.from_bytes,
    write=Tag.to_bytes,
    made=any_value(Tag),
    required=("format", "tag", "jobId", "nonce", "created"),
    refused={"jobId": _NO_JOB, "tag": [""], "nonce": [""], "created": _NO_SIZE},
    ignored=("later",),
    text="nonce",
)

STATE = Format(
    kind="job",
    own=JobObject.FORMAT,
    golden="magicfs_job_1.json",
    value=JOB,
    read=JobObject.from_bytes,
    write=JobObject.to_bytes,
    made=any_value(JobObject),
    required=(
        *("format", "jobId", "bucket", "state", "nonce", "driver", "options", "chunks", "deletions"),
        *("options.committer", "options.mode"),
        *(
            f"{name}[0].{field}"
            for name in ("chunks", "deletions")
            for field in ("key", "sha256", "files", "bytes")
        ),
        *("pointer.jobId", "pointer.etag", "oldSuccess.key", "oldSuccess.sha256", "oldSuccess.etag"),
    ),
    refused={
        "jobId": _NO_JOB,
        **{name: [""] for name in ("nonce", "driver", "options.committer", "chunks[0].key", "pointer.etag")},
        **dict.fromkeys(("attempt", "created", "changed", "tasks", "files", "bytes"), _NO_SIZE),
        "state": ["ended", "", "OPEN"],
        "options.mode": ["replace"],
        "options.tracking": ["disk"],
        "options.runId": [""],
        "chunks[0].sha256": ["AB" * 32, "ab" * 31, "ab" * 32 + "\n"],
        "chunks[0].files": _NO_SIZE,
        "chunks[0].bytes": _NO_SIZE,
        "oldSuccess.etag": [""],
    },
    ignored=("later",),
    kept=("options",),
    text="host",
)
FORMATS = [
    replace(
        G3_PENDING,
        golden="g2.pending",
        value=pending_file("string"),
        write=lambda value: value.to_bytes("string"),
        made=any_value(Pending).map(etags_alone),
        refused=_PENDING,
        kept=_STATISTICS,
    ),
    G3_PENDING,
    replace(
        G3_PENDINGSET,
        golden="g2.pendingset",
        value=pending_set("string"),
        write=lambda value: value.to_bytes("string"),
        made=None,
        refused={f"commits[0].{field}": values for field, values in _PENDING.items()},
        kept=("commits[1]", *_STATISTICS),
    ),
    G3_PENDINGSET,
    replace(
        G3_PENDINGSET,
        golden="magicfs_bodies.pendingset",
        value=with_bodies(pending_set("object")),
        made=any_value(PendingSet).map(with_bodies),
        required=tuple(
            f"commits[1].{field}"
            for field in ("bucket", "destinationKey", "length", "body.bundle", "body.offset", "body.sha256")
        ),
        refused={
            "commits[0].body.bundle": [""],
            "commits[0].body.offset": _NO_SIZE,
            "commits[0].body.sha256": ["AB" * 32, "ab" * 31, "ab" * 32 + "\n"],
            "commits[0].body": ["a text", []],
        },
        kept=("commits[1]", *_STATISTICS),
    ),
    replace(
        G3_PENDINGSET,
        golden="magicfs_renames.pendingset",
        value=with_sources(pending_set("object")),
        made=any_value(PendingSet).map(with_sources),
        required=tuple(
            f"commits[1].{field}" for field in ("bucket", "destinationKey", "length", "source.key")
        ),
        refused={
            "commits[0].source.key": [""],
            "commits[0].source.etag": [7],
            "commits[0].source": ["a text", []],
            "commits[0].length": [-1],
        },
        ignored=(),
        kept=("commits[1]", *_STATISTICS),
    ),
    SUCCESS,
    replace(
        SUCCESS,
        golden="stocator_SUCCESS.json",
        value=STOCATOR_SUCCESS,
        made=None,
        ignored=('["magicfs.winners"]',),
    ),
    replace(
        SUCCESS, golden="manifest_committer_SUCCESS.json", value=MANIFEST_SUCCESS, write=manifest_success
    ),
    Format(
        kind="task manifest",
        golden="manifest_committer_task-manifest.json",
        value=TASK_MANIFEST,
        read=TaskManifest.from_bytes,
        write=TaskManifest.to_bytes,
        made=any_value(TaskManifest),
        required=("files", *(f"files[0].{field}" for field in "sdz"), "directories[0].d"),
        refused={
            "type": ["org.example.TaskManifest/1", "org.apache.TaskManifest/2"],
            "version": [2],
            "jobAttemptNumber": _NO_SIZE,
            "files[0].s": [""],
            "files[0].d": [""],
            "files[0].z": _NO_SIZE,
            "directories[0].t": _NO_SIZE,
            "directories[0].l": _NO_SIZE,
        },
        kept=("files[0]", "directories[0]", *_STATISTICS),
        text="task_id",
    ),
    PUBLISHED,
    replace(
        PUBLISHED,
        golden="magicfs_manifest_1_object_settings.json",
        value=SUM_OF_OBJECT_SETTINGS,
        made=None,
        required=(),
        refused={"objectSettings": ["x", ["ACL"]], "objectSettings.ACL": [1, None, True]},
    ),
    replace(
        PUBLISHED,
        golden="magicfs_manifest_1_parts.json",
        value=MANIFEST_IN_PARTS,
        made=None,
        required=(
            *(one for one in PUBLISHED.required if not one.startswith("files")),
            *("parts", *(f"parts[0].{field}" for field in ("name", "sha256", "files", "size"))),
        ),
        refused={
            "parts": [[]],
            "parts[0].name": ["", ".", "..", "a/b"],
            "parts[0].files": _NO_SIZE,
            "parts[1].size": _NO_SIZE,
        },
        kept=("parts[0]",),
    ),
    replace(
        PUBLISHED,
        golden="magicfs_manifest_1_versions.json",
        value=MANIFEST_OF_VERSIONS,
        made=None,
        required=(),
        refused={"files[0].version": ["", 1, []]},
        kept=("files[0]",),
    ),
    replace(
        PUBLISHED,
        golden="magicfs_manifest_1_footers.json",
        value=MANIFEST_OF_FOOTERS,
        made=None,
        required=("footers.lists", *(f"footers.lists[0].{field}" for field in ("name", "sha256"))),
        refused={
            "footers.rows": _NO_SIZE,
            "files[0].rows": _NO_SIZE,
            "footers.lists[0].name": ["", "a/b"],
            "footers.schemas": ["x"],
        },
        kept=("files[0]", "footers", "footers.lists[0]"),
    ),
    Format(
        kind="footers",
        own=FileFooters.FORMAT,
        golden="magicfs_footers_1.json",
        value=FOOTERS,
        read=FileFooters.from_bytes,
        write=FileFooters.to_bytes,
        made=st.builds(
            FileFooters,
            job_id=st.just(JOB_ID),
            files=st.dictionaries(
                keys(), st.builds(Footer, rows=st.integers(0, LONG_MAX), format=st.just("csv")), max_size=3
            ),
        ),
        required=(
            *("format", "jobId", "schemas", "schemas[0].fingerprint", "schemas[0].fields", "files"),
            *("files[0].key", "files[0].rows", "files[0].format"),
        ),
        refused={
            "jobId": _NO_JOB,
            "files[0].rows": _NO_SIZE,
            "files[1].key": ["", NAMES[0]],
            "schemas[0].fields": [[["n"]], [["n", 1, 0, 0]], [[[], "int64", 0, 0]], [None]],
            "files[0].columns[0]": [[], [-1], ["x"], [0, 1], [0, None, 1], [0, [], []], [0, 1, 2, 3]],
        },
        kept=("files[0]",),
        text="job_id",
    ),
    Format(
        kind="manifest files",
        own=ManifestFiles.FORMAT,
        golden="magicfs_manifest-files_1.json",
        value=MANIFEST_FILES,
        read=ManifestFiles.from_bytes,
        write=ManifestFiles.to_bytes,
        made=any_value(ManifestFiles),
        required=("format", "jobId", "files", "files[0].key", "files[0].size"),
        refused={
            "jobId": _NO_JOB,
            "files[0].key": ["", "../other/x"],
            "files[0].size": _NO_SIZE,
            "files[1].key": [f"city=Zürich/part-0-000000-{JOB_ID}.parquet"],
        },
        kept=("files[0]",),
        text="job_id",
    ),
    Format(
        kind="pointer",
        own=Pointer.FORMAT,
        golden="magicfs_pointer_1.json",
        value=POINTER,
        read=Pointer.from_bytes,
        write=Pointer.to_bytes,
        made=any_value(Pointer),
        required=("format", "jobId", "nonce", "changed", "runs"),
        refused={
            "jobId": _NO_JOB,
            "nonce": [""],
            "changed": _NO_SIZE,
            "runs[0]": [["r"], ["r", "j", "x"], [1, "j"], ["r", None], ["r", ".."]],
            "runs[1]": [["día 0", "4e0d"]],
        },
        text="nonce",
    ),
    replace(
        PUBLISHED,
        golden="magicfs_manifest_1_past.json",
        value=MANIFEST_OF_THE_PAST,
        made=None,
        required=("kept.until", "kept.lists", *(f"kept.lists[0].{field}" for field in ("name", "sha256"))),
        refused={"kept.until": _NO_SIZE, "kept.lists[0].name": ["", "a/b"], "restores": _NO_JOB},
        kept=("files[0]", "kept", "kept.lists[0]"),
    ),
    Format(
        kind="pointer",
        own=Pointer.FORMAT,
        golden="magicfs_pointer_1_keeping.json",
        value=KEEPING_POINTER,
        read=Pointer.from_bytes,
        write=Pointer.to_bytes,
        made=None,
        required=("keeping[0].jobId", "keeping[1].until"),
        refused={"keeping[0].jobId": _NO_JOB, "keeping[1].until": _NO_SIZE, "keeping[1].expires": ["no", 1]},
        ignored=("keeping[1].later",),
        kept=("keeping[0]",),
    ),
    Format(
        kind="pointer",
        own=Pointer.FORMAT,
        golden="magicfs_pointer_1_lists.json",
        value=POINTER_OF_LISTS,
        read=Pointer.from_bytes,
        write=Pointer.to_bytes,
        made=None,
        required=(),
        refused={
            "keeping[0].lists": ["x"],
            "keeping[0].lists[1]": [1, None, "", "../x", "CD" * 32, "cd" * 33],
        },
        kept=("keeping[0]",),
    ),
    replace(
        PUBLISHED,
        golden="magicfs_manifest_1_log.json",
        value=SUM_OF_LOG,
        made=None,
        required=(*PUBLISHED.required, "log", *(f"log.{field}" for field in ("jobId", "name", "sha256"))),
        refused={"log.jobId": _NO_JOB, "log.name": ["", "a/b", "current.json"]},
        kept=("files[0]", "log"),
    ),
    Format(
        kind="pointer",
        own=Pointer.FORMAT,
        golden="magicfs_pointer_1_log.json",
        value=LOGGED_POINTER,
        read=Pointer.from_bytes,
        write=Pointer.to_bytes,
        made=None,
        required=("log.jobId", "log.name", "log.sha256"),
        refused={"log.jobId": _NO_JOB, "log.name": ["", "../log-00000-0123456789abcdef.json"]},
        kept=("log", "keeping[0]"),
    ),
    Format(
        kind="log",
        own=Log.FORMAT,
        golden="magicfs_log_1.json",
        value=LOG,
        read=Log.from_bytes,
        write=Log.to_bytes,
        made=any_value(Log),
        required=(
            *("format", "jobId", "newest", "jobs", "runs", "parts", "publications", "names"),
            *(f"parts[1].{field}" for field in ("jobId", "name", "sha256", "level", "jobs", "oldest")),
            *(f"publications[1].{field}" for field in ("jobId", "mode", "committed", "files", "size")),
            *(f"names[0].{field}" for field in ("jobId", "names")),
        ),
        refused={
            "jobId": _NO_JOB,
            "newest": _NO_JOB,
            **dict.fromkeys(("jobs", "runs", "names[0].names", "parts[0].level", "parts[0].jobs"), _NO_SIZE),
            "parts[0].name": ["", "../x", "manifest.json"],
            "names[0].sha256": [[]],
            "publications[0].committed": _NO_SIZE,
            "publications[1].keptUntil": _NO_SIZE,
            "publications[1].restores": _NO_JOB,
            "outdated[0]": [
                "",
                "x",
                "../log-00000-0123456789abcdef.json",
                "5f1e/5f1e.json",
                f"{JOB_ID}.json",
            ],
        },
        kept=("parts[0]", "publications[0]", "names[0]"),
        text="newest",
    ),
    Format(
        kind="log part",
        own=LoggedPart.FORMAT,
        golden="magicfs_log-part_1.json",
        value=LOG_PART,
        read=LoggedPart.from_bytes,
        write=LoggedPart.to_bytes,
        made=any_value(LoggedPart),
        required=("format", "jobId", "publications", "parts", "publications[0].jobId"),
        refused={"jobId": _NO_JOB, "publications[0].files": _NO_SIZE},
        kept=("publications[0]",),
        text="job_id",
    ),
    Format(
        kind="log part",
        own=LoggedPart.FORMAT,
        golden="magicfs_log-part_1_of_parts.json",
        value=LOG_PART_OF_PARTS,
        read=LoggedPart.from_bytes,
        write=LoggedPart.to_bytes,
        made=None,
        required=("parts[0].jobId", "parts[0].oldest"),
        refused={
            "parts[0].jobId": _NO_JOB,
            "parts[0].oldest": _NO_SIZE,
            "parts[0].level": [-1, LEVEL_MAX + 1],
        },
        kept=("parts[1]",),
        text="job_id",
    ),
    Format(
        kind="log names",
        own=LoggedNames.FORMAT,
        golden="magicfs_log-names_1.json",
        value=LOG_NAMES,
        read=LoggedNames.from_bytes,
        write=LoggedNames.to_bytes,
        made=any_value(LoggedNames),
        required=("format", "jobId", "runs"),
        refused={"jobId": _NO_JOB, "runs[0]": [["r"], ["r", "j", "x"], [1, "j"], ["r", None], "rj"]},
        text="job_id",
    ),
    TAG_FORM,
    replace(
        TAG_FORM,
        golden="magicfs_tag_1_keeps.json",
        value=TAG_THAT_KEEPS,
        refused={**TAG_FORM.refused, "keeps": _NO_JOB},
        ignored=(),
    ),
    Format(
        kind="registration",
        own=Registration.FORMAT,
        golden="magicfs_registration_1.json",
        value=REGISTRATION,
        read=Registration.from_bytes,
        write=Registration.to_bytes,
        made=any_value(Registration),
        required=("format", "jobId", "catalog"),
        refused={"jobId": _NO_JOB, "catalog": [""], "options": [1], "table": [1], "line": [1]},
        ignored=("later",),
        text="line",
    ),
    STATE,
    replace(
        STATE,
        golden="magicfs_job_1_options.json",
        value=JOB_OF_OPTIONS,
        required=tuple(
            f"{name}[0].{field}"
            for name in ("restored", "hidden")
            for field in ("key", "sha256", "files", "bytes")
        ),
        refused={
            "requires": [["teleport"], "keep"],
            "options.rerun": ["", "always"],
            "options.successMarker": ["false", 0],
            "options.partSize": [0, -1],
            "options.smallFiles": [0, -1, "64 KiB"],
            "options.keep.ms": [0, -1, "7d"],
            "options.keep.inPlace": [1, "yes"],
            "options.collect.footers": ["yes", 1],
            "options.collect.checksums": ["yes", 1],
            "options.audit.rules": ["x"],
            "options.places.extra[1]": [1],
            "options.places.alsoOverwrite": ["x"],
            "options.places.alsoOverwrite[0]": [1, None],
            "options.places.ownPath": [""],
            "options.rollback.job": _NO_JOB,
            "options.rollback.partitions": ["x"],
            "options.hadoop.layout": ["_magic"],
            "options.hadoop.etagFormat": ["", "text"],
            "options.hadoop.sets": [1],
            "options.hadoop.begunBy": [True, 1],
            "objectSettings": ["x", ["ACL"]],
            "objectSettings.ACL": [1, None, True],
            "numberedVersions": ["true", 1],
        },
        ignored=("options.later", "options.audit.later"),
        kept=("options", *(f"options.{one}" for one in ("keep", "collect", "audit", "places", "hadoop"))),
        made=None,
    ),
    replace(
        STATE,
        golden="magicfs_job_1_audit.json",
        value=JUDGED_JOB,
        required=("audit.verdicts", "audit.audited", "audit.verdicts[0].rule"),
        refused={"audit.audited": _NO_SIZE, "audit.against": _NO_JOB, "audit.verdicts[1].rule": [""]},
        ignored=(),
        kept=("audit", "audit.verdicts[0]"),
        made=None,
    ),
    replace(
        STATE,
        golden="magicfs_job_1_accepted.json",
        value=ACCEPTED_JOB,
        required=(),
        refused={},
        ignored=(),
        made=None,
    ),
    replace(
        PUBLISHED,
        golden="magicfs_manifest_1_audit.json",
        value=MANIFEST_OF_AUDIT,
        made=None,
        required=("audit.verdicts", "audit.audited"),
        refused={"audit.against": _NO_JOB},
        kept=("files[0]", "audit", "audit.verdicts[0]"),
    ),
    Format(
        kind="deletions",
        own=DELETIONS_FORMAT,
        golden="magicfs_deletions_1.json",
        value=DELETIONS,
        read=deletions.read,
        write=deletions.write,
        made=st.lists(any_value(OldObject).map(lambda one: one._replace(version="")), max_size=5).map(tuple),
        required=("format", "objects", "objects[1].key", "objects[1].etag", "objects[1].size"),
        refused={"objects[0].key": [""], "objects[0].etag": [""], "objects[0].size": _NO_SIZE},
        forgets=True,
    ),
    Format(
        kind="deletions",
        own=DELETIONS_FORMAT,
        golden="magicfs_deletions_1_versions.json",
        value=DELETIONS_OF_VERSIONS,
        read=deletions.read,
        write=deletions.write,
        made=st.lists(
            any_value(OldObject).map(lambda one: one._replace(version=one.version or "v")),
            min_size=1,
            max_size=5,
        ).map(tuple),
        required=("format", "objects", "objects[1].key"),
        refused={"objects[0].version": ["", 1]},
        forgets=True,
    ),
    Format(
        kind="deletions",
        own=DELETIONS_FORMAT,
        golden="magicfs_deletions_1_relative.json",
        value=DELETIONS_OF_VERSIONS,
        read=deletions.read,
        write=partial(deletions.write, destination=""),
        made=st.lists(any_value(OldObject), max_size=5).map(tuple),
        required=("format", "objects", "objects[1].key"),
        refused={"objects[0].key": [""], "objects[0].version": ["", 1]},
        forgets=True,
    ),
    Format(
        kind=None,
        own=FILE_LIST_FORMAT,
        golden="magicfs_files_1.json",
        value=FILE_LIST,
        read=FileList.from_bytes,
        write=FileList.to_bytes,
        made=any_value(FileList),
        required=("format", "jobId", "taskId", "attemptId", "files", "files[0].key", "files[0].size"),
        refused={
            "files[0].key": ["", "../x", "a//b", "a/./b", "/a", "a/"],
            "files[1].key": [NAMES[0]],
            "files[0].size": _NO_SIZE,
        },
        text="task_id",
        forgets=True,
    ),
    Format(
        kind="job location",
        own=JobLocation.FORMAT,
        golden="magicfs_job-location_1.json",
        value=JOB_LOCATION,
        read=JobLocation.from_bytes,
        write=JobLocation.to_bytes,
        made=any_value(JobLocation),
        required=("format", "jobId"),
        refused={"jobId": _NO_JOB},
        text="destination",
    ),
    Format(
        kind=None,
        own=AliasName.FORMAT,
        golden="magicfs_alias_1.json",
        value=AliasName(alias="latest é.csv"),
        read=AliasName.from_bytes,
        write=AliasName.to_bytes,
        made=any_value(AliasName),
        required=("format", "alias"),
        refused={"alias": [""]},
        text="alias",
    ),
    Format(
        kind=None,
        own=Claim.FORMAT,
        golden="magicfs_alias-claim_1.json",
        value=CLAIM,
        read=Claim.from_bytes,
        write=Claim.to_bytes,
        made=any_value(Claim),
        required=("format", "nonce", "dataset", "copies[0].size"),
        refused={"copies[0].size": _NO_SIZE},
        text="file",
        kept=("copies[0]",),
    ),
    Format(
        kind=None,
        own=OPERATION_FORMAT,
        golden="magicfs_operation_1.json",
        value=OPERATION,
        read=Operation.from_bytes,
        write=Operation.to_bytes,
        made=any_value(Operation),
        required=("format", "verb", "jobId", "action", "when"),
        refused={"jobId": _NO_JOB, "when": _NO_SIZE, "verb": [""], "action": [""]},
        text="reason",
    ),
    Format(
        kind=None,
        own=RELEASE_FORMAT,
        golden="magicfs_release_1.json",
        value=RELEASE,
        read=Record.from_bytes,
        write=Record.to_bytes,
        made=any_value(Record).map(in_order),
        required=(
            *("format", "nonce", "changed", "sweeps", "releases"),
            *(f"releases[0].{name}" for name in ("id", "number", "published")),
            *(f"releases[0].datasets.trips.{name}" for name in ("url", "jobId", "manifest", "hold")),
        ),
        refused={
            "nonce": [""],
            "changed": [-1, MOMENT_MAX_MS + 1],
            "sweeps": [-1],
            "tags": [{"a": "33" * 16}],
            "releases[0].id": ["", "../x", "22" * 15, "G" * 32],
            "releases[0].number": [0],
            "releases[1].number": [1],
            "releases[1].published": [-1, MOMENT_MAX_MS + 1],
            "releases[1].restores": ["", "5f1e"],
            "releases[0].datasets.trips.url": ["", "s3://ada:secret@lake/trips"],
            "releases[0].datasets.trips.jobId": _NO_JOB,
            "releases[0].datasets.trips.manifest": ["ab" * 31, "../x"],
            "releases[0].datasets.trips.hold": ["quarter-1", "../x"],
        },
        text="nonce",
    ),
]
FILES = [one for one in FORMATS if one.kind is not None]
OWN = [one for one in FORMATS if one.own is not None]


def id_of(value: object) -> str | None:
    return value.golden if isinstance(value, Format) else None


def each(formats: list[Format]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("one", formats, ids=id_of)


def ways(value: object, name: str = "", way: tuple[Any, ...] = ()) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Every value below one: what an error calls it, and the steps that lead to it."""
    if isinstance(value, dict):
        below = [(member(name, key), key, child) for key, child in value.items()]
    elif isinstance(value, list):
        below = [(f"{name}[{place}]", place, child) for place, child in enumerate(value)]
    else:
        return
    for field, step, child in below:
        yield field, (*way, step)
        yield from ways(child, field, (*way, step))


def at(document: Any, way: Iterable[Any]) -> Any:
    for step in way:
        document = document[step]
    return document


def changed(document: dict[str, Any], way: tuple[Any, ...], value: object) -> bytes:
    """A document with another value in one place; ``...`` takes the old one away."""
    copied = copy.deepcopy(document)
    holder = at(copied, way[:-1])
    if value is ...:
        del holder[way[-1]]
    else:
        holder[way[-1]] = value
    return json.dumps(copied).encode()


def assert_refused(one: Format, field: str, value: object, match: str = "^") -> None:
    document = one.document
    with pytest.raises(FormatError, match=match) as caught:
        one.read(PATH, changed(document, dict(ways(document))[field], value))
    assert caught.value.path == PATH
    # A run of a pointer is judged as a whole.
    assert caught.value.field == field or field.startswith(f"{caught.value.field}[")


# -- golden files ----------------------------------------------------------------------------------------


@each(FORMATS)
def test_golden_file_is_read_and_written_byte_by_byte(one: Format) -> None:
    assert one.read(PATH, one.raw) == one.value
    assert one.write(one.value) == one.raw
    assert one.write(one.read(PATH, one.raw)) == one.raw


def test_no_golden_file_is_left_out() -> None:
    assert sorted(path.name for path in GOLDEN.iterdir()) == sorted(one.golden for one in FORMATS)


def test_every_kind_is_in_the_table() -> None:
    assert {one.kind for one in FILES} == {kind.name for kind in KINDS}


def test_every_format_of_ours_is_defined_in_its_room_and_has_a_golden_file() -> None:
    named = {
        (name, path.parent)
        for path in (ROOT / "src").rglob("*.py")
        for name in re.findall(r"[\"'](magicfs\.[a-z-]+/[0-9]+)[\"']", path.read_text())
    }
    guests = {FILE_LIST_FORMAT: "classic", OPERATION_FORMAT: "watch", RELEASE_FORMAT: "releases"}
    guests |= dict.fromkeys((AliasName.FORMAT, Claim.FORMAT), "alias")
    for name, room in named:
        assert room == ROOT / "src" / "magicfs" / guests.get(name, "formats")
    assert {name for name, _ in named} == {one.own for one in OWN}
    for name, _ in named:
        golden = GOLDEN / f"{name.replace('.', '_').replace('/', '_')}.json"
        assert json.loads(golden.read_bytes())["format"] == name


@each(FILES)
def test_golden_file_is_shown(one: Format, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(GOLDEN / one.golden)]) == 0
    shown = capsys.readouterr().out
    assert one.golden in shown
    assert one.document.get("jobId", "") in shown
    assert main(["--json", "show", str(GOLDEN / one.golden)]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["kind"], told["document"]) == (one.kind, one.document)


@each(FORMATS)
def test_cut_off_anywhere_it_is_refused(one: Format) -> None:
    raw = one.raw
    for length in range(len(raw)):
        with pytest.raises(FormatError):
            one.read(PATH, raw[:length])


@pytest.mark.parametrize("path", ["b/x.pending", "b/t.pendingset", "b/d/_SUCCESS", "report.json", "b/task_3"])
@each(FILES)
def test_the_content_tells_the_kind_under_any_name(one: Format, path: str) -> None:
    assert detect(path, one.raw) == one.kind
    assert load(path, one.raw) == one.value


# -- what is written is read back ------------------------------------------------------------------------


@pytest.mark.slow
@each([one for one in FORMATS if one.made is not None])
@given(data=st.data())
def test_what_is_written_is_read_back(one: Format, data: st.DataObject) -> None:
    assert one.made is not None
    value = data.draw(one.made)
    raw = one.write(value)
    assert one.read(PATH, raw) == value
    assert one.write(one.read(PATH, raw)) == raw
    assert b"\n" not in raw or one.raw.startswith(b"{\n"), "one line, but for the manifest committer's"


@each(FORMATS)
def test_it_pickles(one: Format) -> None:
    assert pickle.loads(pickle.dumps(one.value)) == one.value


@each([one for one in FORMATS if one.text])
def test_text_that_utf8_cannot_hold_is_not_written(one: Format) -> None:
    with pytest.raises(UsageError, match="half a surrogate pair"):
        one.write(replace(one.value, **{str(one.text): "x\udc80"}))


@each(FORMATS)
def test_unknown_fields_are_kept_and_written_last(one: Format) -> None:
    others: dict[str, Any] = {"zz": [1, {"a": None}], "alpha": {"é": "é"}}
    raw = json.dumps(one.document | others).encode()
    if one.forgets:
        assert one.read(PATH, raw) == one.value
        return
    written = json.loads(one.write(one.read(PATH, raw)))
    assert written == one.document | others
    assert list(written)[-2:] == ["zz", "alpha"]


@pytest.mark.parametrize(("one", "place"), [(one, place) for one in FORMATS for place in one.kept], ids=id_of)
def test_unknown_fields_are_kept_further_down(one: Format, place: str) -> None:
    way = dict(ways(one.document))[place]
    raw = changed(one.document, (*way, "zz"), [1, {"a": None}])
    written = json.loads(one.write(one.read(PATH, raw)))
    assert written == json.loads(raw)
    assert list(at(written, way))[-1] == "zz"


# -- what is malformed or inconsistent is refused, and the field is named --------------------------------


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"null", b"\xff", b"{}{}"])
@each(FORMATS)
def test_what_is_no_object_is_refused(one: Format, raw: bytes) -> None:
    with pytest.raises(FormatError, match=re.escape(PATH)):
        one.read(PATH, raw)


@each(FORMATS)
def test_a_file_beyond_its_limit_is_not_parsed(one: Format, monkeypatch: pytest.MonkeyPatch) -> None:
    if "size_limit" in inspect.signature(one.read).parameters:
        read: Callable[..., Any] = partial(one.read, size_limit=len(one.raw))
    else:
        module = sys.modules[one.read.__module__]
        [limit] = [name for name in vars(module) if name.endswith("_SIZE_LIMIT")]
        monkeypatch.setattr(module, limit, len(one.raw))
        read = one.read
    assert read(PATH, one.raw) == one.value
    with pytest.raises(FormatError, match=f"the limit is {len(one.raw)}"):
        read(PATH, b"{" * (len(one.raw) + 1))


@each(FORMATS)
def test_only_the_required_fields_are_needed(one: Format) -> None:
    needed = {field: one.document[field] for field in one.required if field in one.document}
    if "parts" in needed and "requires" in one.document:
        needed["requires"] = one.document["requires"]
    if needed:
        one.read(PATH, json.dumps(needed).encode())


@pytest.mark.parametrize(
    ("one", "field"), [(one, field) for one in FORMATS for field in one.required], ids=id_of
)
def test_each_required_field_is_missed_by_name(one: Format, field: str) -> None:
    match = "no 'name' field" if field == "name" else "required"
    assert_refused(one, field, ..., match)
    assert_refused(one, field, None, match)


@pytest.mark.parametrize(
    ("one", "field", "value"),
    [(one, field, value) for one in FORMATS for field, values in one.refused.items() for value in values],
    ids=id_of,
)
def test_a_value_that_cannot_be_true_is_refused_by_name(one: Format, field: str, value: object) -> None:
    assert_refused(one, field, value)


_WRONG: dict[type, list[object]] = {
    str: [7, True, []],
    int: ["7", True, 1.5, [], 2**63],
    bool: [1, "true", []],
    list: ["x", {}, 7],
    dict: [7, []],
    type(None): [7],
}


@each(FORMATS)
def test_a_value_of_another_type_is_refused_by_name(one: Format) -> None:
    for field, way in ways(one.document):
        # Least and greatest values are of the type of their column.
        if not (field.startswith(one.ignored) or "].columns[" in field or "].fields[" in field):
            for wrong in _WRONG[type(at(one.document, way))]:
                assert_refused(one, field, wrong)


@pytest.mark.parametrize("found", ["", "magicfs.other/1", "{name}", "{name}/x", "{name}.x", "{name}/"])
@each(OWN)
def test_another_format_is_refused(one: Format, found: str) -> None:
    assert_refused(one, "format", found.format(name=str(one.own).rpartition("/")[0]))


@each(OWN)
def test_a_newer_version_asks_for_a_newer_magicfs(one: Format) -> None:
    name = str(one.own).rpartition("/")[0]
    newest = max(str(other.own) for other in OWN if str(other.own).rpartition("/")[0] == name)
    newer = f"{name}/12"
    told = f"{re.escape(newer)}, but this version of magicfs reads {re.escape(newest)}; use a newer magicfs"
    assert_refused(one, "format", newer, told)
    if one.kind is not None:
        assert detect("x.json", changed(one.document, ("format",), newer)) == one.kind


# -- whatever a bucket holds, reading it gives a value that can be written back, or a FormatError --------

_scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.text(st.characters(codec=None))
    | st.sampled_from([0, -1, 2, 3, 2**63, "", "/", "1", True])
)
_json = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
# Text as ETags, the older generation, holds nothing else of a part.
_any_format = st.sampled_from([one for one in FORMATS if not one.golden.startswith("g2")])


def read_or_refuse(one: Format, raw: bytes) -> None:
    try:
        found = one.read(PATH, raw)
    except FormatError as error:
        refused = error
    else:
        write_back(one, found)
        return
    assert refused.path == PATH
    assert str(refused).encode()


def write_back(one: Format, found: Any) -> None:
    assert one.read(PATH, one.write(found)) == found
    if isinstance(found, Pending | PendingSet):
        found.to_bytes("string")


@pytest.mark.slow
@given(data=st.data(), one=_any_format, value=_json)
def test_any_value_in_any_place(data: st.DataObject, one: Format, value: object) -> None:
    _, way = data.draw(st.sampled_from(list(ways(one.document))))
    read_or_refuse(one, changed(one.document, way, value))


@given(data=st.data(), one=_any_format)
def test_any_value_taken_away(data: st.DataObject, one: Format) -> None:
    _, way = data.draw(st.sampled_from(list(ways(one.document))))
    read_or_refuse(one, changed(one.document, way, ...))


@given(data=st.data(), one=_any_format)
def test_any_byte_changed(data: st.DataObject, one: Format) -> None:
    raw = bytearray(json.dumps(one.document, ensure_ascii=False).encode())
    raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    read_or_refuse(one, bytes(raw))


@given(
    path=st.sampled_from(["x.pending", "t.pendingset", "_SUCCESS", "x-manifest.json", "x"]), raw=st.binary()
)
def test_any_bytes_under_any_name(path: str, raw: bytes) -> None:
    with contextlib.suppress(FormatError):
        load(path, raw)


@pytest.mark.slow
@given(one=_any_format, document=_json)
def test_any_json(one: Format, document: object) -> None:
    with pytest.raises(FormatError):
        one.read(PATH, json.dumps(document).encode())


# -- limits ----------------------------------------------------------------------------------------------


@each(FORMATS)
def test_what_no_reader_would_take_is_not_written(one: Format, monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules[one.write.__module__]
    if not hasattr(module, "within"):
        module = sys.modules[one.read.__module__]
    [limit] = [name for name in vars(module) if name.endswith("_SIZE_LIMIT")]
    if module.__name__.startswith("magicfs.formats."):
        assert getattr(module, limit) == getattr(limits, limit), "one place for all of them"
    monkeypatch.setattr(module, limit, len(one.raw))
    assert one.write(one.value) == one.raw
    monkeypatch.setattr(module, limit, len(one.raw) - 1)
    told = f"would have {len(one.raw):,} bytes, and the limit is {len(one.raw) - 1:,}; it was not written"
    with pytest.raises(UsageError, match=re.escape(told)):
        one.write(one.value)
