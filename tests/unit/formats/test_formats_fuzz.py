"""Whatever a bucket holds, reading it gives a value that can be written back, or a ``FormatError``."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicfs.errors import FormatError
from magicfs.formats import deletions
from magicfs.formats.job_object import JobObject
from magicfs.formats.kinds import Content, load
from magicfs.formats.manifest import Manifest
from magicfs.formats.pending import Pending
from magicfs.formats.pendingset import PendingSet
from magicfs.formats.pointer import Pointer
from magicfs.formats.success import SUCCESS_MARKER_FILE_LIMIT, SuccessData
from magicfs.formats.task_manifest import TaskManifest

GOLDEN = Path(__file__).parents[2] / "golden"
SAMPLES: dict[str, dict[str, Any]] = {
    "x.pending": json.loads((GOLDEN / "g3.pending").read_bytes()),
    "t.pendingset": json.loads((GOLDEN / "g2.pendingset").read_bytes()),
    "_SUCCESS": json.loads((GOLDEN / "s3a_SUCCESS.json").read_bytes()),
    "task-manifest.json": json.loads((GOLDEN / "manifest_committer_task-manifest.json").read_bytes()),
    "manifest.json": json.loads((GOLDEN / "magicfs_manifest_1.json").read_bytes()),
    "pointer.json": json.loads((GOLDEN / "magicfs_pointer_1.json").read_bytes()),
    "job.json": json.loads((GOLDEN / "magicfs_job_1.json").read_bytes()),
    "deletions.json": json.loads((GOLDEN / "magicfs_deletions_1.json").read_bytes()),
}
READERS = [
    deletions.read,
    *(
        kind.from_bytes
        for kind in (Pending, PendingSet, SuccessData, Manifest, Pointer, JobObject, TaskManifest)
    ),
]

_characters = st.characters(codec=None)
_scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.text(_characters)
    | st.sampled_from([0, -1, 2, 3, 2**63, "", "/", "1", True])
)
_json = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def read_or_refuse(path: str, raw: bytes) -> None:
    try:
        found = load(path, raw)
    except FormatError as error:
        refused = error
    else:
        write_back(path, found)
        return
    assert refused.path == path
    assert str(refused).encode()


def write_back(path: str, found: Content) -> None:
    if isinstance(found, SuccessData):
        assert len(found.filenames) <= SUCCESS_MARKER_FILE_LIMIT
        assert SuccessData.from_bytes(path, found.to_bytes()) == found
    elif isinstance(found, Pending | PendingSet):
        assert type(found).from_bytes(path, found.to_bytes("object")) == found
        found.to_bytes("string")
    elif isinstance(found, tuple):
        assert deletions.read(path, deletions.write(found)) == found
    else:
        assert type(found).from_bytes(path, found.to_bytes()) == found


def places(value: object) -> list[list[Any]]:
    """The way to every value below ``value``."""
    if isinstance(value, dict):
        inner = list(value.items())
    elif isinstance(value, list):
        inner = list(enumerate(value))
    else:
        return []
    return [way for key, child in inner for way in [[key], *([key, *rest] for rest in places(child))]]


@given(data=st.data(), path=st.sampled_from(sorted(SAMPLES)), value=_json)
def test_any_value_in_any_place(data: st.DataObject, path: str, value: object) -> None:
    document = copy.deepcopy(SAMPLES[path])
    way = data.draw(st.sampled_from(places(document)))
    target: Any = document
    for step in way[:-1]:
        target = target[step]
    target[way[-1]] = value
    read_or_refuse(path, json.dumps(document).encode())


@given(data=st.data(), path=st.sampled_from(sorted(SAMPLES)))
def test_any_field_taken_away(data: st.DataObject, path: str) -> None:
    document = copy.deepcopy(SAMPLES[path])
    way = data.draw(st.sampled_from(places(document)))
    target: Any = document
    for step in way[:-1]:
        target = target[step]
    del target[way[-1]]
    read_or_refuse(path, json.dumps(document).encode())


@given(data=st.data(), path=st.sampled_from(sorted(SAMPLES)))
def test_any_byte_changed(data: st.DataObject, path: str) -> None:
    raw = bytearray(json.dumps(SAMPLES[path], ensure_ascii=False).encode())
    raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    read_or_refuse(path, bytes(raw))


@given(path=st.sampled_from([*SAMPLES, "foreign.bin"]), raw=st.binary())
def test_any_bytes(path: str, raw: bytes) -> None:
    read_or_refuse(path, raw)


@pytest.mark.parametrize("reader", READERS)
@given(document=_json)
def test_any_json(reader: Any, document: object) -> None:
    with pytest.raises(FormatError):
        reader("p", json.dumps(document).encode())
