"""What answers of any cloud have to keep to."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicfs.errors import StoreError
from magicfs.stores import answer_rules, undocumented
from magicfs.stores.answer_rules import Malformed, check_root, number, root_of, seconds_of, whole, words


@given(st.text(max_size=900))
def test_words_are_one_printable_line_of_500_characters_at_most(text: str) -> None:
    shown = words(text)
    assert shown.isprintable()
    assert len(shown) <= 500
    if text.isprintable() and len(text) <= 500:
        assert shown == " ".join(text.split())


def test_what_moves_a_terminal_is_escaped() -> None:
    assert words("a\nmagicfs: run\x1b]0;b\x07 \x9b31m \u202e\u2066") == (
        "a magicfs: run\\x1b]0;b\\x07 \\x9b31m \\u202e\\u2066"
    )
    assert words("y" * 5_000_000) == "y" * 499 + "…"


def test_numbers_are_digits_of_ascii() -> None:
    assert [number(text, "size") for text in ("0", "007", "9" * 19)] == [0, 7, int("9" * 19)]
    for text in ("-5", "1_000", "\uff11\uff12", "", " 1", "1\n", "1e3", "9" * 20, "9" * 5000, None):
        with pytest.raises(Malformed, match="the answer's size is"):
            number(text, "size")


def test_times_are_those_of_calendars() -> None:
    assert seconds_of("2026-11-24T22:15:04Z") == seconds_of("2026-11-24T22:15:04") == 1795558504.0
    for text in ("", "x", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "1969-12-31T23:59:59Z"):
        with pytest.raises(Malformed, match="the answer has the time"):
            seconds_of(text)


@pytest.mark.parametrize(
    "body",
    [
        *("<a/>", "\ufeff<a/>", "  \n<a>", "<?xml version='1.0'?>\n<a b='c'/>", "<x:a>", "<a\n>"),
    ],
)
def test_root_is_seen_without_a_parser(body: str) -> None:
    check_root(body.encode(), "a", "Error")


@pytest.mark.parametrize(
    "body", ["", "a", "<b/>", "<ab/>", "<!-- <a/> -->", "{}", "<a", "\x1b<a/>", "<\u00e9/>"]
)
def test_other_roots_are_none(body: str) -> None:
    with pytest.raises(Malformed, match="must be a document a"):
        check_root(body.encode(), "a")


def test_document_has_one_root_and_not_too_many_tags() -> None:
    assert root_of(b"<a xmlns='u:x'><b/></a>", "a").tag == "{u:x}a"
    with pytest.raises(Malformed, match="must be a document b"):
        root_of(b"<a/>", "b")
    many = b"<a>" + b"<b/>" * answer_rules.TAGS_MAX + b"</a>"
    with pytest.raises(Malformed, match="more than 250,000 tags"):
        root_of(many)


def test_object_that_is_read_whole_has_a_limit_unless_the_caller_names_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(answer_rules, "WHOLE_BYTES_MAX", 3)
    assert whole(b"abc", None, "get", "b/k") == b"abc"
    assert whole(b"abcd", 4, "get", "b/k") == b"abcd"
    with pytest.raises(StoreError, match=r"get of b/k: it has more than 3 bytes; read it in ranges"):
        whole(b"abcd", None, "get", "b/k")


class Drip:
    """A stream of which a byte comes now and then."""

    async def read(self, n: int) -> bytes:
        await asyncio.sleep(0.005)
        return b"a"[:n]


def test_body_that_comes_too_slowly_is_given_up() -> None:
    assert asyncio.run(undocumented.read(Drip(), 3)) == b"aaa"
    with pytest.raises(TimeoutError, match=r"the answer is too slow: \d+ bytes arrived"):
        asyncio.run(undocumented.read(Drip(), 10_000, silence_s=0.01))
