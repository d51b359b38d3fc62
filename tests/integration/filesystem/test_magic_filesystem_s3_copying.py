"""Copies of objects on a server that change while they are read, and of their versions."""

from __future__ import annotations

import pytest
from s3fs import S3FileSystem

from magicfs.errors import PreconditionFailed
from magicfs.filesystem import MagicFileSystem
from magicfs.filesystem.sources import Source
from magicfs.protocol.readback import WRITE_ID
from proofs.doubles.servers import Server
from proofs.scenes.s3_scene import S3Scene

BODY = bytes(range(256)) * 4096


def test_source_that_changes_fails_the_copy_and_nothing_is_recorded(
    scene: S3Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.put("old é", BODY)
    read = Source.read_next

    async def read_and_change(source: Source, size: int) -> bytes:
        found = await read(source, 2**18)
        scene.put("old é", BODY[::-1])
        return found

    monkeypatch.setattr(Source, "read_next", read_and_change)
    target = f"{scene.bucket}/dataset1/__magic/mine/__base/a"
    with pytest.raises(PreconditionFailed, match="during the copy, and nothing was recorded"):
        scene.filesystem.cp_file(f"{scene.bucket}/old é", target)
    assert (set(scene.objects()), scene.uploads()) == ({"old é"}, [])


def test_version_of_an_object_is_copied_as_it_was(ministack: Server, scene: S3Scene) -> None:
    client, bucket = scene.client, scene.bucket
    client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    described = {"ContentType": "text/csv", "Metadata": {"who": "me"}}
    first = client.put_object(Bucket=bucket, Key="old", Body=BODY, **described)["VersionId"]
    scene.put("old", b"second")
    options = ministack.storage_options() | {"version_aware": True}
    fs = MagicFileSystem(S3FileSystem(**options, skip_instance_cache=True))
    base = f"{bucket}/dataset1/__magic/mine/__base"
    fs.cp_file(f"{bucket}/old?versionId={first}", f"{base}/first")
    fs.cp_file(f"{bucket}/old", f"{base}/second")
    assert scene.publish() == {"dataset1/first": BODY, "dataset1/second": b"second"}
    head = client.head_object(Bucket=bucket, Key="dataset1/first")
    assert (head["ContentType"], head["Metadata"]["who"]) == ("text/csv", "me")
    assert head["Metadata"][WRITE_ID]
    listed = client.list_object_versions(Bucket=bucket)
    for one in (*listed.get("Versions", ()), *listed.get("DeleteMarkers", ())):
        client.delete_object(Bucket=bucket, Key=one["Key"], VersionId=one["VersionId"])
