"""Options of one file on a server: what travels with the upload's creation, and what its object has."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from s3fs import S3FileSystem

from magicfs.errors import UsageError
from magicfs.filesystem import MagicFileSystem
from magicfs.job.job import Job
from magicfs.protocol.file_options import DESCRIPTION, METADATA
from magicfs.protocol.readback import WRITE_ID
from magicfs.stores.object_settings import options_of
from magicfs.stores.s3 import store as s3
from magicfs.stores.s3.client import without_retries
from proofs.doubles.servers import Server
from proofs.scenes.s3_scene import S3Scene

pytestmark = pytest.mark.sample(most=1)

BODY = b"a\n1\n"
NAME = "day=1/a b%+#é.csv"
OPTIONS: dict[str, Any] = {
    "ContentType": "text/csv",
    "ContentEncoding": "identity",
    "ContentDisposition": 'attachment; filename="a.csv"',
    "CacheControl": "max-age=60",
    "Metadata": {"who": "me", "why": "50%"},
    "ServerSideEncryption": "AES256",
    "StorageClass": "STANDARD_IA",
    "Tagging": "team=a%20b&year=2026",
}
HEADERS = {
    "x-amz-server-side-encryption": "AES256",
    "x-amz-storage-class": "STANDARD_IA",
    "x-amz-tagging": "team=a%20b&year=2026",
    "x-amz-meta-who": "me",
    "x-amz-meta-why": "50%",
    "content-type": "text/csv",
    "content-encoding": "identity",
    "content-disposition": 'attachment; filename="a.csv"',
    "cache-control": "max-age=60",
}


class Creations(list[dict[str, str]]):
    """The headers of every CreateMultipartUpload that a filesystem's store sends."""

    def __init__(self, filesystem: S3FileSystem) -> None:
        super().__init__()
        sibling = without_retries(filesystem, options_of(filesystem))
        sibling.connect()
        sibling.s3.meta.events.register("before-send.s3.CreateMultipartUpload", self._note)

    def _note(self, request: Any, **_: Any) -> None:
        texts = {
            name: one.decode() if isinstance(one, bytes) else one for name, one in request.headers.items()
        }
        self.append({name.lower(): text for name, text in texts.items()})


def by_open(fs: MagicFileSystem, path: str, source: Path, **options: Any) -> None:
    with fs.open(path, "wb", **options) as file:
        file.write(BODY)


WAYS: dict[str, Callable[..., Any]] = {
    "open": by_open,
    "pipe_file": lambda fs, path, source, **options: fs.pipe_file(path, BODY, **options),
    "put_file": lambda fs, path, source, **options: fs.put_file(str(source), path, **options),
    "cp_file": lambda fs, path, source, **options: fs.cp_file(
        f"{path.partition('/')[0]}/old/source", path, **options
    ),
}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "local.csv"
    path.write_bytes(BODY)
    return path


@pytest.mark.parametrize("tracking", ["store", "memory"])
def test_options_of_a_file_travel_with_its_upload_and_are_its_objects(
    scene: S3Scene, source: Path, tracking: Any
) -> None:
    scene.put("old/source", BODY, old="1")
    sent = Creations(scene.wrapped)
    job = Job(
        f"s3://{scene.bucket}/d", mode="append", filesystem=scene.wrapped, options={"tracking": tracking}
    )
    with job, job.task(0) as task:
        for way, write in WAYS.items():
            write(task.filesystem, f"{task.path}/{way}/{NAME}", source, **OPTIONS)
    of_files = [headers for headers in sent if "x-amz-storage-class" in headers]
    assert len(of_files) == len(WAYS)
    for headers in of_files:
        assert {name: headers.get(name) for name in HEADERS} == HEADERS
        assert "x-amz-meta-old" not in headers
    for way in WAYS:
        key = f"d/{way}/day=1/a b%+#é-000000-{job.id}.csv"
        head = scene.client.head_object(Bucket=scene.bucket, Key=key)
        assert {name: head[name] for name in ("ContentType", "ContentEncoding", "CacheControl")} == {
            name: OPTIONS[name] for name in ("ContentType", "ContentEncoding", "CacheControl")
        }
        assert {name: head["Metadata"][name] for name in ("who", "why")} == OPTIONS["Metadata"]
        assert head["Metadata"][WRITE_ID]
        # ministack forgets the tags of an upload; that they were sent is seen above.
        assert head["StorageClass"] == "STANDARD_IA"


