"""The double of Azure Data Lake Storage, asked by clients that others wrote, and beside Azurite."""

from __future__ import annotations

import base64
import datetime as dt
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from adlfs import AzureBlobFileSystem
from azure.core import MatchConditions
from azure.core.exceptions import (
    HttpResponseError,
    ResourceExistsError,
    ResourceModifiedError,
    ResourceNotFoundError,
)
from azure.storage.blob import BlobBlock, BlobClient, BlobServiceClient, ContentSettings, ImmutabilityPolicy

from proofs.doubles.adls_server import AdlsDouble
from proofs.doubles.azurite import AzureView, Azurite
from proofs.doubles.deviations import OTHERWISE

pytestmark = pytest.mark.sample(most=1)

NAMES = ["a b.txt", "50%25", "a+b#1", "日本語/ß?x=1&y", "dataset1/part", "dataset10/part", "tilde~'()"]


@pytest.fixture
def bucket(adls: AdlsDouble, bucket_factory: Callable[..., str]) -> str:
    return bucket_factory(adls)


@pytest.fixture
def lake(adls: AdlsDouble, bucket: str) -> Iterator[Any]:
    with adls.lake() as service:
        yield service.get_file_system_client(bucket)


def written(lake: Any, path: str, body: bytes = b"body") -> Any:
    """A file, written through the endpoint ``dfs``."""
    client = lake.get_file_client(path)
    client.create_file()
    client.append_data(body, 0, len(body))
    client.flush_data(len(body))
    return client


class TestAdlfs:
    def test_writes_reads_lists_moves_and_deletes(self, adls: AdlsDouble, bucket: str) -> None:
        filesystem = AzureBlobFileSystem(**adls.storage_options(), skip_instance_cache=True)
        for name in NAMES:
            filesystem.pipe_file(f"{bucket}/{name}", name.encode())
        assert sorted(filesystem.find(bucket)) == sorted(f"{bucket}/{name}" for name in NAMES)
        assert [filesystem.cat_file(f"{bucket}/{name}") for name in NAMES] == [n.encode() for n in NAMES]
        assert filesystem.ls(f"{bucket}/dataset1", detail=False) == [f"{bucket}/dataset1/part"]
        assert filesystem.isdir(f"{bucket}/dataset1")
        filesystem.cp_file(f"{bucket}/a b.txt", f"{bucket}/copied")
        assert filesystem.cat_file(f"{bucket}/copied", start=2, end=5) == b"b.t"
        filesystem.rm(f"{bucket}/dataset1", recursive=True)
        assert filesystem.find(f"{bucket}/dataset1") == []
        assert filesystem.exists(f"{bucket}/dataset10/part")


class TestBlobs:
    def test_directories_are_blobs_that_say_so(self, adls: AdlsDouble, bucket: str) -> None:
        adls.write(bucket, "a/b/file", b"1")
        container = adls.client().get_container_client(bucket)
        listed = {blob.name: blob.metadata or {} for blob in container.list_blobs(include=["metadata"])}
        folder = {"hdi_isfolder": "true"}
        assert listed == {"a": folder, "a/b": folder, "a/b/file": {}}
        assert adls.client().get_blob_client(bucket, "a/b").get_blob_properties().metadata == folder
        assert adls.client().get_account_information()["is_hns_enabled"] is True

    def test_directory_that_is_not_empty_is_not_deleted(self, adls: AdlsDouble, bucket: str) -> None:
        adls.write(bucket, "a/file", b"1")
        with pytest.raises(HttpResponseError) as caught:
            adls.client().get_blob_client(bucket, "a").delete_blob()
        assert (caught.value.status_code, caught.value.error_code) == (409, "DirectoryIsNotEmpty")

    def test_file_and_directory_of_one_name_exclude_each_other(self, adls: AdlsDouble, bucket: str) -> None:
        adls.write(bucket, "a/file", b"1")
        for path in ("a", "a/file/below"):
            with pytest.raises(ResourceExistsError):
                adls.write(bucket, path, b"2")
        assert adls.all_keys(bucket) == ["a/file"]


