"""How often requests to S3 are sent, counted by a proxy, and what is made of answers that were lost."""

from __future__ import annotations

import asyncio
import gc
import pickle
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from dataclasses import replace
from typing import Any

import aiobotocore.session
import botocore
import pytest
from fsspec.asyn import get_loop, sync
from s3fs import S3FileSystem

from magicfs.errors import ObjectExists, PreconditionFailed, StoreError, Unavailable, UploadNotFound
from magicfs.stores import resolve
from magicfs.stores.conditions import Conditions, conditions_of
from magicfs.stores.object_settings import options_of
from magicfs.stores.port import Part, PutMode, Store, Update
from magicfs.stores.retrying import RETRIES, RetryingStore
from magicfs.stores.s3.client import CONNECTIONS, without_retries
from magicfs.stores.s3.requests.own import OwnRequests
from magicfs.testing.fault_proxy import FaultProxy
from magicfs.testing.faults import Action, Rule
from proofs.doubles.servers import Server

pytestmark = pytest.mark.sample(most=1)

_KEY = "dataset1/day=1/a b%.parquet"
REQUESTS: dict[str, tuple[str, Callable[[Store], Coroutine[Any, Any, Any]]]] = {
    "create_upload": ("CreateMultipartUpload", lambda store: store.create_upload(_KEY, metadata={})),
    "put_part": ("UploadPart", lambda store: store.put_part(_KEY, "upload", 1, b"x")),
    "complete_upload": (
        "CompleteMultipartUpload",
        lambda store: store.complete_upload(_KEY, "upload", [Part(1, '"etag"')], if_absent=True),
    ),
    "abort_upload": ("AbortMultipartUpload", lambda store: store.abort_upload(_KEY, "upload")),
    "list_uploads": ("ListMultipartUploads", lambda store: everything(store.list_uploads(""))),
    "put": ("PutObject", lambda store: store.put(_KEY, b"x", mode=PutMode.CREATE)),
    "copy": ("HeadObject", lambda store: store.copy(_KEY, "copy")),
    "get": ("GetObject", lambda store: store.get(_KEY)),
    "get_range": ("GetObject", lambda store: store.get_range(_KEY, 0, 1, etag='"etag"')),
    "head": ("HeadObject", lambda store: store.head(_KEY)),
    "checksums": ("HeadObject", lambda store: store.checksums(_KEY, etag='"etag"')),
    "list": ("ListObjectsV2", lambda store: everything(store.list(""))),
    "list_directories": ("ListObjectsV2", lambda store: everything(store.list_directories(""))),
    "delete": ("DeleteObjects", lambda store: store.delete([_KEY])),
    "delete_matching": ("DeleteObject", lambda store: store.delete_matching(_KEY, '"etag"')),
    "delete_all_matching": ("DeleteObjects", lambda store: store.delete_all_matching([(_KEY, '"etag"')])),
}
"""Every request of the port, with its S3 operation."""
QUICK = {operation: replace(row, first_s=0.001, longest_s=0.001) for operation, row in RETRIES.items()}
CONFLICT: dict[str, Any] = {"status": 409, "code": "ConditionalRequestConflict"}


@pytest.fixture
def bucket(ministack: Server, bucket_factory: Callable[..., str]) -> str:
    return bucket_factory(ministack)


@pytest.fixture
def proxy(ministack: Server) -> Iterator[FaultProxy]:
    with FaultProxy(ministack.endpoint) as proxy:
        yield proxy


@pytest.fixture
def filesystem(ministack: Server, proxy: FaultProxy) -> S3FileSystem:
    options = ministack.storage_options() | {"endpoint_url": proxy.endpoint}
    return S3FileSystem(**options, skip_instance_cache=True)


@pytest.fixture
def store(filesystem: S3FileSystem, bucket: str) -> Store:
    """What ``open_store`` gives, with short pauses."""
    opened = resolve.open_store(filesystem, bucket)
    assert isinstance(opened, RetryingStore)
    return RetryingStore(opened.inner, retries=QUICK)


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    return sync(get_loop(), lambda: coroutine)


async def everything(items: AsyncIterator[Any]) -> list[Any]:
    return [item async for item in items]


# -- how often -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault",
    [
        Rule("*", Action.ERROR, status=503, code="SlowDown"),
        Rule("*", Action.ERROR, status=500),
        Rule("*", Action.RESET),
    ],
    ids=["503 SlowDown", "500", "reset"],
)
def test_lasting_failure_costs_exactly_the_requests_of_the_table(
    store: Store, proxy: FaultProxy, fault: Rule
) -> None:
    assert REQUESTS.keys() == {operation for operation in RETRIES if hasattr(Store, operation)}
    for operation, (sent, request) in REQUESTS.items():
        proxy.add(fault)
        with pytest.raises(Unavailable):
            run(request(store))
        row = RETRIES[operation]
        is_throttled = fault.code == "SlowDown" and row.throttled is not None
        assert proxy.counts == {sent: row.throttled if is_throttled else row.attempts}, operation
        proxy.clear()


