"""Every spelling of a destination that people type is understood, or refused with the line to write."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest
from fsspec.implementations.local import LocalFileSystem
from upath import UPath

import magicfs
from magicfs.errors import UsageError
from magicfs.stores import resolve
from proofs.scenes.job_scene import JobScene

ACCOUNT = "account.dfs.core.windows.net"
UNDERSTOOD = {
    "s3://bucket/sales": "s3://bucket/sales",
    "s3://bucket/sales///": "s3://bucket/sales",
    "s3://bucket": "s3://bucket",
    "s3a://bucket/sales": "s3a://bucket/sales",
    "s3n://bucket/sales": "s3://bucket/sales",
    "S3://Bucket/Sales": "s3://Bucket/Sales",
    "gs://bucket/a é": "gs://bucket/a é",
    "gcs://bucket/sales": "gcs://bucket/sales",
    "az://container/sales": "az://container/sales",
    "azure://container/sales": "abfs://container/sales",
    f"abfs://container@{ACCOUNT}/sales/": "abfs://container/sales",
    f"abfss://container@{ACCOUNT}/a%20b#c": "abfss://container/a%20b#c",
    "wasbs://container@account.blob.core.windows.net/sales": "abfss://container/sales",
    "file:///data/a b%": "file:///data/a b%",
    "file:/data/sales": "file:///data/sales",
    "/data/sales/": "file:///data/sales",
    "/data//sales": "file:///data/sales",
    "s3://bucket/a?b=c": "s3://bucket/a?b=c",
    "s3://tenant:bucket/sales": "s3://tenant:bucket/sales",
}
REFUSED = {
    "bucket/sales": "write 's3://bucket/sales' for a bucket, or 'file:///",
    "~/sales": f"'file://{Path.home()}/sales' for this machine",
    "s3:/bucket/sales": "write 's3://bucket/sales'",
    "s3://bucket//x": "two slashes in a row; write it as 's3://bucket/x'",
    "s3:///x": "has no bucket; write it as 's3://bucket/key'",
    "s3://bucket/x?versionId=1": "names a version with '?versionId='; write 's3://bucket/x'",
    "s3://bucket/x?region=eu&endpoint_override=h": "options of another tool",
    "file://data/sales": "no absolute path; write it as 'file:///data/sales'",
    "magic::s3://bucket/sales": "give the plain URL of the destination, 's3://bucket/sales'",
    "magic+s3://bucket/sales": "give the plain URL of the destination, 's3://bucket/sales'",
    "simplecache::s3://bucket/sales": "is a chained URL",
    "arn:aws:s3:::bucket/sales": "write 's3://bucket/sales'",
    "https://bucket.s3.eu-west-1.amazonaws.com/a/b": "write 's3://bucket/a/b'",
    "https://s3.amazonaws.com/bucket/a": "write 's3://bucket/a'",
    "https://storage.googleapis.com/bucket/a": "write 'gs://bucket/a'",
    "https://account.blob.core.windows.net/container/a": f"write 'abfs://container@{ACCOUNT}/a'",
    "http://localhost:9000/bucket/a": "'s3://bucket/a', with storage_options={'endpoint_url': 'http://localho",
    "s3://localhost:9000/bucket/a": "with storage_options={'endpoint_url': 'http://localhost:9000'}",
    "minio://bucket/a": "write 's3://bucket/a', with storage_options",
    "abfs://container@account/a": f"write 'abfs://container@{ACCOUNT}/…'",
    "gs://me@bucket/a": "is not a bucket name",
    "hdfs://host/a": "no store for hdfs://, only",
    "": "has no scheme",
}


@pytest.mark.parametrize("url", UNDERSTOOD)
def test_a_spelling_that_has_one_meaning_is_understood(url: str) -> None:
    assert resolve.location_of(url).url == UNDERSTOOD[url]


@pytest.mark.parametrize("url", REFUSED)
def test_any_other_is_refused_with_the_line_to_write(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        magicfs.Job(url)
    assert REFUSED[url] in str(caught.value)


def test_credentials_in_a_url_are_not_quoted() -> None:
    with pytest.raises(UsageError, match="contains credentials") as caught:
        magicfs.Job("s3://AKIA:very-secret@bucket/x")
    assert "very-secret" not in str(caught.value)


def test_paths_of_this_machine_are_destinations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for path in (tmp_path / "a b%#é", Path("a b%#é"), str(tmp_path / "a b%#é"), UPath(tmp_path / "a b%#é")):
        with magicfs.Job(path, mode="append") as job, job.task(0) as task:
            task.filesystem.pipe_file(f"{task.path}/x", b"1")
        assert job.url == f"file://{tmp_path}/a b%#é"
    assert magicfs.Dataset(Path("a b%#é")).verify().files == 4
    assert not magicfs.Dataset(Path("a b%#é")).recover().jobs


def test_a_path_of_upath_brings_its_options(scene: JobScene) -> None:
    path = UPath("s3://bucket/a b%", endpoint_url="http://127.0.0.1:9", key="k", secret="s")
    job = magicfs.Job(path, storage_options={"secret": "other"})
    assert job.url == "s3://bucket/a b%"
    given = {"endpoint_url": "http://127.0.0.1:9", "key": "k", "secret": "other"}
    assert dict(job.spec.storage_options) == given
    assert magicfs.Job(UPath(f"{scene.url}/x"), filesystem=scene.filesystem).url == f"{scene.url}/x"


@pytest.fixture
def scene() -> JobScene:
    return JobScene()


@pytest.mark.parametrize(
    ("url", "told"),
    [
        (Path("s3://bucket/sales"), "give it as a string, 's3://bucket/sales', or as upath.UPath"),
        (PurePosixPath("gs://bucket"), "give it as a string, 'gs://bucket'"),
        (b"s3://bucket/sales", "is not a URL; give text"),
        (7, "is not a URL; give text"),
        (None, "is not a URL; give text"),
    ],
)
def test_what_is_no_url_is_refused(url: object, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        magicfs.Job(url)  # type: ignore[arg-type]


def test_a_url_that_does_not_lead_to_the_given_filesystem_is_refused(scene: JobScene) -> None:
    with pytest.raises(UsageError, match="is not a URL of the filesystem"):
        magicfs.Job("/data/sales", filesystem=scene.filesystem)
    with pytest.raises(UsageError, match="is not a URL of the filesystem 'file'"):
        magicfs.Job("s3://bucket/sales", filesystem=LocalFileSystem())
    with pytest.raises(UsageError, match="is not a URL of the filesystem"):
        magicfs.Dataset("/data/sales", filesystem=scene.filesystem).verify()


def test_other_names_of_a_scheme_lie_in_the_same_bucket() -> None:
    options = {"endpoint_url": "http://127.0.0.1:9", "key": "k", "secret": "s"}
    job = magicfs.Job(
        "s3://bucket/sales", storage_options=options, options={"extra_destinations": ["s3a://bucket/other/"]}
    )
    assert job.spec.context.options.places.extra == ("other",)
