from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicfs.formats.hadoop_uri import decode, encode


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        ("s3a://demo-bkt/a b/c%20d+e#f?g", "s3a://demo-bkt/a%20b/c%2520d+e%23f%3Fg"),
        (
            "s3a://b/[x]{y}|^`\\\"<>!$&'()*+,;=@~:",
            "s3a://b/%5Bx%5D%7By%7D%7C%5E%60%5C%22%3C%3E!$&'()*+,;=@~:",
        ),
        ("s3a://b/é日本\u00a0\u2028😀\u0085\u007f", "s3a://b/é日本%C2%A0%E2%80%A8😀%C2%85%7F"),
        ("s3a://b/a\n\x00", "s3a://b/a%0A%00"),
        ("s3a://demo-bkt//a//b/", "s3a://demo-bkt/a/b"),
        ("s3a://b", "s3a://b"),
        ("s3a://b/", "s3a://b/"),
        ("/x y", "/x%20y"),
        ("/", "/"),
        ("rel/a b", "rel/a%20b"),
        ("abfs://c@acct.dfs/x", "abfs://c@acct.dfs/x"),
        ("file:/tmp/a b", "file:/tmp/a%20b"),
        ("file:///tmp//x/", "file:///tmp/x"),
        ("s3a://b/year=2026/part:1", "s3a://b/year=2026/part:1"),
        ("", ""),
    ],
)
def test_encodes_as_hadoops_path_does(path: str, uri: str) -> None:
    assert encode(path) == uri


def test_dots_are_names() -> None:
    assert encode("s3a://b/a/../c/./d") == "s3a://b/a/../c/./d"


@pytest.mark.parametrize(
    ("uri", "path"), [("%", "%"), ("a%2", "a%2"), ("%zz", "%zz"), ("%FF", "\ufffd"), ("a+b", "a+b")]
)
def test_decodes_whatever_it_gets(uri: str, path: str) -> None:
    assert decode(uri) == path


@given(st.lists(st.text(min_size=1).filter(lambda name: "/" not in name), min_size=1))
def test_round_trip(elements: list[str]) -> None:
    path = "s3a://bucket/" + "/".join(elements)
    assert decode(encode(path)) == path


@given(st.text())
def test_encoded_text_holds_nothing_that_a_uri_forbids(text: str) -> None:
    assert not re.search(r'[\s"#<>?\[\]\\^`{|}\x00-\x20\x7f]', encode(text))
