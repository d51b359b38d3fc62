"""How the filesystem is made: by instance, by options, by chained URL; what is refused by name."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.core import url_to_fs
from fsspec.implementations.zip import ZipFileSystem
from s3fs import S3FileSystem

import magicfs
from magicfs.errors import UsageError
from magicfs.filesystem import MagicFileSystem
from magicfs.protocol.magic import locate
from magicfs.stores.memory.filesystem import MemoryFileSystem
from proofs.scenes.memory_scene import MemoryScene

MAGIC = "bucket/dataset1/__magic/job 1/__base"
ENDPOINT = "http://127.0.0.1:9"
NESTED = {"endpoint_url": ENDPOINT, "key": "key", "secret": "secret"}


def test_wrapped_instance_is_the_one_that_was_given() -> None:
    wrapped = S3FileSystem(**NESTED)
    assert MagicFileSystem(wrapped).fs is wrapped
    assert MagicFileSystem(fs=wrapped).fs is wrapped


@pytest.mark.parametrize(
    ("protocol", "kind"), [("s3", S3FileSystem), ("s3a", S3FileSystem), ("memory", MemoryFileSystem)]
)
def test_protocol_and_options_make_the_wrapped_filesystem(protocol: str, kind: type) -> None:
    options = NESTED if kind is S3FileSystem else {}
    made = MagicFileSystem(target_protocol=protocol, target_options=options)
    assert type(made.fs) is kind
    assert made.fs.storage_options == options


def test_filesystem_is_registered_under_its_protocol() -> None:
    made = fsspec.filesystem("magic", target_protocol="memory")
    assert type(made) is MagicFileSystem
    assert fsspec.get_filesystem_class("magic") is magicfs.MagicFileSystem


@pytest.mark.parametrize("protocol", ["s3", "s3a"])
@pytest.mark.parametrize("alias", ["s3", "s3a"])
def test_chained_url_takes_nested_options_under_any_name_of_the_protocol(protocol: str, alias: str) -> None:
    filesystem, path = url_to_fs(f"magic::{protocol}://{MAGIC}/a b%.csv", **{alias: dict(NESTED)})
    assert path == f"{MAGIC}/a b%.csv"
    assert filesystem.fs.storage_options == NESTED


def test_options_of_the_filesystem_itself_stay_flat_in_a_chained_url() -> None:
    filesystem, _ = url_to_fs(f"magic::s3://{MAGIC}/a", s3=dict(NESTED), tracking="memory", part_size=2**23)
    assert filesystem.storage_options["tracking"] == "memory"
    assert filesystem.fs.storage_options == NESTED


def test_options_may_be_nested_under_the_name_of_magic() -> None:
    filesystem, _ = url_to_fs(f"magic::s3://{MAGIC}/a", s3=dict(NESTED), magic={"tracking": "memory"})
    assert filesystem.storage_options["tracking"] == "memory"


@pytest.mark.parametrize("flat", [{"endpoint_url": ENDPOINT}, {"key": "k", "secret": "s"}, {"anon": True}])
def test_flat_option_of_the_wrapped_filesystem_is_refused_with_the_nested_form(flat: dict[str, Any]) -> None:
    names = ", ".join(f"{name!r}: …" for name in sorted(flat))
    with pytest.raises(UsageError) as caught:
        url_to_fs(f"magic::s3://{MAGIC}/a", **flat)
    assert f"storage_options={{'s3': {{{names}}}}}" in str(caught.value)
    for value in flat.values():
        assert repr(value) not in str(caught.value)


def test_nested_options_of_another_protocol_are_refused() -> None:
    with pytest.raises(UsageError, match="unknown option gcs of magic"):
        url_to_fs(f"magic::s3://{MAGIC}/a", gcs={"token": "anon"})


def test_thousand_chained_urls_are_one_instance() -> None:
    MagicFileSystem.clear_instance_cache()
    made = [url_to_fs(f"magic::s3://{MAGIC}/{n}", s3=dict(NESTED)) for n in range(1000)]
    assert len({id(filesystem) for filesystem, _ in made}) == 1
    assert [path for _, path in made] == [f"{MAGIC}/{n}" for n in range(1000)]
    assert len(MagicFileSystem._cache) == 1


def test_other_options_are_another_instance() -> None:
    one, _ = url_to_fs(f"magic::s3://{MAGIC}/a", s3=dict(NESTED))
    other, _ = url_to_fs(f"magic::s3://{MAGIC}/a", s3=NESTED | {"endpoint_url": f"{ENDPOINT}0"})
    assert one is not other
    assert one is not url_to_fs(f"magic::s3://{MAGIC}/a", s3=dict(NESTED), hadoop="3.4")[0]


@pytest.mark.parametrize("protocol", ["s3", "s3a"])
def test_name_is_given_its_protocols_back(protocol: str) -> None:
    filesystem = MagicFileSystem(target_protocol=protocol, target_options=NESTED)
    url = filesystem.unstrip_protocol(f"{MAGIC}/a b%")
    assert url == f"magic::s3://{MAGIC}/a b%"
    assert url_to_fs(url, s3=dict(NESTED))[1] == f"{MAGIC}/a b%"
    assert filesystem.unstrip_protocol(url) == url


@pytest.mark.parametrize(
    "form", ["{}", "/{}", "{}/", "magic://{}", "magic::s3://{}", "s3://{}", "s3a://{}", "memory://{}"]
)
def test_path_is_understood_in_every_form(form: str) -> None:
    assert MagicFileSystem._strip_protocol(form.format(f"{MAGIC}/a b%")) == f"{MAGIC}/a b%"
    assert MagicFileSystem._strip_protocol([form.format("bucket/s3:/x")]) == ["bucket/s3:/x"]


def test_path_object_is_understood() -> None:
    assert MagicFileSystem._strip_protocol(Path("bucket/dataset1")) == "bucket/dataset1"


@pytest.mark.parametrize("call", ["open", "exists", "info", "ls", "rm", "pipe_file", "mkdir"])
@pytest.mark.parametrize(
    ("path", "problem"),
    [
        (f"{MAGIC}/a::b", "contains '::'"),
        (f"{MAGIC}/../a", "contains a '.' or '..' element"),
        (f"{MAGIC}/./a", "contains a '.' or '..' element"),
        ("__magic/job/a", "as its bucket"),
        ("__magic_job-x/job/a", "as its bucket"),
    ],
)
def test_path_that_means_nothing_is_refused_by_every_call(
    scene: MemoryScene, call: str, path: str, problem: str
) -> None:
    arguments = {"open": ("wb",), "pipe_file": (b"",)}.get(call, ())
    with pytest.raises(UsageError) as caught:
        getattr(scene.filesystem, call)(path, *arguments)
    assert problem in str(caught.value)
    assert scene.requests() == {}


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("bucket/dataset1/__magic", "no file is named after '__magic'"),
        ("bucket/dataset1/__magic/", "no file is named after '__magic'"),
        ("bucket/__magic_job-x", "no file is named after '__magic_job-x'"),
        ("bucket/dataset1/__magic/job/__base", "no file is named after '__base'"),
        ("bucket/dataset1/__magic/__base/", "no file is named after '__base'"),
    ],
)
@pytest.mark.parametrize("call", ["open", "pipe_file", "touch"])
def test_path_without_a_file_cannot_be_written(
    scene: MemoryScene, call: str, path: str, problem: str
) -> None:
    with pytest.raises(UsageError) as caught:
        getattr(scene.filesystem, call)(path, *{"open": ("wb",), "pipe_file": (b"",)}.get(call, ()))
    assert problem in str(caught.value)
    assert scene.requests() == {}


def test_file_right_under_the_bucket_is_written(scene: MemoryScene) -> None:
    scene.filesystem.pipe_file("bucket/__magic/job/__base/a", b"1")
    assert scene.publish() == {"a": b"1"}


def test_empty_bucket_is_refused() -> None:
    with pytest.raises(UsageError, match="has no bucket"):
        locate("/__magic/a")


@pytest.mark.parametrize(
    ("hadoop", "plain", "job"), [(None, True, True), ("3.3.6", True, False), ("3.4", False, True)]
)
def test_dialect_decides_which_elements_are_magic(hadoop: str | None, plain: bool, job: bool) -> None:
    scene = MemoryScene(hadoop=hadoop)
    scene.filesystem.pipe({"bucket/a/__magic/t/1": b"1", "bucket/b/__magic_job-x/t/2": b"2"})
    assert scene.uploads() == ["a/1"] * plain + ["b/2"] * job


@pytest.mark.parametrize("options", [{"tracking": "disk"}, {"hadoop": "new"}, {"part_size": 0}])
def test_option_that_cannot_be_right_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        MagicFileSystem(target_protocol="memory", **options).open("bucket/__magic/t/a", "wb")


def test_part_size_that_the_store_would_refuse_is_refused_before_the_upload() -> None:
    filesystem = MagicFileSystem(target_protocol="s3", target_options=NESTED, part_size=2**20)
    with pytest.raises(UsageError, match="part_size=1048576 is outside the limits of the store"):
        filesystem.open(f"{MAGIC}/a", "wb")


@pytest.mark.parametrize(
    "make", [lambda: fsspec.filesystem("magic"), lambda: url_to_fs(f"magic://{MAGIC}/a")]
)
def test_magic_alone_is_refused_and_says_how_to_write_it(make: Any) -> None:
    with pytest.raises(UsageError, match=r"magic[+]s3://bucket/key"):
        make()


def test_instance_and_protocol_together_are_refused(scene: MemoryScene) -> None:
    with pytest.raises(UsageError, match="either fs or target_protocol"):
        MagicFileSystem(scene.wrapped, target_protocol="memory")


@pytest.mark.parametrize("protocol", ["ftp", "zip", "sftp", "http", "git"])
def test_protocol_that_cannot_delay_an_upload_is_refused_by_name(protocol: str) -> None:
    with pytest.raises(
        UsageError, match=rf"'{protocol}' cannot delay an upload; .*abfs, .*file, .*gs, .*memory, s3, s3a"
    ):
        MagicFileSystem(target_protocol=protocol, target_options={"host": "nowhere"})


def test_chained_url_of_a_filesystem_that_cannot_delay_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match="'ftp' cannot delay an upload"):
        url_to_fs("magic::ftp://user:hidden@host/dataset1/__magic/a")


def test_instance_that_cannot_delay_an_upload_is_refused_by_name(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("a", "a")
    with pytest.raises(UsageError, match="'zip' cannot delay an upload"):
        MagicFileSystem(ZipFileSystem(str(tmp_path / "a.zip")))


def test_memory_filesystem_of_fsspec_is_refused_and_ours_named() -> None:
    with pytest.raises(UsageError, match=r"fsspec's own memory filesystem .* target_protocol='memory'"):
        MagicFileSystem(fsspec.filesystem("memory"))


def test_what_is_no_filesystem_is_refused() -> None:
    with pytest.raises(UsageError, match="not an fsspec filesystem"):
        MagicFileSystem("s3://bucket")  # type: ignore[arg-type]


def test_magic_around_magic_is_refused(scene: MemoryScene) -> None:
    with pytest.raises(UsageError, match="already a magic filesystem; wrap the one that it wraps"):
        MagicFileSystem(scene.filesystem)


def test_ordinary_urls_of_the_wrapped_protocols_are_not_ours() -> None:
    assert not isinstance(url_to_fs("memory://bucket/a")[0], MagicFileSystem)
    assert not isinstance(url_to_fs("s3://bucket/a")[0], MagicFileSystem)


def test_pandas_second_try_without_credentials_does_not_hide_why_the_first_was_refused() -> None:
    refused = PermissionError("the credentials do not work")
    with pytest.raises(PermissionError) as caught:
        try:
            raise refused
        except PermissionError:
            url_to_fs(f"magic+s3://{MAGIC}/a", s3=dict(NESTED), anon=True)
    assert caught.value is refused
    with pytest.raises(UsageError, match="unknown option anon"):
        url_to_fs(f"magic+s3://{MAGIC}/a", s3=dict(NESTED), anon=True)
