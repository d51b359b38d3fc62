"""Answers, read from their bytes alone."""

from __future__ import annotations

import contextlib
import io

import httptools
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from magicfs.stores.s3.http import answer as answer_module
from magicfs.stores.s3.http.answer import HEAD_BYTES_MAX, Answer, AnswerReader, Malformed

GET, HEAD = False, True
HINTS = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"

# What is said, whether to HEAD; what is read: status, headers, body; whether it is the connection's last.
WHOLE = {
    "length": (
        GET,
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        (200, {"content-length": "5"}, b"hello"),
        False,
    ),
    "none": (
        GET,
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        (200, {"content-length": "0"}, b""),
        False,
    ),
    "no reason": (
        GET,
        b"HTTP/1.1 200\r\nContent-Length: 1\r\n\r\nx",
        (200, {"content-length": "1"}, b"x"),
        False,
    ),
    "empty header": (
        GET,
        b"HTTP/1.1 200 OK\r\nX-Empty:\r\nContent-Length: 1\r\n\r\nx",
        (200, {"x-empty": "", "content-length": "1"}, b"x"),
        False,
    ),
    "repeated": (
        GET,
        b"HTTP/1.1 200 OK\r\nVary: a\r\nContent-Length: 1\r\nvary:  b \r\n\r\nx",
        (200, {"vary": "a, b", "content-length": "1"}, b"x"),
        False,
    ),
    "no ascii": (
        GET,
        b"HTTP/1.1 200 OK\r\nX-Amz-Meta-A: \xc3\xa4\xff\r\nContent-Length: 1\r\n\r\nx",
        (200, {"x-amz-meta-a": "ä\udcff", "content-length": "1"}, b"x"),
        False,
    ),
    "chunked": (
        GET,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n",
        (200, {"transfer-encoding": "chunked"}, b"abc0123456789"),
        False,
    ),
    "trailers": (
        GET,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 1\r\nEtag: 2\r\n\r\n",
        (200, {"transfer-encoding": "chunked"}, b"abc"),
        False,
    ),
    "chunked, nothing": (
        GET,
        b"HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        (404, {"transfer-encoding": "chunked"}, b""),
        False,
    ),
    "close": (
        GET,
        b"HTTP/1.1 500 Oh\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx",
        (500, {"connection": "close", "content-length": "1"}, b"x"),
        True,
    ),
    "old": (
        GET,
        b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx",
        (200, {"content-length": "1"}, b"x"),
        True,
    ),
    "old and kept": (
        GET,
        b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\nx",
        (200, {"connection": "keep-alive", "content-length": "1"}, b"x"),
        False,
    ),
    "informed": (
        GET,
        HINTS + b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx",
        (200, {"content-length": "1"}, b"x"),
        False,
    ),
    "204": (GET, b"HTTP/1.1 204 No Content\r\nServer: a\r\n\r\n", (204, {"server": "a"}, b""), False),
    "304": (
        GET,
        b"HTTP/1.1 304 Not\r\nContent-Length: 7\r\n\r\n",
        (304, {"content-length": "7"}, b""),
        False,
    ),
    "head": (
        HEAD,
        b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n",
        (200, {"content-length": "7"}, b""),
        False,
    ),
    "head, nothing": (
        HEAD,
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        (200, {"content-length": "0"}, b""),
        False,
    ),
    "head, chunked": (
        HEAD,
        b"HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n",
        (404, {"transfer-encoding": "chunked"}, b""),
        False,
    ),
    "head, no length": (HEAD, b"HTTP/1.1 404 Not Found\r\n\r\n", (404, {}, b""), False),
    "head, close": (
        HEAD,
        b"HTTP/1.1 200 OK\r\nConnection: Keep-Alive, Close\r\n\r\n",
        (200, {"connection": "Keep-Alive, Close"}, b""),
        True,
    ),
    "head, old": (
        HEAD,
        b"HTTP/1.0 200 OK\r\nContent-Length: 7\r\n\r\n",
        (200, {"content-length": "7"}, b""),
        True,
    ),
    "head, old and kept": (
        HEAD,
        b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\n",
        (200, {"connection": "keep-alive"}, b""),
        False,
    ),
}
MALFORMED = {
    "no http": b"SSH-2.0-OpenSSH_9.6\r\n",
    "another version": b"HTTP/3.7 200 OK\r\n\r\n",
    "no status": b"HTTP/1.1 OK\r\n\r\n",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    "length is no number": b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
    "length is too much": b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\n",
    "length and chunked": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n",
    "no chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
    "another encoding": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "line ends": b"HTTP/1.1 200 OK\r\nA: b\rX: y\r\n\r\n",
    "no colon": b"HTTP/1.1 200 OK\r\nabc\r\n\r\n",
    "another protocol": b"HTTP/1.1 101 Switching\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n",
    "informed at length": b"HTTP/1.1 199 Aha\r\nContent-Length: 3\r\n\r\nabcHTTP/1.1 200 OK\r\n\r\n",
    "endless name": b"HTTP/1.1 200 OK\r\n" + b"a" * (HEAD_BYTES_MAX + 100),
    "endless value": b"HTTP/1.1 200 OK\r\na: " + b"a" * (HEAD_BYTES_MAX + 100),
    "endless headers": b"HTTP/1.1 200 OK\r\n"
    + b"a: b\r\n" * (HEAD_BYTES_MAX // 2)
    + b"Content-Length: 0\r\n\r\n",
    "endless hints": b"HTTP/1.1 103 Early Hints\r\n\r\n" * (HEAD_BYTES_MAX // 20),
    "endless trailer": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\na: "
    + b"a" * (HEAD_BYTES_MAX + 100),
    "endless chunk size": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;"
    + b"a" * (HEAD_BYTES_MAX + 100),
}


def read(
    reader: AnswerReader, pieces: list[bytes], *, to_head: bool, size_max: int | None = None
) -> Answer | None:
    reader.expect(to_head=to_head, size_max=size_max)
    for number, piece in enumerate(pieces):
        if reader.feed(memoryview(piece)):
            assert number == len(pieces) - 1, "whole too early"
            return reader.take()
    return None


@st.composite
def cut(draw: st.DrawFn, data: bytes) -> list[bytes]:
    """The data in pieces, none of them empty."""
    cuts = sorted(draw(st.sets(st.integers(1, len(data) - 1), max_size=12)))
    return [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]


@given(st.data(), st.lists(st.sampled_from(sorted(WHOLE)), min_size=1, max_size=6))
def test_answers_in_pieces_one_after_another_are_read_alike(data: st.DataObject, names: list[str]) -> None:
    reader = AnswerReader()
    for name in names:
        to_head, said, (status, headers, body), is_last = WHOLE[name]
        assert read(reader, data.draw(cut(said)), to_head=to_head) == Answer(status, headers, body), name
        assert reader.is_last is is_last, name
        if is_last:
            reader = AnswerReader()


@pytest.mark.parametrize("name", WHOLE)
def test_an_answer_byte_by_byte(name: str) -> None:
    to_head, said, (status, headers, body), is_last = WHOLE[name]
    reader = AnswerReader()
    assert read(reader, [bytes([byte]) for byte in said], to_head=to_head) == Answer(status, headers, body)
    assert reader.is_last is is_last


@pytest.mark.parametrize("name", WHOLE)
def test_what_nobody_asked_for_ends_the_connection_and_not_the_answer(name: str) -> None:
    to_head, said, (status, headers, body), _ = WHOLE[name]
    for more in (b"x", b"HTTP/1.1 200 OK\r\n", b"\x00", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"):
        reader = AnswerReader()
        assert read(reader, [said + more], to_head=to_head) == Answer(status, headers, body)
        assert reader.is_last


@pytest.mark.parametrize("name", MALFORMED)
@settings(max_examples=10)
@given(data=st.data())
def test_malformed_answers_are_refused(name: str, data: st.DataObject) -> None:
    with pytest.raises(Malformed, match=r"^the answer "):
        read(AnswerReader(), data.draw(cut(MALFORMED[name])), to_head=False)


@given(st.binary(max_size=300))
def test_nonsense_is_refused_or_waited_on(data: bytes) -> None:
    with contextlib.suppress(Malformed):
        assert read(AnswerReader(), [data], to_head=False) is None


@pytest.mark.parametrize("name", [name for name, row in WHOLE.items() if row[2][2]])
@given(data=st.data())
def test_no_part_of_an_answer_passes_for_the_whole(name: str, data: st.DataObject) -> None:
    to_head, said, _, _ = WHOLE[name]
    length = data.draw(st.integers(1, len(said) - 1))
    reader = AnswerReader()
    assert read(reader, [said[:length]], to_head=to_head) is None
    assert not reader.end()
    assert reader.missing()


@given(st.data(), st.binary(max_size=50))
def test_a_body_without_a_length_lasts_until_the_end(data: st.DataObject, body: bytes) -> None:
    reader = AnswerReader()
    said = b"HTTP/1.1 200 OK\r\nServer: a\r\n\r\n" + body
    assert read(reader, data.draw(cut(said)), to_head=False) is None
    assert reader.end()
    assert reader.is_last
    assert reader.take() == Answer(200, {"server": "a"}, body)


@given(st.data(), st.integers(0, 30), st.booleans())
def test_no_more_is_read_than_was_asked_for(data: st.DataObject, size_max: int, is_chunked: bool) -> None:
    body = bytes(range(20))
    if is_chunked:
        said = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n14\r\n" + body + b"\r\n0\r\n\r\n"
    else:
        said = b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n" + body
    reader = AnswerReader()
    reader.expect(to_head=False, size_max=size_max)
    for piece in data.draw(cut(said)):
        if reader.feed(piece):
            break
    assert reader.take().body == body[:size_max]
    assert reader.is_last is (size_max < 20)


def test_headers_up_to_the_limit_are_read() -> None:
    value = "v" * (HEAD_BYTES_MAX - 200)
    said = f"HTTP/1.1 200 OK\r\nX: {value}\r\nContent-Length: 400000\r\n\r\n".encode() + b"b" * 400000
    answer = read(AnswerReader(), [said], to_head=False)
    assert answer is not None
    assert answer.headers["x"] == value
    assert len(answer.body) == 400000


def test_a_large_body_in_many_pieces_is_read() -> None:
    body = io.BytesIO()
    for number in range(1000):
        body.write(b"%06d" % number)
    pieces = [
        b"HTTP/1.1 200 OK\r\nContent-Length: 6000\r\n\r\n",
        *(b"%06d" % number for number in range(1000)),
    ]
    answer = read(AnswerReader(), pieces, to_head=False)
    assert answer is not None
    assert answer.body == body.getvalue()
    assert type(answer.body) is bytes


def test_the_parser_is_the_one_in_c() -> None:
    assert isinstance(AnswerReader()._parser, httptools.HttpResponseParser)


@pytest.mark.parametrize(("status", "size_max"), [(400, None), (503, 2**24), (301, 2**24)])
def test_of_an_answer_that_is_no_success_64_kib_are_read(status: int, size_max: int | None) -> None:
    head = b"HTTP/1.1 %d X\r\nContent-Length: 10000000\r\n\r\n" % status
    reader = AnswerReader()
    answer = read(reader, [head, b"x" * 40_000, b"x" * 40_000], to_head=False, size_max=size_max)
    assert answer is not None
    assert (answer.status, len(answer.body)) == (status, 64 * 1024)
    assert reader.is_last


def test_names_of_headers_are_kept_if_they_are_short() -> None:
    names = [b"X-Kept-By-This-Test", b"X-Not-" + b"n" * 59]
    lines = b"".join(b"%b: v\r\n" % name for name in names)
    with pytest.MonkeyPatch.context() as patch:
        kept: dict[bytes, str] = {}
        patch.setattr(answer_module, "_NAMES", kept)
        told = read(
            AnswerReader(), [b"HTTP/1.1 200 OK\r\n" + lines + b"Content-Length: 0\r\n\r\n"], to_head=False
        )
    assert told is not None
    assert {name.decode().lower() for name in names} <= told.headers.keys()
    assert set(kept) == {names[0], b"Content-Length"}
