"""What an answer teaches: the region of a bucket, and the time at the store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from magicfs.errors import PermissionDenied, StoreError, Unavailable
from magicfs.stores.s3.http import Address, Answer
from magicfs.stores.s3.requests.line import Line
from magicfs.stores.s3.requests.route import Route
from magicfs.stores.s3.requests.signature import Scope
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


@pytest.mark.parametrize(
    "address", [Address("https", "store.example", 443), Address("http", "127.0.0.1", 9000)], ids=str
)
def test_clock_that_is_wrong_is_corrected_by_the_stores_own(address: Address) -> None:
    late = error(403, "RequestTimeTooSkewed", date="Sat, 16 Jan 2027 07:00:00 GMT")
    store, line, script = scripted(late, Answer(200, {"etag": '"e"'}, b""), Answer(200, {"etag": '"e"'}, b""))
    line.route = _over(address)
    run(store.put("k", b""))
    run(store.put("k", b""))
    days = [asked.headers["x-amz-date"] for asked in script.asked]
    assert days == ["20270115T080000Z", "20270116T070000Z", "20270116T070000Z"]
    assert line.skew_s == pytest.approx(23 * 3600)


@pytest.mark.parametrize(
    ("address", "date"),
    [
        # Who reads a request on its way could send it when its time has come.
        (Address("http", "store.example", 80), "Fri, 15 Jan 2027 10:00:00 GMT"),
        (Address("http", "128.0.0.1", 80), "Fri, 15 Jan 2027 10:00:00 GMT"),
        (Address("https", "store.example", 443), "Sat, 16 Jan 2027 09:00:00 GMT"),
        (Address("https", "store.example", 443), "Thu, 01 Jan 2037 00:00:00 GMT"),
    ],
)
def test_clock_is_corrected_by_a_day_at_most_and_only_where_nobody_listens(
    address: Address, date: str
) -> None:
    store, line, script = scripted(error(403, "RequestTimeTooSkewed", date=date))
    line.route = _over(address)
    with pytest.raises(PermissionDenied, match="clock"):
        run(store.put("k", b""))
    assert [asked.headers["x-amz-date"] for asked in script.asked] == ["20270115T080000Z"]
    assert line.skew_s == 0


def _over(address: Address) -> Route:
    return Route(address, address.host, "", Scope("us-east-1", "s3"))


@pytest.mark.parametrize(
    "date", ["", "yesterday", f"Mon, 01 Jan 2024 00:00:00 +{'9' * 25}", "Fri, 15 Jan 2027 08:00:10 GMT"]
)
def test_clock_that_no_answer_corrects_is_said_to_be_wrong(date: str) -> None:
    store, line, script = scripted(error(403, "RequestTimeTooSkewed", date=date))
    line.route = _over(Address("https", "store.example", 443))
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