@pytest.mark.parametrize("spelling", ["acl", "ACL"])
def test_acl_of_a_file_travels(scene: S3Scene, spelling: str) -> None:
    sent = Creations(scene.wrapped)
    base = f"{scene.bucket}/dataset1/__magic/mine/__base"
    with scene.filesystem.open(f"{base}/a", "wb", **{spelling: "bucket-owner-full-control"}) as file:
        file.write(BODY)
    assert [headers["x-amz-acl"] for headers in sent] == ["bucket-owner-full-control"]


def test_what_all_files_have_is_the_default_of_each(ministack: Server, scene: S3Scene) -> None:
    everywhere = {"StorageClass": "STANDARD_IA", "Metadata": {"team": "a"}, "CacheControl": "no-store"}
    options = {**ministack.storage_options(), "s3_additional_kwargs": everywhere}
    wrapped = S3FileSystem(**options, skip_instance_cache=True)
    fs, base = MagicFileSystem(wrapped), f"{scene.bucket}/dataset1/__magic/mine/__base"
    fs.pipe_file(f"{base}/plain", BODY)
    fs.pipe_file(f"{base}/own", BODY, StorageClass="ONEZONE_IA", Metadata={"who": "me"})
    scene.publish()
    plain, own = (
        scene.client.head_object(Bucket=scene.bucket, Key=f"dataset1/{n}") for n in ("plain", "own")
    )
    assert (plain["StorageClass"], own["StorageClass"]) == ("STANDARD_IA", "ONEZONE_IA")
    assert (plain["CacheControl"], own["CacheControl"]) == ("no-store", "no-store")
    kept = [
        {name: one for name, one in head["Metadata"].items() if name != WRITE_ID} for head in (plain, own)
    ]
    assert kept == [{"team": "a"}, {"who": "me"}]


def test_put_and_cp_describe_a_file_as_s3fs_does(scene: S3Scene, source: Path) -> None:
    client, bucket = scene.client, scene.bucket
    described = {"ContentType": "text/csv", "ContentLanguage": "de", "ContentEncoding": "identity"}
    client.put_object(Bucket=bucket, Key="old/é", Body=BODY, Metadata={"who": "me"}, **described)
    base = f"{bucket}/dataset1/__magic/mine/__base"
    scene.filesystem.put_file(str(source), f"{base}/put.csv")
    scene.filesystem.cp_file(f"{bucket}/old/é", f"{base}/copy.csv")
    scene.wrapped.put_file(str(source), f"{bucket}/plain/put.csv")
    scene.wrapped.cp_file(f"{bucket}/old/é", f"{bucket}/plain/copy.csv")
    scene.publish()
    for name in ("put.csv", "copy.csv"):
        heads = [client.head_object(Bucket=bucket, Key=f"{place}/{name}") for place in ("dataset1", "plain")]
        delayed, plain = ({one: head.get(one) for one in DESCRIPTION} for head in heads)
        assert delayed == plain
        assert {**heads[1]["Metadata"], WRITE_ID: heads[0]["Metadata"][WRITE_ID]} == heads[0]["Metadata"]


@pytest.mark.parametrize(
    "name",
    ["SSECustomerKey", "ChecksumAlgorithm", "RequestPayer", "requester_pays", "IfMatch", "content_type"],
)
def test_option_that_one_upload_cannot_have_is_refused_by_name(scene: S3Scene, name: str) -> None:
    base = f"{scene.bucket}/dataset1/__magic/mine/__base"
    with pytest.raises(UsageError, match=f"{name} cannot be given with one file on s3; nothing was written"):
        scene.filesystem.pipe_file(f"{base}/a", BODY, **{name: "1"})
    assert scene.uploads() == []


def test_options_are_those_of_the_api() -> None:
    model = botocore.session.get_session().get_service_model("s3")
    known = set(model.operation_model("CreateMultipartUpload").input_shape.members)
    assert known >= s3._UPLOAD_OPTIONS > {METADATA, *DESCRIPTION}
