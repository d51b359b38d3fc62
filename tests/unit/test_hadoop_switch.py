"""``hadoop=``: one argument settles what a JVM's job commit needs, and refuses what it would lose."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from s3fs import S3FileSystem

from magicfs import Job, MagicFileSystem
from magicfs.errors import UsageError
from magicfs.protocol.hadoop_release import HadoopRelease
from magicfs.stores import resolve
from magicfs.stores.memory.filesystem import MemoryFileSystem
from magicfs.stores.memory.store import World
from magicfs.stores.port import Capabilities, Checksums
from magicfs.stores.retrying import RetryingStore
from proofs.scenes.arranged import arranged
from proofs.scenes.memory_scene import MemoryScene

TASK = "task_202601010000_0001_m_000003"
ATTEMPT = TASK.replace("task_", "attempt_") + "_0"


def job_of(world: World | None = None, **options: Any) -> Job:
    filesystem = MemoryFileSystem(world=world or World(create_buckets=True))
    return Job(
        "memory://bucket/días 50% + #1", filesystem=filesystem, **arranged(**{"mode": "append", **options})
    )


def refused(told: str, **options: Any) -> None:
    world = World(create_buckets=True)
    with pytest.raises(UsageError, match=told):
        job_of(world, **options)
    assert is_empty(world)


def is_empty(world: World) -> bool:
    bucket = world.find("bucket")
    return bucket is None or not (bucket.objects or bucket.uploads)


# -- releases ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "layout", "etags"),
    [
        ("3.3", "__magic", "string"),
        ("3.3.1", "__magic", "string"),
        ("3.3.6", "__magic", "string"),
        ("3.4.0", "__magic_job", "string"),
        ("3.4.1", "__magic_job", "string"),
        ("3.4.1-amzn-2", "__magic_job", "string"),
        ("3.4.1.7.2.17.0-334", "__magic_job", "string"),
        ("3.4.2", "__magic_job", "object"),
        ("3.4", "__magic_job", "object"),
        ("3.5", "__magic_job", "object"),
        ("3.5.0", "__magic_job", "object"),
    ],
)
def test_release_has_a_layout_and_a_form_of_etags(text: str, layout: str, etags: str) -> None:
    release = HadoopRelease.of(text)
    assert (release.layout, release.etag_format) == (layout, etags)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("three", r"is not a release; write it like '3\.4' or '3\.4\.1'"),
        ("", "is not a release"),
        ("3", "is not a release"),
        ("3.4.x", "is not a release"),
        ("2.10", "is too old: up to 3.3.0 pending sets have another version; choose '3.3'"),
        ("3.3.0", "is too old"),
        ("3.6", r"is newer than what this magicfs knows; .* give hadoop='3\.5'"),
        ("4.0", "is newer"),
    ],
)
def test_release_that_is_none_or_has_other_files_is_refused(text: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        HadoopRelease.of(text)
    refused(told, hadoop=text)
    with pytest.raises(UsageError, match=told):
        MagicFileSystem(target_protocol="memory", hadoop=text)


# -- what it settles for a job -------------------------------------------------------------------------


def settled(job: Job) -> tuple[str, str, bool]:
    form = job.spec.options.hadoop
    return form.layout, form.etag_format, form.sets


def test_without_it_everything_is_as_before() -> None:
    assert settled(job_of()) == ("__magic_job", "string", False)


@pytest.mark.parametrize(
    ("hadoop", "layout", "etags"),
    [("3.3", "__magic", "string"), ("3.4.1", "__magic_job", "string"), ("3.5", "__magic_job", "object")],
)
def test_job_of_the_magic_committer(hadoop: str, layout: str, etags: str) -> None:
    assert settled(job_of(hadoop=hadoop)) == (layout, etags, True)


@pytest.mark.parametrize("unique", [True, False])
def test_names_are_as_the_job_says_for_a_jvm_takes_any(unique: bool) -> None:
    assert job_of(hadoop="3.5", unique_names=unique).spec.options.unique_names is unique
    assert job_of(hadoop="3.5").spec.options.unique_names


@pytest.mark.parametrize("committer", ["directory", "partitioned"])
def test_job_of_a_staging_committer(committer: str, tmp_path: Path) -> None:
    cluster = {"cluster_directory": tmp_path.as_uri(), "work_directory": str(tmp_path)}
    job = job_of(hadoop="3.5", committer=committer, committer_options=cluster)
    assert settled(job) == ("__magic_job", "object", False)
    refused("looks for pending sets in the cluster's filesystem; give", hadoop="3.5", committer=committer)


@pytest.mark.parametrize("committer", ["manifest", "file"])
def test_job_of_a_committer_that_renames(committer: str, tmp_path: Path) -> None:
    job = Job(tmp_path.as_uri(), committer=committer, mode="append", options={"hadoop": "3.4"})
    assert settled(job) == ("__magic_job", "string", False)


@pytest.mark.parametrize("hadoop", ["3.3", "3.4.1", "3.5"])
def test_what_tasks_leave_is_where_and_how_that_hadoop_looks_for_it(hadoop: str) -> None:
    world = World(create_buckets=True)
    job = job_of(world, hadoop=hadoop, job_id=uuid4(), unique_names=False).setup()
    task = job.task(TASK).setup()
    task.filesystem.pipe_file(f"{task.path}/p=1/part 1 + ü.csv", b"row\n")
    task.commit()
    bucket = world.find("bucket")
    assert bucket is not None
    magic = "__magic" if hadoop == "3.3" else f"__magic_job-{job.id}"
    key = f"días 50% + #1/{magic}/job-{job.id}/00/{TASK}.pendingset"
    document = json.loads(bytes(bucket.objects[key].body))
    [commit] = document["commits"]
    assert (document["version"], document["jobId"], commit["version"]) == (3, job.id, 2)
    assert commit["destinationKey"] == "días 50% + #1/p=1/part 1 + ü.csv"
    assert [type(one) for one in commit["etags"]] == [dict if hadoop == "3.5" else str]
    job.commit()
    success = json.loads(bytes(bucket.objects["días 50% + #1/_SUCCESS"].body))
    assert success["name"] == "org.apache.hadoop.fs.s3a.commit.files.SuccessData/1"


def test_pickled_job_is_the_same() -> None:
    import pickle

    job = Job("memory://bucket/x", mode="append", options={"hadoop": "3.3"})
    assert settled(pickle.loads(pickle.dumps(job))) == settled(job)


# -- what it refuses -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"tracking": "memory"}, "in a task's memory .* use tracking='store', or leave hadoop out"),
        ({"tracking": "memory", "small_files": 100}, "in a task's memory"),
        ({"small_files": 100}, "not bodies of small files; leave small_files or hadoop out"),
        ({"mode": "overwrite"}, "mode='overwrite' would leave the old files; leave mode or hadoop"),
        ({"mode": "overwrite_partitions"}, "it replaces nothing"),
        ({"run_id": "monday"}, "the same run would be published twice"),
        ({"extra_destinations": ["memory://bucket/other"]}, "discards only uploads below the destination"),
        (
            {"committer": "stocator"},
            "Hadoop has no committer='stocator' .* use one of directory, file, magic",
        ),
        ({"committer": "direct"}, "Hadoop has no committer='direct'"),
        ({"committer": "task-completing"}, "Hadoop has no committer='task-completing'"),
    ],
)
def test_what_a_jvm_could_not_carry_is_refused(options: dict[str, Any], told: str) -> None:
    refused(told, **{"hadoop": "3.5", **options})


def test_s3as_committers_are_for_s3(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is part of S3A and supports only S3, not the store 'file'"):
        Job(tmp_path.as_uri(), mode="append", options={"hadoop": "3.5"})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("hadoop", "algorithm", "told"),
    [
        ("3.3", "CRC32C", "Hadoop 3.3 cannot store checksums"),
        ("3.4.1", "SHA256", "Hadoop 3.4.1 cannot store checksums"),
        ("3.5", "CRC64NVME", "Hadoop 3.5 knows only CRC32, CRC32C, SHA1, SHA256"),
        ("3.5", "CRC32C", None),
        ("3.4", "SHA1", None),
    ],
)
def test_checksums_that_a_jvm_cannot_repeat_are_refused(
    hadoop: str, algorithm: str, told: str | None
) -> None:
    world = World(create_buckets=True, capabilities=Capabilities(checksums=Checksums(of_parts=algorithm)))
    filesystem = MagicFileSystem(MemoryFileSystem(world=world), hadoop=hadoop)
    element = HadoopRelease.of(hadoop).layout.replace("_job", "_job-x")
    path = f"bucket/a/{element}/job-x/00/tasks/{ATTEMPT}/__base/b.csv"
    if told is None:
        job_of(world, hadoop=hadoop)
        filesystem.pipe_file(path, b"row\n")
        return
    with pytest.raises(UsageError, match=told):
        job_of(world, hadoop=hadoop)
    for write in (lambda: filesystem.pipe_file(path, b"row\n"), lambda: filesystem.open(path, "wb")):
        with pytest.raises(UsageError, match=told):
            write()
    assert is_empty(world)


def test_store_tells_its_checksums_through_everything_that_is_put_around_it() -> None:
    plain = S3FileSystem(anon=True, skip_instance_cache=True)
    summed = S3FileSystem(
        anon=True, skip_instance_cache=True, s3_additional_kwargs={"ChecksumAlgorithm": "SHA256"}
    )
    store = resolve.open_store(summed, "bucket")
    assert isinstance(store, RetryingStore)
    assert store.capabilities.checksums.of_parts == "SHA256"
    assert resolve.open_store(plain, "bucket").capabilities.checksums.of_parts is None
    with pytest.raises(UsageError, match=r"Hadoop 3\.3 cannot store checksums"):
        Job("s3://bucket/sales", mode="append", filesystem=summed, options={"hadoop": "3.3"})
    assert (
        Job("s3://bucket/sales", mode="append", filesystem=summed, options={"hadoop": "3.5"}).spec.hadoop
        == "3.5"
    )


# -- a filesystem without a job ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hadoop", "element", "kind"),
    [("3.3", "__magic", str), ("3.4.1", "__magic_job-7", str), ("3.4", "__magic_job-7", dict)],
)
def test_filesystem_writes_what_that_hadoop_reads(hadoop: str, element: str, kind: type) -> None:
    scene = MemoryScene(hadoop=hadoop)
    path = f"bucket/a/{element}/job-7/00/tasks/{ATTEMPT}/__base/p=1/b.csv"
    scene.filesystem.pipe_file(path, b"row\n")
    pending = json.loads(scene.filesystem.fs.cat_file(f"{path}.pending"))
    assert [type(one) for one in pending["etags"]] == [kind]
    assert scene.uploads() == ["a/p=1/b.csv"]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"tracking": "memory"}, "tracking='memory' records none of them in the store"),
        ({"unique_names": True}, "does not change file names; leave unique_names or hadoop out"),
    ],
)
def test_filesystem_refuses_what_that_hadoop_could_not_find(options: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        MagicFileSystem(target_protocol="memory", hadoop="3.5", **options)


@pytest.mark.parametrize("hadoop", ["3.3", "3.5"])
def test_inside_a_job_its_record_decides(hadoop: str) -> None:
    world = World(create_buckets=True)
    job = job_of(world, hadoop=hadoop).setup()
    task = job.task(0).setup()
    other = MagicFileSystem(MemoryFileSystem(world=world), hadoop="3.5" if hadoop == "3.3" else "3.3")
    other.pipe_file(f"{task.path}/a.csv", b"row\n")
    assert other.exists(f"{task.path}/a.csv")  # waits until it is recorded
    pending = json.loads(other.fs.cat_file(f"{task.path}/a.csv.pending"))
    assert [type(one) for one in pending["etags"]] == [dict if hadoop == "3.5" else str]
    job.commit([task.commit()])