class TestLake:
    def test_file_is_created_appended_and_read(self, adls: AdlsDouble, bucket: str, lake: Any) -> None:
        for name in NAMES:
            client = written(lake, name, name.encode())
            assert client.download_file().readall() == name.encode()
        assert adls.all_keys(bucket) == sorted(NAMES)
        assert lake.get_file_client("a b.txt").get_file_properties().size == 7

    def test_paths_are_listed_one_level_or_all(self, lake: Any) -> None:
        for name in ("x/a", "x/b/c", "x/b/d", "xx/e"):
            written(lake, name)
        one = {entry.name: entry.is_directory for entry in lake.get_paths("x", recursive=False)}
        assert one == {"x/a": False, "x/b": True}
        assert [entry.name for entry in lake.get_paths("x")] == ["x/a", "x/b", "x/b/c", "x/b/d"]
        assert len(list(lake.get_paths(recursive=True, max_results=2))) == 7
        with pytest.raises(ResourceNotFoundError):
            list(lake.get_paths("no such"))

    def test_directory_is_renamed_with_all_below_and_keeps_etags(
        self, adls: AdlsDouble, bucket: str, lake: Any
    ) -> None:
        written(lake, "from/a b", b"1")
        written(lake, "from/c/d", b"2")
        before = lake.get_file_client("from/c/d").get_file_properties().etag
        lake.get_directory_client("from").rename_directory(f"{bucket}/to +")
        assert adls.all_keys(bucket) == ["to +/a b", "to +/c/d"]
        assert lake.get_file_client("to +/c/d").get_file_properties().etag == before

    def test_rename_with_a_condition_takes_a_free_path_alone(
        self, adls: AdlsDouble, bucket: str, lake: Any
    ) -> None:
        written(lake, "new/a", b"1")
        written(lake, "old/b", b"2")
        with pytest.raises(ResourceExistsError):
            lake.get_directory_client("new").rename_directory(
                f"{bucket}/old", match_condition=MatchConditions.IfMissing
            )
        with pytest.raises(ResourceNotFoundError):
            lake.get_directory_client("new").rename_directory(f"{bucket}/no/where")
        assert adls.all_keys(bucket) == ["new/a", "old/b"]
        lake.get_file_client("new/a").rename_file(f"{bucket}/old/b")
        assert adls.read(bucket, "old/b") == b"1"

    def test_directory_is_deleted_with_all_below(self, adls: AdlsDouble, bucket: str, lake: Any) -> None:
        written(lake, "a/b/c")
        written(lake, "ab")
        lake.get_directory_client("a").delete_directory()
        assert (adls.all_keys(bucket), adls.folders(bucket)) == (["ab"], [])

    def test_what_is_not_there_is_said_by_its_code(self, adls: AdlsDouble, lake: Any) -> None:
        with pytest.raises(ResourceNotFoundError):
            lake.get_directory_client("no").delete_directory()
        with adls.lake() as service, pytest.raises(ResourceNotFoundError):
            list(service.get_file_system_client("no-such").get_paths())


