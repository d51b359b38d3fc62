from __future__ import annotations

import pytest

from magicfs.errors import FormatError
from magicfs.formats.kinds import detect, load


@pytest.mark.parametrize(
    ("path", "kind", "field"),
    [
        ("b/x.pending", "pending", "uploadId"),
        ("t.pendingset", "pendingset", "commits"),
        ("d/_SUCCESS", "success", "name"),
        ("d/000000-manifest.json", "task manifest", "files"),
    ],
)
def test_the_name_decides_when_the_content_says_nothing(path: str, kind: str, field: str) -> None:
    for raw in (b"", b"{", b"{}"):
        assert detect(path, raw) == kind
        with pytest.raises(FormatError):
            load(path, raw)
    with pytest.raises(FormatError) as caught:
        load(path, b"{}")
    assert caught.value.field == field


def test_an_empty_success_file_is_explained() -> None:
    with pytest.raises(FormatError, match="FileOutputCommitter"):
        load("b/d/_SUCCESS", b"")


@pytest.mark.parametrize("raw", [b"", b"PAR1\x00", b"[1]", b'{"a":1}', b'{"name":"other"}'])
@pytest.mark.parametrize("ask", [detect, load])
def test_foreign_content_names_what_was_expected(ask, raw: bytes) -> None:
    with pytest.raises(
        FormatError, match=r"expected a \.pending file .*uploadId.*commits.*_SUCCESS"
    ) as caught:
        ask("b/data/x.parquet", raw)
    assert caught.value.path == "b/data/x.parquet"


def test_names_are_those_of_the_last_element() -> None:
    for path in ("b/x.pending/data", "_SUCCESS/y", "b/my_SUCCESS", "b/x.pendingsets"):
        with pytest.raises(FormatError, match="of another kind"):
            detect(path, b"{}")
