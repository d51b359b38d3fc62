"""What an answer teaches: the region of a bucket, and the time at the store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from magicfs.errors import PermissionDenied, StoreError, Unavailable
from magicfs.stores.http import Address, Answer
from magicfs.stores.s3_requests.line import Line
from magicfs.stores.s3_requests.route import Route
from magicfs.stores.s3_requests.signature import Scope
from tests.unit.s3_requests.play import Script, error, run, scripted

_FOUND = Answer(200, {"content-length": "1", "etag": '"e"'}, b"")


def _elsewhere(line: Line) -> None:
    async def elsewhere(region: str) -> Route:
        host = f"bucket.s3.{region}.example"
        return Route(Address("https", host, 443), host, "", Scope(region, "s3"))

    line.elsewhere = elsewhere


@pytest.mark.parametrize(
    "answer",
    [
        error(301, "PermanentRedirect", x_amz_bucket_region="eu-west-1"),
        error(307, "TemporaryRedirect", x_amz_bucket_region="eu-west-1"),
        error(400, "AuthorizationHeaderMalformed", "<Region>eu-west-1</Region>"),
        error(400, "IllegalLocationConstraintException", x_amz_bucket_region="eu-west-1"),
    ],
)
def test_region_is_learned_once_and_the_request_made_again(answer: Answer) -> None:
    store, line, script = scripted(
        answer, Answer(200, {"etag": '"e"'}, b""), Answer(200, {"etag": '"f"'}, b"")
    )
    _elsewhere(line)

    assert run(store.put("k", b"body")).etag == '"e"'
    assert run(store.put("k", b"body")).etag == '"f"'

    hosts = [asked.address.host for asked in script.asked]
    assert hosts == ["wire", *["bucket.s3.eu-west-1.example"] * 2]
    assert [asked.target for asked in script.asked] == ["/bucket/k", "/k", "/k"]
    assert [asked.headers["host"] for asked in script.asked] == hosts
    assert all(asked.body == b"body" for asked in script.asked)
    assert "/eu-west-1/s3/" in script.asked[1].headers["authorization"]


def test_region_is_asked_for_where_an_answer_to_head_cannot_tell_it() -> None:
    store, line, script = scripted(
        Answer(400, {}, b""), Answer(403, {"x-amz-bucket-region": "eu-west-1"}, b""), _FOUND
    )
    _elsewhere(line)
    assert run(store.head("k")).size == 1
    assert [(asked.method, asked.target) for asked in script.asked] == [
        ("HEAD", "/bucket/k"),
        ("HEAD", "/bucket"),
        ("HEAD", "/k"),
    ]


@pytest.mark.parametrize("told", ["", "evil.example/", "EU", "a" * 64, "eu-west-1."])
def test_region_that_is_none_is_not_asked(told: str) -> None:
    answer = error(301, "PermanentRedirect", f"<Region>{told}</Region><Endpoint>evil.example</Endpoint>")
    store, line, script = scripted(answer, Answer(404, {}, b""))
    _elsewhere(line)
    with pytest.raises(StoreError, match="set the region"):
        run(store.put("k", b""))
    assert {asked.address.host for asked in script.asked} == {"wire"}


def test_store_that_redirects_for_ever_is_given_up() -> None:
    away = [error(301, "PermanentRedirect", x_amz_bucket_region=f"eu-west-{n}") for n in range(2)]
    store, line, script = scripted(*away)
    _elsewhere(line)
    with pytest.raises(StoreError, match="PermanentRedirect"):
        run(store.put("k", b""))
    assert len(script.asked) == 2


def test_clock_that_is_wrong_is_corrected_by_the_stores_own() -> None:
    late = error(403, "RequestTimeTooSkewed", date="Thu, 01 Jan 2037 00:00:00 GMT")
    store, line, script = scripted(late, Answer(200, {"etag": '"e"'}, b""), Answer(200, {"etag": '"e"'}, b""))
    run(store.put("k", b""))
    run(store.put("k", b""))
    days = [asked.headers["x-amz-date"][:8] for asked in script.asked]
    assert days == ["20270115", "20370101", "20370101"]
    assert line.skew_s == pytest.approx(2_114_380_800 - 1_800_000_000)


@pytest.mark.parametrize("date", ["", "yesterday", "Fri, 15 Jan 2027 08:00:10 GMT"])
def test_clock_that_no_answer_corrects_is_said_to_be_wrong(date: str) -> None:
    store, _, script = scripted(error(403, "RequestTimeTooSkewed", date=date))
    with pytest.raises(PermissionDenied, match="clock"):
        run(store.put("k", b""))
    assert len(script.asked) == 1


def test_request_that_is_not_answered_is_sent_once() -> None:
    store, line, _ = scripted()

    class Silent(Script):
        async def ask(self, *args: Any, **kwargs: Any) -> Answer:
            self.asked.append(args)  # type: ignore[arg-type]
            raise ConnectionResetError("gone")

    line.transport = silent = Silent()
    request: Callable[[], Any]
    for request in (lambda: store.put("k", b"x"), lambda: store.head("k"), lambda: store.delete(["k"])):
        silent.asked.clear()
        with pytest.raises(Unavailable, match="gone"):
            run(request())
        assert len(silent.asked) == 1