class TestWhatIsKept:
    def test_soft_deleted_files_are_hidden_and_can_be_restored(self, adls: AdlsDouble, bucket: str) -> None:
        container = adls.client().get_container_client(bucket)
        adls.write(bucket, "before", b"0")
        container.delete_blob("before")
        adls.keep_deleted(7)
        try:
            for body in (b"1", b"2"):
                adls.write(bucket, "a/key", body)
            container.delete_blob("a/key")
            assert adls.client().get_service_properties()["delete_retention_policy"].days == 7
            assert adls.all_keys(bucket) == []
            assert adls.read(bucket, "a/key") is None
            kept = [blob for blob in container.list_blobs(include=["deleted"]) if blob.deleted]
            assert [(blob.name, blob.size, blob.remaining_retention_days) for blob in kept] == [
                ("a/key", 1, 7)
            ] * 2
            container.get_blob_client("a/key").undelete_blob()
            assert adls.read(bucket, "a/key") == b"2"
            container.get_blob_client("a/new").upload_blob(b"3", overwrite=False)
        finally:
            adls.keep_deleted(0)
        container.delete_blob("a/new")
        assert adls.deleted_keys(bucket) == ["a/key"]

    @pytest.mark.parametrize("kept", ["policy", "hold", "retention", "hold of all"])
    def test_file_that_is_immutable_is_neither_written_over_nor_moved_nor_deleted(
        self, adls: AdlsDouble, bucket: str, lake: Any, kept: str
    ) -> None:
        code = "BlobImmutableDueToLegalHold" if "hold" in kept else "BlobImmutableDueToPolicy"
        adls.write(bucket, "a/key", b"1")
        client = adls.client().get_blob_client(bucket, "a/key")

        def keep(until: float) -> None:
            if kept == "policy":
                policy = ImmutabilityPolicy(
                    expiry_time=dt.datetime.fromtimestamp(until, dt.UTC), policy_mode="Unlocked"
                )
                client.set_immutability_policy(policy)
            elif kept == "hold":
                client.set_legal_hold(until > time.time())
            else:
                is_over = until < time.time()
                retention_s = 3600 if kept == "retention" and not is_over else 0
                adls.keep(bucket, retention_s=retention_s, legal_hold=kept == "hold of all" and not is_over)

        keep(time.time() + 3600)
        file, directory = lake.get_file_client("a/key"), lake.get_directory_client("a")
        client.stage_block("00001", b"2")
        changes: list[tuple[str, Callable[[], Any]]] = [
            (code, lambda: client.upload_blob(b"2", overwrite=True)),
            (code, lambda: client.commit_block_list([BlobBlock("00001")])),
            (code, lambda: client.set_blob_metadata({"a": "b"})),
            (code, client.delete_blob),
            ("PathImmutableDueToPolicy", lambda: file.rename_file(f"{bucket}/b")),
            ("PathImmutableDueToPolicy", lambda: directory.rename_directory(f"{bucket}/b")),
            ("PathImmutableDueToPolicy", directory.delete_directory),
        ]
        for expected, change in changes:
            assert outcome(change) == (409, expected)
        adls.write(bucket, "a/other", b"a new one is taken")
        assert adls.read(bucket, "a/key") == b"1"
        keep(0.0)
        client.delete_blob()

    def test_blocks_of_one_name_are_dropped_and_no_file(self, adls: AdlsDouble, bucket: str) -> None:
        for name in ("a", "b"):
            adls.client().get_blob_client(bucket, name).stage_block("00001", b"1")
        adls.write(bucket, "c", b"1")
        adls.client().get_blob_client(bucket, "c").stage_block("00001", b"1")
        for name in ("a", "c", "none"):
            adls.drop_blocks(bucket, name)
        container = adls.client().get_container_client(bucket)
        assert [blob.name for blob in container.list_blobs(include=["uncommittedblobs"])] == ["b", "c"]
        assert container.get_blob_client("c").get_block_list("all")[1] == []
        assert adls.read(bucket, "c") == b"1"


def test_another_account_is_refused(adls: AdlsDouble) -> None:
    filesystem = AzureBlobFileSystem(
        connection_string=adls.connection_string().replace("AccountName=magicfslake", "AccountName=other"),
        skip_instance_cache=True,
    )
    with pytest.raises(Exception, match="AuthenticationFailed"):
        filesystem.ls("")


def test_any_key_and_any_sas_token_of_its_own_account_is_let_in(adls: AdlsDouble, bucket: str) -> None:
    other = base64.b64encode(b"another key, which signs every request otherwise").decode()
    adls.write(bucket, "key", b"body")
    told = adls.connection_string()
    by_token = told.replace(f"AccountKey={adls.key}", "SharedAccessSignature=sv=2025-01-01&sig=x")
    for way in (told.replace(adls.key, other), told, by_token):
        with BlobServiceClient.from_connection_string(way) as client:
            assert client.get_blob_client(bucket, "key").download_blob().readall() == b"body"
    with (
        BlobServiceClient.from_connection_string(by_token.replace("&sig=x", ""), retry_total=0) as client,
        pytest.raises(HttpResponseError, match="AuthenticationFailed"),
    ):
        client.get_blob_client(bucket, "key").download_blob()


