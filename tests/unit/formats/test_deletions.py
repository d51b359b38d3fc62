from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicfs.errors import FormatError
from magicfs.formats import deletions
from magicfs.formats.deletions import CHUNK_LENGTH, DELETIONS_FORMAT, DELETIONS_SIZE_LIMIT, OldObject
from magicfs.testing.strategies import KEY_BYTES_MAX, keys

PATH = "b/d/__magic_job-j/job-j/facts/n/deletions-00000.json"
OBJECT = {"key": "d/a", "etag": '"e"', "size": 3}


def read(**changes: Any) -> tuple[OldObject, ...]:
    plain: dict[str, Any] = {"format": DELETIONS_FORMAT, "objects": [OBJECT]}
    document = {name: value for name, value in (plain | changes).items() if value is not ...}
    return deletions.read(PATH, json.dumps(document).encode())


def test_objects_are_read() -> None:
    assert read() == (OldObject("d/a", '"e"', 3),)
    assert read(objects=[]) == ()
    assert read(later=1) == read()


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"format": ...}, "format"),
        ({"format": "magicfs.job/1"}, "format"),
        ({"format": "magicfs.deletions"}, "format"),
        ({"objects": ...}, "objects"),
        ({"objects": None}, "objects"),
        ({"objects": {}}, "objects"),
        ({"objects": ["d/a"]}, "objects[0]"),
        *(({"objects": [OBJECT, OBJECT | {name: None}]}, f"objects[1].{name}") for name in OBJECT),
        *(({"objects": [OBJECT | {name: {}}]}, f"objects[0].{name}") for name in OBJECT),
        ({"objects": [OBJECT | {"key": ""}]}, "objects[0].key"),
        ({"objects": [OBJECT | {"etag": ""}]}, "objects[0].etag"),
        ({"objects": [OBJECT | {"size": -1}]}, "objects[0].size"),
        ({"objects": [OBJECT | {"size": "3"}]}, "objects[0].size"),
        ({"objects": [OBJECT | {"size": True}]}, "objects[0].size"),
    ],
)
def test_what_cannot_be_believed_is_refused_by_field(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(FormatError) as caught:
        read(**changes)
    assert (caught.value.path, caught.value.field) == (PATH, field)


@pytest.mark.parametrize("raw", [b"", b"[]", b"{", b"\xff"])
def test_what_is_no_object_is_refused(raw: bytes) -> None:
    with pytest.raises(FormatError, match=re.escape(PATH)):
        deletions.read(PATH, raw)


def test_chunk_of_a_newer_magicfs_says_so() -> None:
    with pytest.raises(
        FormatError, match=r"deletions/2, and this magicfs reads magicfs\.deletions/1; use a newer"
    ):
        read(format="magicfs.deletions/2")


listed = st.lists(
    st.builds(
        OldObject, keys(), st.text(st.characters(codec="utf-8"), min_size=1), st.integers(0, 2**63 - 1)
    ),
    max_size=5,
)


@given(objects=listed)
def test_what_is_written_is_read_back(objects: list[OldObject]) -> None:
    assert deletions.read(PATH, deletions.write(objects)) == tuple(objects)


def test_the_longest_chunk_fits() -> None:
    one = OldObject("\x7f" * (KEY_BYTES_MAX + 24), '"' * 66, 2**63 - 1)
    raw = deletions.write([one] * CHUNK_LENGTH)
    assert len(raw) < DELETIONS_SIZE_LIMIT
    assert len(deletions.read(PATH, raw)) == CHUNK_LENGTH