def test_denied_request_is_sent_once(store: Store, proxy: FaultProxy) -> None:
    for sent, request in REQUESTS.values():
        proxy.add(Rule("*", Action.ERROR, status=403, code="AccessDenied"))
        with pytest.raises(PermissionError, match="policy of the bucket"):
            run(request(store))
        assert proxy.counts == {sent: 1}
        proxy.clear()


def test_open_store_waits_as_the_table_says(filesystem: S3FileSystem, bucket: str, proxy: FaultProxy) -> None:
    opened = resolve.open_store(filesystem, bucket)
    proxy.add(Rule("HeadBucket", Action.ERROR))
    proxy.add(Rule("PutObject", Action.ERROR, times=2, status=503, code="SlowDown"))
    run(opened.put(_KEY, b"x"))
    assert proxy.counts == {"PutObject": 3}
    assert vars(opened)["_retries"] is RETRIES


@pytest.mark.parametrize(
    ("retries", "attempts"),
    [({"total_max_attempts": 2}, 2), ({"max_attempts": 2}, 3), ({"total_max_attempts": 1}, 1)],
)
def test_number_of_attempts_of_the_filesystem_is_kept(
    ministack: Server, proxy: FaultProxy, bucket: str, retries: dict[str, int], attempts: int
) -> None:
    options = ministack.storage_options() | {"endpoint_url": proxy.endpoint}
    filesystem = S3FileSystem(**options, config_kwargs={"retries": retries}, skip_instance_cache=True)
    proxy.add(Rule("*", Action.ERROR, status=503, code="SlowDown"))
    with pytest.raises(Unavailable):
        run(resolve.open_store(filesystem, bucket).head(_KEY))
    assert proxy.counts == {"HeadObject": attempts}