KEY = "a b/50%+#日.txt"


def blob(server: AzureView, key: str = KEY) -> BlobClient:
    found: BlobClient = server.client().get_blob_client(BUCKETS[server.name], key)
    return found


BUCKETS: dict[str, str] = {}


def put(server: AzureView, body: bytes = b"0123456789", **how: Any) -> dict[str, Any]:
    settings = ContentSettings(content_type="text/plain", cache_control="no-cache")
    told: dict[str, Any] = blob(server).upload_blob(
        body, overwrite=True, metadata={"a_2db": "x y"}, content_settings=settings, **how
    )
    return told


def seen(server: AzureView) -> Any:
    found = blob(server).get_blob_properties()
    body = blob(server).download_blob().readall()
    described = (found.content_settings.content_type, found.content_settings.cache_control)
    return body, found.size, dict(found.metadata), described, found.etag == put_etag(found)


def put_etag(found: Any) -> str:
    return str(found.etag)


def staged(server: AzureView, *bodies: bytes) -> list[BlobBlock]:
    made = []
    for number, body in enumerate(bodies):
        blob(server).stage_block(f"{number:05d}", body)
        made.append(BlobBlock(f"{number:05d}"))
    return made


def committed(server: AzureView) -> Any:
    blob(server).commit_block_list(staged(server, b"ab", b"cd")[::-1], metadata={"x": "1"})
    return seen(server)


def uncommitted(server: AzureView) -> Any:
    staged(server, b"ab", b"cd")
    listed = server.client().get_container_client(BUCKETS[server.name]).list_blobs()
    _, blocks = blob(server).get_block_list("uncommitted")
    return [one.name for one in listed if one.name != "a b"], sorted((one.id, one.size) for one in blocks)


def rival(server: AzureView) -> Any:
    mine = staged(server, b"ab")
    blob(server).stage_block("00009", b"xy")
    blob(server).commit_block_list([BlobBlock("00009")])
    return outcome(lambda: blob(server).commit_block_list(mine))


def listed(server: AzureView, method: str, **how: Any) -> list[str]:
    for key in ("t/a", "t/b/c", "t/b/d", "tt", "dataset1/x", "dataset10/x"):
        blob(server, key).upload_blob(b"", overwrite=True)
    container = server.client().get_container_client(BUCKETS[server.name])
    found = [one.name for one in getattr(container, method)(**how)]
    folders = {"t", "t/b", "dataset1", "dataset10"}  # which one of the two has
    return [name for name in found if name not in folders]


def outcome(step: Callable[[], Any]) -> Any:
    try:
        return step()
    except HttpResponseError as error:
        return error.status_code, str(error.error_code)


def put_then(then: Callable[[AzureView], Any]) -> Callable[[AzureView], Any]:
    def step(server: AzureView) -> Any:
        put(server)
        return then(server)

    return step


