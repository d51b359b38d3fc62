"""Hadoop's options of committers become arguments of ``Job``; nothing known is dropped in silence."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

import magicfs
from magicfs.committers.registry import ManifestOptions
from magicfs.errors import UsageError
from magicfs.formats.job_options import GIVEN
from magicfs.hadoop import conf as hadoop_conf
from magicfs.stores.memory.filesystem import MemoryFileSystem
from magicfs.stores.memory.store import World
from proofs.scenes.arranged import arranged

NAME = "fs.s3a.committer.name"
THREADS = "fs.s3a.committer.threads"
MODE = "fs.s3a.committer.staging.conflict-mode"
UNIQUE = "fs.s3a.committer.staging.unique-filenames"
TMP = "fs.s3a.committer.staging.tmp.path"
BUFFER = "fs.s3a.buffer.dir"
SIZE = "fs.s3a.multipart.size"
MEMORY = "fs.s3a.committer.magic.track.commits.in.memory.enabled"
UUID_OPTION = "fs.s3a.committer.uuid"
SPARK_UUID = "spark.sql.sources.writeJobUUID"
FACTORY = "mapreduce.outputcommitter.factory.class"
OF_FILE = "mapreduce.fileoutputcommitter."
OF_MANIFEST = "mapreduce.manifest.committer."


def from_hadoop_conf(*given: Any, **how: Any) -> Any:
    """The arguments, with options side by side; ``committer_options`` holds those of the committer."""
    made = hadoop_conf.from_hadoop_conf(*given, **how)
    for name, value in made.pop("options", {}).items():
        (made if name in GIVEN else made.setdefault("committer_options", {}))[name] = value
    return made


def staged(**options: str) -> dict[str, Any]:
    return from_hadoop_conf({NAME: "directory"} | options)


def refused(conf: dict[str, str], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        from_hadoop_conf(conf)


def test_it_is_found_in_the_package() -> None:
    assert magicfs.hadoop.from_hadoop_conf is hadoop_conf.from_hadoop_conf
    made = hadoop_conf.from_hadoop_conf({NAME: "directory", SIZE: "64M"})
    assert made == {"committer": "directory", "mode": "append", "options": {"part_size": 64 << 20}}
    assert "from_hadoop_conf" in magicfs.hadoop.__all__


def test_what_is_not_named_is_left_to_the_job() -> None:
    assert from_hadoop_conf({}) == {"mode": "append"}
    assert from_hadoop_conf({"fs.s3a.endpoint": "http://x", "unrelated": "${nothing}"}) == {"mode": "append"}


def test_every_option_of_the_staging_committers(tmp_path: Path) -> None:
    conf = {
        NAME: "partitioned",
        THREADS: "16",
        MODE: "REPLACE",
        UNIQUE: "false",
        TMP: f"file://{tmp_path}/cluster",
        BUFFER: f"file://{tmp_path}/one,{tmp_path}/two",
        SIZE: "16M",
        UUID_OPTION: " job-7 ",
        "fs.s3a.committer.require.uuid": "true",
        "fs.s3a.committer.abort.pending.uploads": "true",
        f"{OF_FILE}marksuccessfuljobs": "true",
    }
    arguments = from_hadoop_conf(conf)
    assert arguments == {
        "committer": "partitioned",
        "concurrency": 16,
        "mode": "overwrite_partitions",
        "unique_names": False,
        "part_size": 16 * 2**20,
        "job_id": "job-7",
        "committer_options": {
            "work_directory": f"{tmp_path}/one",
            "cluster_directory": f"file://{tmp_path}/cluster",
        },
    }
    filesystem = MemoryFileSystem(world=World(create_buckets=True))
    job = magicfs.Job("memory://bucket/sales", filesystem=filesystem, **arranged(**arguments)).setup()
    assert (job.id, job.spec.concurrency, job.spec.context.options.part_size) == ("job-7", 16, 16 * 2**20)
    with job.task(0) as task:
        Path(task.path, "p=1").mkdir()
        Path(task.path, "p=1", "a").write_text("x")
    job.commit(job.commits)
    assert filesystem.cat_file("bucket/sales/p=1/a") == b"x"


# -- the committer -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["file", "directory", "partitioned", "magic"])
def test_committer_by_name(name: str) -> None:
    assert from_hadoop_conf({NAME: name})["committer"] == name


@pytest.mark.parametrize("name", ["", "  "])
def test_no_name_is_the_file_committer(name: str) -> None:
    assert from_hadoop_conf({NAME: name})["committer"] == "file"


@pytest.mark.parametrize("name", ["staging", "Magic", "manifest", "x"])
def test_unknown_name_is_refused_with_the_choices(name: str) -> None:
    refused(
        {NAME: name}, f'Unknown committer: "{name}" in .*; choose one of file, directory, partitioned, magic'
    )


def test_name_for_spark_comes_before_the_one_without_it_as_in_spark() -> None:
    assert from_hadoop_conf({f"spark.hadoop.{NAME}": "magic"})["committer"] == "magic"
    core, spark = {NAME: "directory"}, {f"spark.hadoop.{NAME}": "magic"}
    for both in (core | spark, spark | core):
        assert from_hadoop_conf(both)["committer"] == "magic"


def test_factory_comes_before_the_name() -> None:
    manifest = "org.apache.hadoop.mapreduce.lib.output.committer.manifest.ManifestCommitterFactory"
    assert from_hadoop_conf({FACTORY: manifest, NAME: "magic"})["committer"] == "manifest"
    s3a = "org.apache.hadoop.fs.s3a.commit.S3ACommitterFactory"
    assert from_hadoop_conf({FACTORY: s3a, NAME: "magic"})["committer"] == "magic"
    assert "committer" not in from_hadoop_conf({FACTORY: s3a})
    refused(
        {FACTORY: "com.example.Mine"}, "factory.class=com.example.Mine is unknown; choose one of org.apache"
    )


# -- values --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "expected"), [("1", 1), ("64", 64), ("0", 1), ("-4", 4 * (os.cpu_count() or 1))]
)
def test_threads(given: str, expected: int) -> None:
    assert from_hadoop_conf({NAME: "magic", THREADS: given})["concurrency"] == expected


@pytest.mark.parametrize(
    ("committer", "mode", "expected"),
    [
        ("directory", None, "append"),
        ("partitioned", "", "append"),
        ("directory", "fail", "error"),
        ("directory", "Append", "append"),
        ("directory", "REPLACE", "overwrite"),
        ("partitioned", "Fail", "error"),
        ("partitioned", "replace", "overwrite_partitions"),
        ("magic", "REPLACE", "append"),
        ("file", "REPLACE", "append"),
    ],
)
def test_conflict_mode(committer: str, mode: str | None, expected: str) -> None:
    conf = {NAME: committer} | ({} if mode is None else {MODE: mode})
    assert from_hadoop_conf(conf)["mode"] == expected


def test_unknown_conflict_mode_is_refused_with_the_choices() -> None:
    refused(
        {NAME: "directory", MODE: "merge"}, "conflict-mode=MERGE is unknown; choose one of fail, append, repl"
    )


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("5242880", 5 * 2**20),
        ("64M", 2**26),
        ("10m", 10 * 2**20),
        ("1G", 2**30),
        ("100 K", 102400),
        ("1T", 2**40),
    ],
)
def test_sizes(given: str, expected: int) -> None:
    assert from_hadoop_conf({NAME: "magic", SIZE: given})["part_size"] == expected


@pytest.mark.parametrize("given", ["64MB", "M", "-1", "1.5G", "0x10"])
def test_size_that_is_none_is_refused(given: str) -> None:
    refused({NAME: "magic", SIZE: given}, "is not a size; write bytes, or a number with K, M, G")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("/scratch", "/scratch"),
        ("file:/scratch", "/scratch"),
        ("file:///scratch", "/scratch"),
        (" /one , /two", "/one"),
        ("${tmp}/s3a", "/var/tmp/s3a"),
        ("${env.MAGICFS_TEST_DIRS:-${tmp}}/s3a", "/var/tmp/s3a"),
        ("${env.MAGICFS_TEST_NONE-/x}", "/x"),
    ],
)
def test_local_directory(given: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAGICFS_TEST_DIRS", "")
    monkeypatch.delenv("MAGICFS_TEST_NONE", raising=False)
    found = staged(**{BUFFER: given, "tmp": "/var/tmp"})
    assert found["committer_options"] == {"work_directory": expected}


def test_environment_comes_before_a_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAGICFS_TEST_DIRS", "/a,/b")
    assert staged(**{BUFFER: "${env.MAGICFS_TEST_DIRS:-/x}"})["committer_options"] == {"work_directory": "/a"}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("hdfs://nn/tmp", "Wrong FS: hdfs://nn/tmp, expected: file:///"),
        ("tmp/s3a", "does not start with an absolute path"),
        ("${nothing}/s3a", r"holds \$\{nothing\}, which has no value here"),
        ("${env.MAGICFS_TEST_NONE}", "has no value here"),
        ("${a}", "variables that refer to each other"),
    ],
)
def test_local_directory_that_is_none_is_refused(given: str, told: str) -> None:
    refused({NAME: "directory", BUFFER: given, "a": "${b}", "b": "${a}"}, told)


def test_local_directory_does_not_concern_other_committers() -> None:
    assert from_hadoop_conf({NAME: "magic", BUFFER: "${env.MAGICFS_TEST_NONE}"}) == {
        "committer": "magic",
        "mode": "append",
    }


@pytest.mark.parametrize(
    ("default", "given", "expected"),
    [
        ("", "hdfs://nn:8020/tmp/staging", "hdfs://nn:8020/tmp/staging"),
        ("", "file:/tmp/staging", "file:///tmp/staging"),
        ("hdfs://nn:8020/", "/tmp/staging", "hdfs://nn:8020/tmp/staging"),
        ("hdfs://nn:8020", "tmp/staging", "hdfs://nn:8020/user/alice/tmp/staging"),
        ("", "/tmp/staging", "file:///tmp/staging"),
        ("file:///", "tmp/staging", "file:///srv/there/tmp/staging"),
        ("", "tmp/staging", "file:///srv/there/tmp/staging"),
    ],
)
def test_cluster_directory(default: str, given: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "alice")
    monkeypatch.setattr(Path, "cwd", lambda: Path("/srv/there"))
    found = staged(**{TMP: given, "fs.defaultFS": default})
    assert found["committer_options"] == {"cluster_directory": expected}


def test_tracking_in_memory_is_for_magic() -> None:
    assert from_hadoop_conf({NAME: "magic", MEMORY: "true"})["tracking"] == "memory"
    assert "tracking" not in from_hadoop_conf({NAME: "magic", MEMORY: "false"})
    assert "tracking" not in from_hadoop_conf({NAME: "directory", MEMORY: "true"})


@pytest.mark.parametrize(("name", "value"), [(UNIQUE, "yes"), (f"{OF_MANIFEST}validate.output", "1")])
def test_flag_that_is_none_is_refused(name: str, value: str) -> None:
    committer = "manifest" if name.startswith(OF_MANIFEST) else "directory"
    conf = {NAME: "directory", name: value}
    if committer == "manifest":
        conf[FACTORY] = "org.apache.hadoop.fs.azurebfs.commit.AzureManifestCommitterFactory"
    refused(conf, f"{name}={value} is not true or false")


def test_number_that_is_none_is_refused() -> None:
    refused({NAME: "magic", THREADS: "many"}, "threads=many is not a whole number")


# -- the job's id --------------------------------------------------------------------------------------


def test_committers_uuid_comes_before_sparks() -> None:
    assert from_hadoop_conf({UUID_OPTION: "a", SPARK_UUID: "b"})["job_id"] == "a"
    assert from_hadoop_conf({UUID_OPTION: " ", SPARK_UUID: "b"})["job_id"] == "b"


def test_missing_uuid_is_refused_if_it_is_required() -> None:
    required = {"fs.s3a.committer.require.uuid": "true", "fs.s3a.committer.generate.uuid": "true"}
    refused(required, f"does not contain a unique ID in {SPARK_UUID}")
    assert from_hadoop_conf(required | {SPARK_UUID: "b"})["job_id"] == "b"


def test_generated_id_is_a_uuid() -> None:
    arguments = from_hadoop_conf({"fs.s3a.committer.generate.uuid": "true", NAME: "magic"})
    assert "job_id" not in arguments
    job = magicfs.Job(f"memory://{uuid4()}/x", **arranged(**arguments))
    assert str(UUID(job.id)) == job.id


# -- other committers ----------------------------------------------------------------------------------


def test_options_of_the_file_committer() -> None:
    found = from_hadoop_conf({NAME: "file", f"{OF_FILE}algorithm.version": "2", SIZE: "64M", THREADS: "8"})
    assert found == {"committer": "file", "mode": "append", "committer_options": {"algorithm": 2}}


def test_every_option_of_the_manifest_committer() -> None:
    found = from_hadoop_conf(
        {
            FACTORY: "org.apache.hadoop.mapreduce.lib.output.committer.manifest.ManifestCommitterFactory",
            f"{OF_MANIFEST}io.threads": "0",
            f"{OF_MANIFEST}validate.output": "true",
            f"{OF_MANIFEST}delete.target.files": "true",
            f"{OF_MANIFEST}cleanup.parallel.delete": "false",
            f"{OF_MANIFEST}cleanup.parallel.delete.base.first": "true",
            f"{OF_MANIFEST}summary.report.directory": "file:///reports",
            f"{OF_MANIFEST}diagnostics.manifest.directory": "kept",
            f"{OF_MANIFEST}store.operations.classname": "ignored",
            f"{OF_MANIFEST}writer.queue.capacity": "7",
            f"{OF_MANIFEST}manifest.save.attempts": "0",
            f"{OF_FILE}cleanup.skipped": "true",
            f"{OF_FILE}cleanup-failures.ignored": "true",
            "fs.azure.io.rate.limit": "1000",
            THREADS: "3",
        }
    )
    assert found.pop("committer_options") == {
        "validate_output": True,
        "delete_target_files": True,
        "cleanup_parallel_delete": False,
        "cleanup_parallel_delete_base_first": True,
        "summary_report_directory": "file:///reports",
        "diagnostics_manifest_directory": "kept",
        "writer_queue_capacity": 7,
        "save_attempts": 1,
        "cleanup_skipped": True,
        "cleanup_failures_ignored": True,
        "renames_per_second": 1000,
    }
    assert found == {"committer": "manifest", "mode": "append", "concurrency": 32}


def test_options_that_are_made_exist() -> None:
    manifest = "org.apache.hadoop.mapreduce.lib.output.committer.manifest.ManifestCommitterFactory"
    made = from_hadoop_conf({FACTORY: manifest, f"{OF_MANIFEST}validate.output": "true"})
    assert ManifestOptions(**made["committer_options"]).validate_output


# -- what is not supported -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("committer", "name", "value"),
    [
        ("magic", "fs.s3a.committer.magic.enabled", "false"),
        ("directory", "fs.s3a.committer.summary.report.directory", "s3a://bucket/reports"),
        ("directory", "fs.s3a.multipart.uploads.enabled", "false"),
        ("file", f"{OF_FILE}cleanup.skipped", "true"),
        ("file", f"{OF_FILE}cleanup-failures.ignored", "true"),
        ("file", f"{OF_FILE}failures.attempts", "3"),
        ("file", f"{OF_FILE}task.cleanup.enabled", "true"),
    ],
)
def test_known_option_that_is_not_supported_is_refused(committer: str, name: str, value: str) -> None:
    refused({NAME: committer, name: value}, f"{name}=.* is not supported by committer='{committer}'")


def test_cleaning_up_after_others_is_ignored_and_says_why() -> None:
    found = from_hadoop_conf(
        {
            NAME: "magic",
            "fs.s3a.committer.magic.cleanup.enabled": "false",
            "fs.s3a.multipart.purge": "true",
        }
    )
    assert found.ignored == {
        "fs.s3a.committer.magic.cleanup.enabled": "a job removes its work at its end",
        "fs.s3a.multipart.purge": "a job discards only its own uploads; magicfs uploads finds others",
    }


def test_option_of_one_committer_does_not_concern_another() -> None:
    assert from_hadoop_conf({NAME: "directory", "fs.s3a.committer.magic.enabled": "false"})


@pytest.mark.parametrize(
    "name",
    [
        "fs.s3a.committer.thread",
        "fs.s3a.committer.staging.mode.mode",
        f"{OF_FILE}algorithm",
        f"{OF_MANIFEST}threads",
        f"spark.hadoop.{OF_MANIFEST}threads",
    ],
)
def test_unknown_option_of_committers_is_refused(name: str) -> None:
    refused({name: "1"}, "is not a known option of Hadoop's committers; check the spelling")


@pytest.mark.parametrize("name", ["committer.name", "committer.staging.conflict-mode", "multipart.size"])
def test_option_for_one_bucket_is_refused(name: str) -> None:
    refused({f"fs.s3a.bucket.sales.{name}": "x"}, rf"is for one bucket; .* url\), or fs\.s3a\.{name}$")


def test_client_option_for_one_bucket_is_ignored() -> None:
    assert from_hadoop_conf({"fs.s3a.bucket.sales.endpoint": "http://x"}) == {"mode": "append"}


# -- one bucket ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("bucket", ["sales", "sales.eu-1.example"])
def test_option_of_the_urls_bucket_counts_where_the_filesystem_reads_it(bucket: str) -> None:
    conf = {
        NAME: "magic",
        SIZE: "64M",
        f"fs.s3a.bucket.{bucket}.multipart.size": "16M",
        "fs.s3a.bucket.other.multipart.size": "1G",
    }
    found = from_hadoop_conf(conf, f"s3a://{bucket}/a b/ü%")
    assert found["part_size"] == 16 * 2**20
    assert found.ignored == {
        SIZE: "fs.s3a.bucket." + bucket + ".multipart.size comes before it",
        "fs.s3a.bucket.other.multipart.size": "it is for another bucket",
    }
    assert from_hadoop_conf(conf, "s3://unheard/x")["part_size"] == 64 * 2**20


@pytest.mark.parametrize(
    "name",
    ["committer.name", "committer.threads", "committer.staging.conflict-mode", "committer.staging.tmp.path"],
)
def test_committers_do_not_see_options_of_a_bucket(name: str, caplog: pytest.LogCaptureFixture) -> None:
    own = f"fs.s3a.bucket.sales.{name}"
    conf = {NAME: "directory", own: "3"}
    found = from_hadoop_conf(conf, "s3a://sales/x")
    assert found == from_hadoop_conf({NAME: "directory"}, "s3a://sales/x")
    assert "read it from the job's configuration" in found.ignored[own]
    assert own in caplog.text


def test_part_size_of_a_bucket_is_not_that_of_what_is_staged() -> None:
    own = "fs.s3a.bucket.sales.multipart.size"
    found = from_hadoop_conf({NAME: "directory", own: "16M"}, "s3a://sales/x")
    assert "part_size" not in found
    assert set(found.ignored) == {own}


@pytest.mark.parametrize("name", ["multipart.uploads.enabled", "committer.magic.enabled"])
def test_bucket_that_forbids_the_committer_is_refused(name: str) -> None:
    own = f"fs.s3a.bucket.sales.{name}"
    with pytest.raises(UsageError, match=f"{own}=false is not supported by committer='magic'"):
        from_hadoop_conf({NAME: "magic", f"fs.s3a.{name}": "true", own: "false"}, "s3a://sales/x")
    from_hadoop_conf({NAME: "magic", f"fs.s3a.{name}": "false", own: "true"}, "s3a://sales/x")


@pytest.mark.parametrize("bucket", ["true", "false"])
def test_tracking_that_differs_between_stream_and_committer_is_refused(bucket: str) -> None:
    own = "fs.s3a.bucket.sales.committer.magic.track.commits.in.memory.enabled"
    other = "false" if bucket == "true" else "true"
    with pytest.raises(UsageError, match="a Hadoop job commit would lose every file"):
        from_hadoop_conf({NAME: "magic", MEMORY: other, own: bucket}, "s3a://sales/x")
    same = from_hadoop_conf({NAME: "magic", MEMORY: bucket, own: bucket}, "s3a://sales/x")
    assert same.get("tracking") == ("memory" if bucket == "true" else None)


# -- defaults of a release -----------------------------------------------------------------------------


@pytest.mark.parametrize("hadoop", ["3.3", "3.4.1", "3.4", "3.5"])
def test_defaults_that_hold_in_a_release(hadoop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "alice")
    monkeypatch.setenv("LOCAL_DIRS", "/disk1")
    assert from_hadoop_conf({}, hadoop=hadoop) == {
        "committer": "file",
        "mode": "append",
        "committer_options": {"algorithm": 2},
    }
    assert from_hadoop_conf({NAME: "magic"}, hadoop=hadoop) == {
        "committer": "magic",
        "mode": "append",
        "concurrency": 8,
        "part_size": 64 * 2**20,
    }
    staged = from_hadoop_conf({NAME: "directory", "fs.defaultFS": "hdfs://nn:8020"}, hadoop=hadoop)
    assert staged == {
        "committer": "directory",
        "mode": "append",
        "concurrency": 8,
        "part_size": 64 * 2**20,
        "unique_names": True,
        "committer_options": {
            "work_directory": "/disk1/s3a",
            "cluster_directory": "hdfs://nn:8020/user/alice/tmp/staging",
        },
    }


def test_buffer_directory_before_3_3_5(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "alice")
    monkeypatch.setenv("LOCAL_DIRS", "/disk1")
    old = from_hadoop_conf({NAME: "directory"}, hadoop="3.3.4")
    assert old["committer_options"]["work_directory"] == "/tmp/hadoop-alice/s3a"
    new = from_hadoop_conf({NAME: "directory"}, hadoop="3.3.6")
    assert new["committer_options"]["work_directory"] == "/disk1/s3a"


def test_spark_sets_the_first_algorithm_itself() -> None:
    spark = {"spark.app.name": "x", f"spark.hadoop.{NAME}": "file"}
    assert from_hadoop_conf(spark, hadoop="3.5")["committer_options"] == {"algorithm": 1}
    given = spark | {f"spark.hadoop.{OF_FILE}algorithm.version": "2"}
    assert from_hadoop_conf(given, hadoop="3.5")["committer_options"] == {"algorithm": 2}


def test_release_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match="is not a release"):
        from_hadoop_conf({}, hadoop="newest")


def test_what_holds_in_a_release_makes_a_job_that_it_could_commit() -> None:
    conf = {NAME: "magic", f"{OF_FILE}marksuccessfuljobs": "false"}
    arguments = from_hadoop_conf(conf, "memory://bucket/x", hadoop="3.4.1")
    filesystem = MemoryFileSystem(world=World(create_buckets=True))
    job = magicfs.Job("memory://bucket/x", filesystem=filesystem, **arranged(hadoop="3.4.1", **arguments))
    with job, job.task(0) as task:
        task.filesystem.pipe_file(f"{task.path}/a.csv", b"row\n")
    assert not filesystem.exists("bucket/x/_SUCCESS")
    assert job.spec.options.hadoop.sets


# -- schemes -------------------------------------------------------------------------------------------

MANIFEST_FACTORY = "org.apache.hadoop.mapreduce.lib.output.committer.manifest.ManifestCommitterFactory"


@pytest.mark.parametrize(
    ("url", "hadoop", "expected"),
    [
        ("abfs://c@a.dfs.core.windows.net/x", "3.5", "manifest"),
        ("abfss://c@a.dfs.core.windows.net/x", "3.4", "manifest"),
        ("gs://bucket/x", "3.4", "manifest"),
        ("gs://bucket/x", "3.3", "file"),
        ("file:///x", "3.5", "file"),
        ("s3://bucket/x", "3.5", "magic"),
        ("gs://bucket/x", None, "file"),
    ],
)
def test_committer_of_a_scheme(url: str, hadoop: str | None, expected: str) -> None:
    found = from_hadoop_conf({NAME: "magic"}, url, hadoop=hadoop)
    assert found["committer"] == expected
    assert (NAME in found.ignored) is (expected != "magic")


def test_factory_of_a_scheme_counts_for_its_urls() -> None:
    conf = {"mapreduce.outputcommitter.factory.scheme.gs": MANIFEST_FACTORY, NAME: "magic"}
    assert from_hadoop_conf(conf, "gs://bucket/x")["committer"] == "manifest"
    other = from_hadoop_conf(conf, "s3a://bucket/x")
    assert other["committer"] == "magic"
    assert other.ignored == {
        "mapreduce.outputcommitter.factory.scheme.gs": "it is for URLs of another scheme"
    }
    assert from_hadoop_conf({**conf, FACTORY: MANIFEST_FACTORY}, "s3a://bucket/x")["committer"] == "manifest"


# -- what is ignored -----------------------------------------------------------------------------------


def test_what_is_ignored_is_named_with_its_reason(caplog: pytest.LogCaptureFixture) -> None:
    conf = {
        NAME: "magic",
        MODE: "replace",
        BUFFER: "/scratch",
        f"{OF_FILE}algorithm.version": "2",
        f"{OF_MANIFEST}io.threads": "4",
        "fs.s3a.committer.abort.pending.uploads": "true",
        "spark.hadoop.fs.s3a.threads.max": "96",
        "spark.executor.memory": "1g",
    }
    found = from_hadoop_conf(conf)
    no_option = "it is not an option of committer='magic'"
    assert found.ignored == {
        MODE: no_option,
        BUFFER: no_option,
        f"{OF_FILE}algorithm.version": no_option,
        f"{OF_MANIFEST}io.threads": no_option,
        "fs.s3a.committer.abort.pending.uploads": "a job discards only its own uploads",
        "fs.s3a.threads.max": "configure the connection with s3fs's own settings, in storage_options",
    }
    assert caplog.text == ""


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("fs.s3a.encryption.algorithm", "SSE-C"),
        ("fs.s3a.server-side-encryption-algorithm", "SSE-C"),
        ("fs.s3a.encryption.context", "a=b"),
        ("fs.s3a.create.header.Cache-Control", "x"),
        ("fs.s3a.object.content.encoding", "gzip"),
        ("fs.s3a.bucket.sales.encryption.key", "k"),
    ],
)
def test_what_objects_were_to_bear_is_told_in_a_warning(
    name: str, value: str, caplog: pytest.LogCaptureFixture
) -> None:
    found = from_hadoop_conf({NAME: "magic", name: value}, "s3a://sales/x")
    assert "s3_additional_kwargs" in found.ignored[name]
    assert f"{name} is ignored: set it in storage_options" in caplog.text
    assert found.storage_options == {}


@pytest.mark.parametrize("committer", ["magic", "directory", "partitioned", "file"])
def test_success_marker_may_be_left_out(committer: str) -> None:
    marks = f"{OF_FILE}marksuccessfuljobs"
    assert from_hadoop_conf({NAME: committer, marks: "false"})["success_marker"] is False
    assert "success_marker" not in from_hadoop_conf({NAME: committer, marks: "true"})


def test_success_marker_of_the_manifest_committer_may_be_left_out() -> None:
    conf = {FACTORY: MANIFEST_FACTORY, f"{OF_FILE}marksuccessfuljobs": "false"}
    found = from_hadoop_conf(conf, "gs://bucket/x")
    assert (found["committer"], found["success_marker"]) == ("manifest", False)


# -- presets -------------------------------------------------------------------------------------------


def test_preset_of_netflixs_committer() -> None:
    expected = {"committer": "directory", "mode": "error", "part_size": 10 * 2**20, "concurrency": 8}
    assert from_hadoop_conf({}, preset="s3committer") == expected
    assert from_hadoop_conf({MODE: "append", THREADS: "2"}, preset="s3committer") == {
        **expected,
        "mode": "append",
        "concurrency": 2,
    }
    assert from_hadoop_conf({NAME: "partitioned"}, preset="s3committer")["mode"] == "error"
    assert from_hadoop_conf({}, preset="s3committer") == expected


def test_unknown_preset_is_refused() -> None:
    with pytest.raises(UsageError, match="preset='x' is unknown; choose one of s3committer"):
        from_hadoop_conf({}, preset="x")


def test_preset_beside_a_release_is_refused() -> None:
    with pytest.raises(UsageError, match="contradict each other; leave one of them out"):
        from_hadoop_conf({}, hadoop="3.4", preset="s3committer")


# -- the way to the store ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("conf", "expected"),
    [
        ({}, {}),
        ({"endpoint": ""}, {}),
        ({"endpoint": "s3.amazonaws.com"}, {}),
        ({"endpoint": "minio:9000"}, {"endpoint_url": "https://minio:9000"}),
        (
            {"endpoint": "minio:9000", "connection.ssl.enabled": "false"},
            {"endpoint_url": "http://minio:9000"},
        ),
        ({"endpoint": "http://minio:9000"}, {"endpoint_url": "http://minio:9000"}),
        ({"endpoint.region": "eu-west-1"}, {"client_kwargs": {"region_name": "eu-west-1"}}),
        ({"path.style.access": "true"}, {"config_kwargs": {"s3": {"addressing_style": "path"}}}),
        ({"path.style.access": "false"}, {}),
        ({"requester.pays.enabled": "true"}, {"requester_pays": True}),
        ({"access.key": "a", "secret.key": "b"}, {"key": "a", "secret": "b"}),
        (
            {"access.key": "a", "secret.key": "b", "session.token": "c"},
            {"key": "a", "secret": "b", "token": "c"},
        ),
        (
            {"aws.credentials.provider": "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"},
            {"anon": True},
        ),
        ({"aws.credentials.provider": "com.amazonaws.auth.DefaultAWSCredentialsProviderChain"}, {}),
    ],
)
def test_way_to_the_store(conf: dict[str, str], expected: dict[str, Any]) -> None:
    found = from_hadoop_conf({f"fs.s3a.{name}": value for name, value in conf.items()}, "s3a://sales/x")
    assert found == {"mode": "append"}
    assert found.storage_options == expected


@pytest.mark.parametrize(
    ("conf", "expected"),
    [
        ({"encryption.algorithm": "AES256"}, {"ServerSideEncryption": "AES256"}),
        ({"encryption.algorithm": "SSE-KMS"}, {"ServerSideEncryption": "aws:kms"}),
        (
            {"encryption.algorithm": "SSE-KMS", "encryption.key": "arn:1"},
            {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": "arn:1"},
        ),
        (
            {"server-side-encryption-algorithm": "DSSE-KMS", "server-side-encryption.key": "arn:2"},
            {"ServerSideEncryption": "aws:kms:dsse", "SSEKMSKeyId": "arn:2"},
        ),
        ({"create.storage.class": "intelligent_tiering"}, {"StorageClass": "INTELLIGENT_TIERING"}),
        ({"acl.default": "BucketOwnerFullControl"}, {"ACL": "bucket-owner-full-control"}),
        ({"create.checksum.algorithm": "crc32c"}, {"ChecksumAlgorithm": "CRC32C"}),
    ],
)
def test_what_objects_bear(conf: dict[str, str], expected: dict[str, str]) -> None:
    found = from_hadoop_conf({f"fs.s3a.{name}": value for name, value in conf.items()}, "s3a://sales/x")
    assert found.storage_options == {"s3_additional_kwargs": expected}
    assert found.ignored == {}


def test_way_to_the_store_of_one_bucket() -> None:
    conf = {
        "fs.s3a.endpoint": "http://all",
        "fs.s3a.bucket.sales.endpoint": "http://own",
        "fs.s3a.bucket.sales.encryption.algorithm": "AES256",
        "fs.s3a.bucket.other.endpoint": "http://other",
    }
    found = from_hadoop_conf(conf, "s3a://sales/x")
    assert found.storage_options == {
        "endpoint_url": "http://own",
        "s3_additional_kwargs": {"ServerSideEncryption": "AES256"},
    }
    assert found.ignored == {
        "fs.s3a.endpoint": "fs.s3a.bucket.sales.endpoint comes before it",
        "fs.s3a.bucket.other.endpoint": "it is for another bucket",
    }
    assert from_hadoop_conf(conf, "gs://sales/x").storage_options == {}


@pytest.mark.parametrize("algorithm", ["CSE-KMS", "CSE-CUSTOM", "rot13"])
def test_encryption_that_nobody_here_does_is_refused(algorithm: str) -> None:
    refused(
        {"fs.s3a.encryption.algorithm": algorithm}, "is not supported: magicfs does no client-side encryption"
    )


@pytest.mark.parametrize("name", ["access.key", "secret.key"])
def test_half_of_the_credentials_is_refused(name: str) -> None:
    refused({f"fs.s3a.{name}": "x"}, "belong together; set both or neither")


def test_job_with_these_options_writes_as_s3a_would() -> None:
    conf = {
        NAME: "magic",
        "fs.s3a.endpoint": "http://127.0.0.1:9",
        "fs.s3a.access.key": "secret-a",
        "fs.s3a.secret.key": "secret-b",
        "fs.s3a.encryption.algorithm": "SSE-KMS",
    }
    found = from_hadoop_conf(conf, "s3a://sales/x", hadoop="3.5")
    job = magicfs.Job(
        "s3://sales/x", storage_options=dict(found.storage_options), **arranged(hadoop="3.5", **found)
    )
    assert job.spec.object_settings == {"ServerSideEncryption": "aws:kms"}
    assert "secret-a" not in repr(job.spec)


def test_empty_options_say_nothing(caplog: pytest.LogCaptureFixture) -> None:
    names = ("fs.s3a.encryption.key", "fs.s3a.encryption.algorithm", "fs.s3a.threads.max", BUFFER)
    found = from_hadoop_conf(dict.fromkeys(names, " "), "s3a://sales/x")
    assert (found, found.ignored, found.storage_options) == ({"mode": "append"}, {}, {})
    assert caplog.text == ""
