"""The double of Google Cloud Storage, asked by clients that others wrote."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from gcsfs.core import GCSFileSystem
from google.api_core import exceptions as google_errors
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage
from google.cloud.storage import transfer_manager
from google.resumable_media.requests import XMLMPUContainer, XMLMPUPart

from proofs.doubles.gcs.wire import Refusal
from proofs.doubles.gcs_server import GcsDouble

NAMES = ["a b.txt", "50%", "a+b#1", "日本語/ß?x=1&y", "dataset1", "dataset1/part", "dataset10/part"]


@pytest.fixture
def bucket(gcs: GcsDouble, bucket_factory: Callable[..., str]) -> str:
    return bucket_factory(gcs)


@pytest.fixture
def filesystem(gcs: GcsDouble) -> GCSFileSystem:
    return GCSFileSystem(**gcs.storage_options(), use_listings_cache=False, skip_instance_cache=True)


@pytest.fixture
def client(gcs: GcsDouble) -> Iterator[storage.Client]:
    made = storage.Client(
        project="test",
        credentials=AnonymousCredentials(),
        client_options={"api_endpoint": gcs.endpoint},
    )
    yield made
    made.close()


class TestGcsfs:
    def test_writes_reads_lists_moves_and_deletes(self, filesystem: GCSFileSystem, bucket: str) -> None:
        for name in NAMES:
            filesystem.pipe_file(f"{bucket}/{name}", name.encode())
        assert sorted(filesystem.find(bucket)) == sorted(f"{bucket}/{name}" for name in NAMES)
        assert [filesystem.cat_file(f"{bucket}/{name}") for name in NAMES] == [n.encode() for n in NAMES]
        assert filesystem.ls(f"{bucket}/dataset1", detail=False) == [f"{bucket}/dataset1/part"]
        filesystem.mv(f"{bucket}/a b.txt", f"{bucket}/moved there.txt")
        filesystem.cp_file(f"{bucket}/50%", f"{bucket}/copied")
        assert filesystem.cat_file(f"{bucket}/moved there.txt") == b"a b.txt"
        assert filesystem.cat_file(f"{bucket}/copied", start=1, end=2) == b"0"
        filesystem.rm(bucket + "/dataset1", recursive=True)
        filesystem.rm([f"{bucket}/{name}" for name in ("50%", "a+b#1", "copied")])
        left = ["dataset10/part", "moved there.txt", "日本語/ß?x=1&y"]
        assert sorted(filesystem.find(bucket)) == sorted(f"{bucket}/{name}" for name in left)

    @pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")  # gcsfs's own way
    def test_streams_by_a_resumable_session_that_can_be_put_off_and_given_up(
        self, filesystem: GCSFileSystem, bucket: str
    ) -> None:
        body = bytes(range(256)) * 2**12 * 11 + b"end"
        for name, ends in (("whole", "close"), ("later", "commit"), ("never", "discard")):
            file = filesystem.open(f"{bucket}/{name}", "wb", block_size=5 * 2**20, autocommit=ends == "close")
            file.write(body)
            file.close()
            assert filesystem.exists(f"{bucket}/{name}") == (ends == "close")
            if ends != "close":
                getattr(file, ends)()
        assert filesystem.cat_file(f"{bucket}/whole") == filesystem.cat_file(f"{bucket}/later") == body
        assert not filesystem.exists(f"{bucket}/never")

    def test_creates_only_where_nothing_is(self, filesystem: GCSFileSystem, bucket: str) -> None:
        filesystem.pipe_file(f"{bucket}/once", b"1", mode="create")
        with pytest.raises(FileExistsError):
            filesystem.pipe_file(f"{bucket}/once", b"2", mode="create")
        assert filesystem.cat_file(f"{bucket}/once") == b"1"

    def test_merges_and_keeps_metadata(self, filesystem: GCSFileSystem, bucket: str) -> None:
        filesystem.pipe({f"{bucket}/1": b"one ", f"{bucket}/2": b"two"})
        filesystem.merge(f"{bucket}/both", [f"{bucket}/1", f"{bucket}/2"])
        filesystem.setxattrs(f"{bucket}/both", answer="42")
        assert filesystem.cat_file(f"{bucket}/both") == b"one two"
        assert filesystem.getxattr(f"{bucket}/both", "answer") == "42"


class TestGoogleClient:
    def test_writes_reads_lists_and_deletes_in_batches(self, client: storage.Client, bucket: str) -> None:
        here = client.bucket(bucket)
        for name in NAMES:
            blob = here.blob(name)
            blob.metadata = {"name": name}
            blob.upload_from_string(name.encode(), checksum="crc32c")
        assert {blob.name for blob in client.list_blobs(bucket, page_size=2)} == set(NAMES)
        pages = client.list_blobs(bucket, delimiter="/", prefix="")
        assert {blob.name for blob in pages} == {name for name in NAMES if "/" not in name}
        assert set(pages.prefixes) == {"dataset1/", "dataset10/", "日本語/"}
        for name in NAMES:
            blob = here.get_blob(name)
            assert (blob.download_as_bytes(checksum="crc32c"), blob.metadata) == (
                name.encode(),
                {"name": name},
            )
        assert here.blob("dataset1").download_as_bytes(start=2, end=4) == b"tas"
        with client.batch():
            for name in NAMES[1:]:
                here.blob(name).delete()
        assert [blob.name for blob in client.list_blobs(bucket)] == NAMES[:1]

    def test_meets_preconditions(self, client: storage.Client, bucket: str) -> None:
        blob = client.bucket(bucket).blob("object")
        blob.upload_from_string(b"1", if_generation_match=0)
        first = blob.generation
        with pytest.raises(google_errors.PreconditionFailed):
            blob.upload_from_string(b"2", if_generation_match=0)
        blob.upload_from_string(b"2", if_generation_match=first)
        with pytest.raises(google_errors.PreconditionFailed):
            blob.delete(if_generation_match=first)
        with pytest.raises(google_errors.NotFound):
            client.bucket(bucket).blob("object", generation=first).download_as_bytes()
        metageneration = blob.metageneration
        blob.metadata = {"a": "1"}
        blob.patch(if_metageneration_match=metageneration)
        with pytest.raises(google_errors.PreconditionFailed):
            blob.patch(if_metageneration_match=metageneration)
        blob.delete(if_generation_match=blob.generation)

    def test_composes_copies_and_moves(self, client: storage.Client, bucket: str) -> None:
        here = client.bucket(bucket)
        for name in ("1", "2"):
            here.blob(name).upload_from_string(name * 3)
        both = here.blob("both ways")
        both.compose([here.blob("1"), here.blob("2")])
        assert both.component_count == 2
        copied = here.copy_blob(both, here, "copied #1")
        assert (copied.download_as_bytes(), here.blob("both ways").exists()) == (b"111222", True)
        moved = here.move_blob(copied, "moved")
        assert (moved.download_as_bytes(), here.blob("copied #1").exists()) == (b"111222", False)

    def test_resumes(self, client: storage.Client, bucket: str) -> None:
        body = bytes(range(256)) * 2**13
        blob = client.bucket(bucket).blob("resumed", chunk_size=2**18)
        blob.upload_from_file(io.BytesIO(body), checksum="md5")
        assert blob.download_as_bytes() == body

    def test_uploads_parts_at_once_by_the_xml_api(
        self, client: storage.Client, bucket: str, tmp_path: Path
    ) -> None:
        path = tmp_path / "file"
        path.write_bytes(bytes(range(256)) * 2**12 * 12)
        blob = client.bucket(bucket).blob("parts/日本語 50%+#")
        blob.metadata = {"task": "1"}
        transfer_manager.upload_chunks_concurrently(
            path, blob, chunk_size=5 * 2**20, worker_type=transfer_manager.THREAD, checksum="crc32c"
        )
        found = client.bucket(bucket).get_blob(blob.name)
        assert (found.download_as_bytes(), found.metadata) == (path.read_bytes(), {"task": "1"})
        assert found.md5_hash is None

    def test_completes_parts_that_another_client_sent(
        self, gcs: GcsDouble, bucket: str, tmp_path: Path
    ) -> None:
        path = tmp_path / "file"
        path.write_bytes(b"x" * (5 * 2**20) + b"end")
        url = f"{gcs.endpoint}/{bucket}/dataset1/part%200"
        with requests.Session() as session:
            opened = XMLMPUContainer(url, str(path), headers={"x-goog-meta-write-id": "1"})
            opened.initiate(transport=session, content_type="text/plain")
            parts = []
            for number, (start, end) in enumerate(((0, 5 * 2**20), (5 * 2**20, 5 * 2**20 + 3)), start=1):
                part = XMLMPUPart(url, opened.upload_id, str(path), start, end, number, checksum="crc32c")
                part.upload(session)
                parts.append((number, part.etag))
            assert gcs.read(bucket, "dataset1/part 0") is None
            assert gcs.uploads(bucket, "dataset1/") == {("dataset1/part 0", opened.upload_id)}
            later = XMLMPUContainer(url, str(path), upload_id=opened.upload_id)
            for number, etag in parts:
                later.register_part(number, etag)
            later.finalize(session)
            assert gcs.read(bucket, "dataset1/part 0") == path.read_bytes()
            described = gcs.described(bucket, "dataset1/part 0")
            assert (described["metadata"], described["contentType"]) == ({"write-id": "1"}, "text/plain")
            with pytest.raises(Exception, match="404"):
                later.finalize(session)


class TestWhatTheDocumentationSays:
    def test_multipart_uploads_take_no_preconditions(self, gcs: GcsDouble, bucket: str) -> None:
        condition = {"x-goog-if-generation-match": "0"}
        with pytest.raises(Refusal, match="NotImplemented"):
            gcs.ask("POST", f"/{bucket}/key?uploads", **condition)
        upload = gcs.open_upload(bucket, "key")
        with pytest.raises(Refusal, match="NotImplemented"):
            gcs.ask("POST", f"/{bucket}/key?uploadId={upload}", b"<x/>", **condition)
        assert gcs.uploads(bucket) == {("key", upload)}

    def test_damaged_part_is_refused(self, gcs: GcsDouble, bucket: str) -> None:
        upload = gcs.open_upload(bucket, "key")
        with pytest.raises(Refusal, match="BadDigest"):
            gcs.ask(
                "PUT",
                f"/{bucket}/key?partNumber=1&uploadId={upload}",
                b"x",
                **{"x-goog-hash": "crc32c=AAAAAA=="},
            )

    def test_folder_is_renamed_with_all_below_and_objects_stay_the_same(
        self, gcs: GcsDouble, bucket_factory: Callable[..., str]
    ) -> None:
        bucket = bucket_factory(gcs)
        gcs.remove_bucket(bucket)
        gcs.create_bucket(bucket, hierarchicalNamespace={"enabled": True})
        for key in ("a/1", "a/b/2", "ab/3"):
            gcs.write(bucket, key, key.encode())
        before = gcs.described(bucket, "a/b/2")["generation"]
        folders = f"/storage/v1/b/{bucket}/folders"
        with pytest.raises(Refusal, match="already exists"):
            gcs.ask("POST", f"{folders}/a%2F/renameTo/folders/ab%2F")
        with pytest.raises(Refusal, match="parent"):
            gcs.ask("POST", f"{folders}/a%2F/renameTo/folders/no%2Fwhere%2F")
        begun = json.loads(gcs.ask("POST", f"{folders}/a%2F/renameTo/folders/c%2F"))
        number = begun["name"].rpartition("/")[2]
        ended = json.loads(gcs.ask("GET", f"/storage/v1/b/{bucket}/operations/{number}"))
        assert (begun["done"], ended["done"], ended["response"]["name"]) == (False, True, "c/")
        assert gcs.all_keys(bucket) == ["ab/3", "c/1", "c/b/2"]
        assert gcs.described(bucket, "c/b/2")["generation"] == before
        names = [one["name"] for one in json.loads(gcs.ask("GET", folders))["items"]]
        assert names == ["ab/", "c/", "c/b/"]
        layout = json.loads(gcs.ask("GET", f"/storage/v1/b/{bucket}/storageLayout"))
        assert layout["hierarchicalNamespace"] == {"enabled": True}

    def test_held_and_retained_objects_stay(self, gcs: GcsDouble, bucket: str) -> None:
        gcs.write(bucket, "held", b"1")
        gcs.change_object(bucket, "held", temporaryHold=True)
        for change in (
            lambda: gcs.write(bucket, "held", b"2"),
            lambda: gcs.ask("DELETE", _of(bucket, "held")),
        ):
            with pytest.raises(Refusal, match="objectUnderActiveHold"):
                change()
        gcs.change_bucket(bucket, retentionPolicy={"retentionPeriod": "3600"})
        gcs.write(bucket, "kept", b"1")
        with pytest.raises(Refusal, match="retentionPolicyNotMet"):
            gcs.ask("DELETE", _of(bucket, "kept"))
        assert gcs.read(bucket, "held") == gcs.read(bucket, "kept") == b"1"

    def test_bucket_may_hold_every_object_that_is_written(self, gcs: GcsDouble, bucket: str) -> None:
        gcs.change_bucket(bucket, defaultEventBasedHold=True)
        gcs.write(bucket, "held", b"1")
        with pytest.raises(Refusal, match="objectUnderActiveHold"):
            gcs.write(bucket, "held", b"2")

    def test_soft_deleted_objects_are_hidden_and_can_be_restored(
        self, gcs: GcsDouble, client: storage.Client, bucket: str
    ) -> None:
        place = client.bucket(bucket)
        gcs.write(bucket, "before", b"0")
        gcs.ask("DELETE", _of(bucket, "before"))
        gcs.change_bucket(bucket, softDeletePolicy={"retentionDurationSeconds": "604800"})
        for body in (b"1", b"2"):
            gcs.write(bucket, "key", body)
        place.delete_blob("key")
        assert gcs.all_keys(bucket) == [] == list(client.list_blobs(bucket))
        assert (place.get_blob("key"), gcs.read(bucket, "key")) == (None, None)
        kept = list(client.list_blobs(bucket, soft_deleted=True))
        assert [blob.name for blob in kept] == ["key", "key"] == gcs.deleted_keys(bucket)
        assert all(blob.soft_delete_time < blob.hard_delete_time for blob in kept)
        for blob in kept:
            found = place.get_blob("key", generation=blob.generation, soft_deleted=True)
            assert (found.generation, found.size) == (blob.generation, 1)
            with pytest.raises(Refusal, match="No such object"):
                gcs.ask("DELETE", f"{_of(bucket, 'key')}?generation={blob.generation}")
        gcs.ask(
            "POST", f"/upload/storage/v1/b/{bucket}/o?uploadType=media&name=key&ifGenerationMatch=0", b"3"
        )
        restored = place.restore_blob("key", generation=kept[0].generation)
        assert restored.generation > kept[1].generation
        assert gcs.read(bucket, "key") == b"1"
        assert len(gcs.deleted_keys(bucket)) == 3

    def test_token_that_is_not_the_one_is_refused_and_a_private_bucket_wants_one(
        self, gcs: GcsDouble, bucket: str
    ) -> None:
        right: dict[str, Any] = {"Authorization": f"Bearer {gcs.token}"}
        with pytest.raises(Refusal, match="Invalid Credentials"):
            gcs.ask("GET", f"/storage/v1/b/{bucket}/o", Authorization="Bearer another")
        gcs.change_bucket(bucket, iamConfiguration={"publicAccessPrevention": "enforced"})
        with pytest.raises(Refusal, match="Anonymous"):
            gcs.write(bucket, "key", b"")
        gcs.ask("POST", f"/upload/storage/v1/b/{bucket}/o?uploadType=media&name=key", b"1", **right)
        gcs.ask("PATCH", f"/storage/v1/b/{bucket}", b'{"iamConfiguration": {}}', **right)
        assert gcs.read(bucket, "key") == b"1"


def _of(bucket: str, key: str) -> str:
    return f"/storage/v1/b/{bucket}/o/{key}"
