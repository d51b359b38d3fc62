from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicfs.errors import FormatError, UsageError
from magicfs.formats.manifest import MANIFEST_FORMAT, Manifest, ManifestFile
from magicfs.testing.strategies import HOSTILE_KEYS, keys

PATH = "b/d/_magicfs/j.json"
FILE = {"key": "p=1/a.parquet", "size": 3, "etag": '"e"', "checksum": None, "writeId": "w"}
LEAST: dict[str, Any] = {
    "format": MANIFEST_FORMAT,
    "jobId": "j",
    "bucket": "b",
    "conflict": "append",
    "committed": 1,
    "hides": "nothing",
    "files": [],
}


def read(**changes: Any) -> Manifest:
    document = {name: value for name, value in (LEAST | changes).items() if value is not ...}
    return Manifest.from_bytes(PATH, json.dumps(document).encode())


def test_the_least_that_is_needed() -> None:
    found = read()
    assert found == Manifest(job_id="j", bucket="b", destination="", conflict="append", committed_ms=1)
    assert (found.previous, found.replaced, found.partitions, found.older_files, found.size) == (
        *(None, None, None),
        False,
        0,
    )


@pytest.mark.parametrize("field", LEAST)
def test_each_of_them_is_needed(field: str) -> None:
    with pytest.raises(FormatError) as caught:
        read(**{field: ...})
    assert (caught.value.path, caught.value.field) == (PATH, field)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"format": "magicfs.pointer/1"}, "format"),
        ({"format": "magicfs.manifest"}, "format"),
        ({"format": "magicfs.manifest/x"}, "format"),
        ({"format": 1}, "format"),
        ({"jobId": "../x"}, "jobId"),
        ({"jobId": ""}, "jobId"),
        ({"runId": 1}, "runId"),
        ({"destination": 1}, "destination"),
        ({"conflict": ""}, "conflict"),
        ({"committed": -1}, "committed"),
        ({"committed": True}, "committed"),
        ({"previous": "a/b"}, "previous"),
        ({"previous": "j"}, "previous"),
        ({"hides": "some"}, "hides"),
        ({"replaced": "x"}, "replaced"),
        ({"replaced": "x", "hides": "keys"}, "replaced"),
        ({"replaced": ".", "hides": "all"}, "replaced"),
        ({"deleted": "k"}, "deleted"),
        ({"deleted": [1]}, "deleted[0]"),
        ({"partitions": {"a": 1}}, "partitions"),
        ({"olderFiles": 0}, "olderFiles"),
        ({"files": {}}, "files"),
        ({"files": ["k"]}, "files[0]"),
        ({"files": [FILE, FILE]}, "files[1].key"),
        ({"files": [FILE | {"key": ""}]}, "files[0].key"),
        ({"files": [FILE | {"key": "../other/x"}]}, "files[0].key"),
        ({"files": [FILE | {"key": "a/./x"}]}, "files[0].key"),
        ({"files": [FILE | {"key": ".."}]}, "files[0].key"),
        ({"files": [FILE | {"size": -1}]}, "files[0].size"),
        ({"files": [FILE | {"size": 1.5}]}, "files[0].size"),
        ({"files": [FILE | {"etag": 1}]}, "files[0].etag"),
        ({"files": [FILE | {"checksum": []}]}, "files[0].checksum"),
        ({"files": [FILE | {"writeId": 1}]}, "files[0].writeId"),
    ],
)
def test_what_cannot_be_believed_is_named(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(FormatError) as caught:
        read(**changes)
    assert (caught.value.path, caught.value.field) == (PATH, field)


def test_a_newer_version_asks_for_a_newer_magicfs() -> None:
    with pytest.raises(FormatError, match=r"magicfs\.manifest/2.*use a newer magicfs"):
        read(format="magicfs.manifest/2")


def test_no_partitions_are_not_none() -> None:
    assert read(partitions=[]).partitions == ()
    assert read(partitions=None).partitions is None
    assert b'"partitions":null' in read(partitions=None).to_bytes()
    assert b'"partitions":[]' in read(partitions=[]).to_bytes()


def test_unknown_fields_are_kept_in_files_too() -> None:
    found = read(zz=[1], files=[FILE | {"rows": 7}], seal={"a": None})
    assert found.unknown == {"zz": [1], "seal": {"a": None}}
    assert found.files[0].unknown == {"rows": 7}
    written = json.loads(found.to_bytes())
    assert list(written)[-2:] == ["zz", "seal"]
    assert list(written["files"][0])[-1] == "rows"
    assert Manifest.from_bytes(PATH, found.to_bytes()) == found


def test_size_limit_and_pickle() -> None:
    found = read(files=[FILE])
    assert pickle.loads(pickle.dumps(found)) == found
    with pytest.raises(FormatError, match="at most 10"):
        Manifest.from_bytes(PATH, found.to_bytes(), size_limit=10)


@pytest.mark.parametrize("key", [*HOSTILE_KEYS, "/x", "a//b", "dir/"])
def test_hostile_keys(key: str) -> None:
    found = read(files=[FILE | {"key": key}], deleted=[key], partitions=[key], destination=key)
    assert (found.files[0].key, found.deleted, found.partitions, found.destination) == (
        key,
        *(((key,),) * 2),
        key,
    )
    assert Manifest.from_bytes(PATH, found.to_bytes()) == found


def test_text_that_utf8_cannot_hold_is_refused_when_written() -> None:
    with pytest.raises(UsageError, match="surrogate"):
        Manifest(job_id="j", bucket="b", destination="\ud800", conflict="append", committed_ms=1).to_bytes()


_text = st.text()
_ids = st.from_regex(r"[a-z0-9_-][a-z0-9._-]{0,8}", fullmatch=True)
_files = st.lists(
    st.builds(
        ManifestFile,
        key=keys(),
        size=st.integers(0, 2**63 - 1),
        etag=_text,
        checksum=st.none() | _text,
        write_id=st.none() | _text,
        unknown=st.dictionaries(st.just("x"), st.integers()),
    ),
    max_size=4,
    unique_by=lambda file: file.key,
)


@given(
    st.builds(
        Manifest,
        job_id=_ids.map("j{}".format),
        run_id=st.none() | _text,
        bucket=_ids,
        destination=keys() | st.just(""),
        conflict=_ids,
        committed_ms=st.integers(0, 2**63 - 1),
        previous=st.none() | _ids.map("p{}".format),
        hides=st.just("all"),
        replaced=st.none() | _ids,
        deleted=st.lists(keys(), max_size=3).map(tuple),
        partitions=st.none() | st.lists(keys(), max_size=3).map(tuple),
        older_files=st.booleans(),
        files=_files.map(tuple),
        unknown=st.dictionaries(st.just("z"), _text),
    )
)
def test_round_trip(found: Manifest) -> None:
    assert Manifest.from_bytes(PATH, found.to_bytes()) == found