@pytest.mark.parametrize("listing", ["list", "list_uploads"])
def test_page_that_fails_is_asked_for_again_and_nothing_is_lost_or_repeated(
    ministack: Server,
    store: Store,
    proxy: FaultProxy,
    bucket: str,
    listing: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = ministack.s3_client()
    names = [f"many/{number}" for number in range(7)]
    for name in names:
        if listing == "list":
            client.put_object(Bucket=bucket, Key=name, Body=b"")
        else:
            client.create_multipart_upload(Bucket=bucket, Key=name)
    operation = {"list": "ListObjectsV2", "list_uploads": "ListMultipartUploads"}[listing]
    small = {"list": "MaxKeys", "list_uploads": "MaxUploads"}[listing]

    ask = OwnRequests.ask

    async def paged(self: OwnRequests, method: str, made: Any, given: dict[str, Any], *args: Any) -> Any:
        return await ask(self, method, made, {small: 2} | given, *args)

    monkeypatch.setattr(OwnRequests, "ask", paged)

    async def by_pages_of_two() -> list[str]:
        return [info.key async for info in getattr(store, listing)("many/")]

    for skip in (0, 1, 2, 3):
        proxy.add(Rule(operation, Action.ERROR, skip=skip, times=2, status=503, code="SlowDown"))
    proxy.add(Rule(operation, Action.RESET, skip=3, times=1))
    assert run(by_pages_of_two()) == names
    pages = [request.query for request in proxy.requests if request.status == 200]
    assert len(pages) == len(set(pages)) == 4
    assert proxy.counts[operation] == 4 + 2 * 4 + 1


# -- answers that were lost ------------------------------------------------------------------------------


@pytest.mark.parametrize("action", [Action.LOST, Action.LOST_500])
@pytest.mark.parametrize("kept", [False, True], ids=["new connection", "kept connection"])
def test_conditional_put_whose_answer_was_lost_is_a_success(
    store: Store, proxy: FaultProxy, action: Action, kept: bool
) -> None:
    if kept:
        run(store.put("before", b""))
    proxy.add(Rule("PutObject", action, match="absent", times=1))
    proxy.add(Rule("PutObject", action, match="match", skip=1, times=1))
    created = run(store.put("absent", b"ours", metadata={"Nonce": "1"}, mode=PutMode.CREATE))
    first = run(store.put("match", b"first"))
    replaced = run(store.put("match", b"second", mode=Update(first.etag)))
    assert created == run(store.head("absent"))
    assert replaced.etag == run(store.head("match")).etag
    assert (run(store.get("absent")), run(store.get("match"))) == (b"ours", b"second")
    with pytest.raises(ObjectExists):
        run(store.put("absent", b"ours", metadata={"Nonce": "1"}, mode=PutMode.CREATE))


def test_request_on_a_kept_connection_that_broke_is_sent_once_below_the_table(
    store: Store, proxy: FaultProxy
) -> None:
    """Beside the table aiohttp would repeat a PUT by itself, and nobody could tell that one was lost."""
    inner = store.inner  # type: ignore[attr-defined]
    run(inner.put("before", b""))
    proxy.clear()
    proxy.add(Rule("PutObject", Action.LOST))
    with pytest.raises(Unavailable):
        run(inner.put(_KEY, b"x", mode=PutMode.CREATE))
    assert proxy.counts == {"PutObject": 1}


def test_conflict_of_conditional_puts_is_repeated_until_it_is_over(store: Store, proxy: FaultProxy) -> None:
    proxy.add(Rule("PutObject", Action.ERROR, times=2, **CONFLICT))
    run(store.put(_KEY, b"x", mode=PutMode.CREATE))
    assert proxy.counts["PutObject"] == 3
    assert run(store.get(_KEY)) == b"x"


def test_conflict_that_never_ends_is_unavailable(store: Store, proxy: FaultProxy) -> None:
    proxy.add(Rule("*", Action.ERROR, **CONFLICT))
    with pytest.raises(Unavailable, match="ConditionalRequestConflict"):
        run(store.put(_KEY, b"x", mode=Update('"etag"')))
    assert proxy.counts == {"PutObject": RETRIES["put"].attempts}


def test_conflict_of_a_conditional_complete_is_a_failure_and_the_upload_stays(
    store: Store, proxy: FaultProxy
) -> None:
    upload_id = run(store.create_upload(_KEY, metadata={}))
    part = run(store.put_part(_KEY, upload_id, 1, b"x"))
    proxy.add(Rule("CompleteMultipartUpload", Action.ERROR, **CONFLICT))
    with pytest.raises(StoreError, match="write the file again") as caught:
        run(store.complete_upload(_KEY, upload_id, [part], if_absent=True))
    assert type(caught.value) is StoreError
    assert proxy.counts["CompleteMultipartUpload"] == 1
    assert [info.upload_id for info in run(everything(store.list_uploads("")))] == [upload_id]


@pytest.mark.parametrize("code", ["InternalError", "SlowDown", "InvalidPart", "NoSuchUpload"])
def test_error_in_an_answer_of_200_to_a_complete_is_an_error(
    store: Store, proxy: FaultProxy, code: str
) -> None:
    upload_id = run(store.create_upload(_KEY, metadata={}))
    part = run(store.put_part(_KEY, upload_id, 1, b"x"))
    proxy.add(Rule("CompleteMultipartUpload", Action.ERROR_IN_200, code=code))
    kind = {"InvalidPart": StoreError, "NoSuchUpload": UploadNotFound}.get(code, Unavailable)
    with pytest.raises(kind):
        run(store.complete_upload(_KEY, upload_id, [part]))
    assert [info.upload_id for info in run(everything(store.list_uploads("")))] == [upload_id]


def test_error_in_an_answer_of_200_that_passes_is_waited_out(store: Store, proxy: FaultProxy) -> None:
    upload_id = run(store.create_upload(_KEY, metadata={}))
    part = run(store.put_part(_KEY, upload_id, 1, b"x"))
    proxy.add(Rule("CompleteMultipartUpload", Action.ERROR_IN_200, times=3))
    run(store.complete_upload(_KEY, upload_id, [part]))
    assert run(store.get(_KEY)) == b"x"


def test_conditional_delete_whose_answer_was_lost_meets_nothing_and_is_a_success(
    store: Store, proxy: FaultProxy
) -> None:
    etags = {key: run(store.put(key, b"x")).etag for key in "abc"}
    proxy.add(Rule("DeleteObject", Action.LOST, times=1))
    proxy.add(Rule("DeleteObjects", Action.LOST, times=1))
    run(store.delete_matching("a", etags["a"]))
    assert run(store.delete_all_matching([("b", etags["b"]), ("c", etags["a"])])) == []
    with pytest.raises(PreconditionFailed):
        run(store.put("a", b"y", mode=Update(etags["a"])))


# -- the probe -------------------------------------------------------------------------------------------


def test_probe_costs_fourteen_requests_and_only_once(store: Store, proxy: FaultProxy, bucket: str) -> None:
    assert run(conditions_of(store, "dataset1/job")) == Conditions()
    assert proxy.counts == {
        "PutObject": 5,
        "CreateMultipartUpload": 1,
        "UploadPart": 1,
        "CompleteMultipartUpload": 1,
        # S3Store looks whether anything is there before it believes a refused delete.
        "AbortMultipartUpload": 1,
        "DeleteObjects": 2,
        "DeleteObject": 2,
        "HeadObject": 1,
    }
    proxy.clear()
    assert run(conditions_of(store, "dataset1/another job")) == Conditions()
    assert proxy.counts == {}


# -- the sibling -----------------------------------------------------------------------------------------


def options(ministack: Server, **more: Any) -> dict[str, Any]:
    return {**ministack.storage_options(), **more}


def sibling(filesystem: S3FileSystem) -> S3FileSystem:
    return without_retries(filesystem, options_of(filesystem))


def test_sibling_is_one_for_each_filesystem_on_the_same_loop_and_unknown_to_fsspec(ministack: Server) -> None:
    filesystem = S3FileSystem(**options(ministack))
    assert sibling(filesystem) is sibling(filesystem) is not filesystem
    assert sibling(filesystem).loop is filesystem.loop
    assert S3FileSystem(**options(ministack)) is filesystem
    assert all(known is not sibling(filesystem) for known in S3FileSystem._cache.values())
    assert sibling(S3FileSystem(**options(ministack), skip_instance_cache=True)) is not sibling(filesystem)


def test_sibling_keeps_what_the_filesystem_was_told(ministack: Server, bucket: str) -> None:
    session = aiobotocore.session.AioSession()
    config = {"read_timeout": 7, "retries": {"mode": "standard"}, "user_agent_extra": "mine"}
    given = {"config_kwargs": config, "session": session, "s3_additional_kwargs": {"ACL": "private"}}
    filesystem = S3FileSystem(**options(ministack), **given, skip_instance_cache=True)
    run(resolve.open_store(filesystem, bucket).put(_KEY, b"x"))
    made = sibling(filesystem)
    client_config = made.s3._client_config
    assert (client_config.read_timeout, client_config.user_agent_extra) == (7, "mine")
    assert client_config.retries["total_max_attempts"] == 1
    assert client_config.max_pool_connections == CONNECTIONS
    assert (made.session, made.s3_additional_kwargs) == (session, {"ACL": "private"})
    assert filesystem.config_kwargs == config


@pytest.mark.parametrize("connections", [1, 200])
def test_sibling_keeps_the_number_of_connections_of_the_filesystem(
    ministack: Server, bucket: str, connections: int
) -> None:
    config = {"max_pool_connections": connections}
    filesystem = S3FileSystem(**options(ministack, config_kwargs=config), skip_instance_cache=True)
    store = resolve.open_store(filesystem, bucket)

    async def many() -> None:
        await asyncio.gather(*(store.put(f"k/{number}", b"x") for number in range(20)))

    run(many())
    assert sibling(filesystem).s3._client_config.max_pool_connections == connections


def test_sibling_of_an_anonymous_filesystem_is_anonymous(ministack: Server, bucket: str) -> None:
    given = {"anon": True, "endpoint_url": ministack.endpoint}
    filesystem = S3FileSystem(**given, skip_instance_cache=True)
    run(resolve.open_store(filesystem, bucket).put(_KEY, b"x"))
    assert sibling(filesystem).s3._client_config.signature_version is botocore.UNSIGNED


def test_sibling_goes_with_its_filesystem_and_leaves_no_connection_open(
    ministack: Server, bucket: str
) -> None:
    filesystem = S3FileSystem(**options(ministack), skip_instance_cache=True)
    run(resolve.open_store(filesystem, bucket).put(_KEY, b"x"))
    gone = weakref.ref(sibling(filesystem))
    del filesystem
    gc.collect()
    assert gone() is None


def test_copy_of_a_pickled_filesystem_has_a_sibling_of_its_own(ministack: Server, bucket: str) -> None:
    filesystem = S3FileSystem(**options(ministack), skip_instance_cache=True)
    run(resolve.open_store(filesystem, bucket).put(_KEY, b"x"))
    S3FileSystem.clear_instance_cache()
    copy = pickle.loads(pickle.dumps(filesystem))
    assert copy is not filesystem
    assert sibling(copy) is not sibling(filesystem)
    assert run(resolve.open_store(copy, bucket).get(_KEY)) == b"x"


def test_filesystem_that_is_awaited_is_used_itself(ministack: Server, bucket: str) -> None:
    async def scenario() -> bytes:
        filesystem = S3FileSystem(**options(ministack), asynchronous=True, skip_instance_cache=True)
        assert sibling(filesystem) is filesystem
        store = resolve.open_store(filesystem, bucket)
        session = await filesystem.set_session()
        try:
            await store.put(_KEY, b"x")
            return await store.get(_KEY)
        finally:
            await session.close()

    assert asyncio.run(scenario()) == b"x"