STEPS: Mapping[str, Callable[[AzureView], Any]] = {
    "put and read": put_then(seen),
    "put nothing": lambda server: (put(server, b""), seen(server))[1],
    "put where nothing may be": lambda server: bool(blob(server).upload_blob(b"new", overwrite=False)),
    "put where nothing may be, and something is": put_then(
        lambda server: blob(server).upload_blob(b"new", overwrite=False)
    ),
    "put over another ETag": put_then(
        lambda server: put(server, b"new", etag='"0x1"', match_condition=MatchConditions.IfNotModified)
    ),
    "put over its ETag": put_then(
        lambda server: bool(
            put(
                server,
                b"new",
                etag=blob(server).get_blob_properties().etag,
                match_condition=MatchConditions.IfNotModified,
            )
        )
    ),
    "put over an ETag where nothing is": lambda server: put(
        server, etag='"0x1"', match_condition=MatchConditions.IfNotModified
    ),
    "a new ETag for each write": lambda server: put(server)["etag"] != put(server)["etag"],
    "read a part": put_then(lambda server: blob(server).download_blob(offset=2, length=4).readall()),
    "read behind the end": put_then(lambda server: blob(server).download_blob(offset=50).readall()),
    "read another ETag": put_then(
        lambda server: (
            blob(server).download_blob(etag='"0x1"', match_condition=MatchConditions.IfNotModified).readall()
        )
    ),
    "read what is not there": lambda server: blob(server, "no such").download_blob().readall(),
    "describe what is not there": lambda server: blob(server, "no such").get_blob_properties(),
    "blocks nobody sees": uncommitted,
    "commit blocks in another order": committed,
    "commit blocks where nothing may be": put_then(
        lambda server: blob(server).commit_block_list(
            staged(server, b"ab"), match_condition=MatchConditions.IfMissing
        )
    ),
    "commit a block that was not sent": lambda server: blob(server).commit_block_list([BlobBlock("12345")]),
    "commit no block": lambda server: (blob(server).commit_block_list([]), seen(server))[1],
    "a rival's commit drops blocks": rival,
    "ids of two lengths": lambda server: (
        blob(server).stage_block("00001", b"a"),
        blob(server).stage_block("1", b"a"),
    ),
    "a body that is not as it was sent": lambda server: blob(server).stage_block(
        "00001", b"ab", headers={"Content-MD5": "AAAAAAAAAAAAAAAAAAAAAA=="}
    ),
    "delete": put_then(lambda server: (blob(server).delete_blob(), outcome(lambda: seen(server)))),
    "delete what is not there": lambda server: blob(server, "no such").delete_blob(),
    "delete another ETag": put_then(
        lambda server: blob(server).delete_blob(etag='"0x1"', match_condition=MatchConditions.IfNotModified)
    ),
    "copy": put_then(
        lambda server: (
            blob(server, "copied").start_copy_from_url(blob(server).url)["copy_status"],
            blob(server, "copied").download_blob().readall(),
            dict(blob(server, "copied").get_blob_properties().metadata),
        )
    ),
    "copy what is not there": lambda server: blob(server, "copied").start_copy_from_url(
        blob(server, "no such").url
    ),
    "change metadata": put_then(
        lambda server: (
            blob(server).set_blob_metadata({"z": "1"}),
            dict(blob(server).get_blob_properties().metadata),
        )[1]
    ),
    "list": lambda server: listed(server, "list_blobs", name_starts_with="t/"),
    "list beside": lambda server: listed(server, "list_blobs", name_starts_with="dataset1/"),
    "list one level": lambda server: listed(server, "walk_blobs", name_starts_with="t/", delimiter="/"),
    "list small pages": lambda server: listed(server, "list_blobs", results_per_page=2),
    "list nothing": lambda server: listed(server, "list_blobs", name_starts_with="no such/"),
    "a container that is not there": lambda server: (
        server.client().get_blob_client("no-such", KEY).get_blob_properties()
    ),
    "a list of a container that is not there": lambda server: list(
        server.client().get_container_client("no-such").list_blobs()
    ),
    "a container that is there": lambda server: server.client().create_container(BUCKETS[server.name]),
}
"""What both are asked."""


@pytest.mark.nightly
@pytest.mark.parametrize("name", STEPS)
def test_double_and_azurite_answer_alike(adls: AdlsDouble, azurite: Azurite, name: str) -> None:
    answers = []
    for server in (adls, azurite):
        BUCKETS[server.name] = server.create_bucket(f"agree-{uuid.uuid4().hex[:12]}")
        answers.append(outcome(lambda: STEPS[name](server)))  # noqa: B023 - at once
        server.remove_bucket(BUCKETS[server.name])
    assert (answers[0] == answers[1]) is (name not in OTHERWISE[azurite.name, adls.name]), answers


def test_conditions_that_do_not_hold_change_nothing(adls: AdlsDouble, bucket: str) -> None:
    adls.write(bucket, "key", b"old")
    with pytest.raises(ResourceModifiedError):
        adls.client().get_blob_client(bucket, "key").upload_blob(
            b"new", overwrite=True, etag='"0x1"', match_condition=MatchConditions.IfNotModified
        )
    assert adls.read(bucket, "key") == b"old"
