from __future__ import annotations

import json
from typing import Any

import pytest

from magicfs.formats.manifest import Manifest
from magicfs.testing.strategies import HOSTILE_KEYS

PATH = "b/d/_magicfs/j.json"
FILE = {"key": "p=1/a.parquet", "size": 3, "etag": '"e"', "checksum": None, "writeId": "w"}
LEAST: dict[str, Any] = {
    "format": Manifest.FORMAT,
    "jobId": "j",
    "bucket": "b",
    "mode": "append",
    "committed": 1,
    "hides": "nothing",
    "files": [],
}


def read(**changes: Any) -> Manifest:
    document = {name: value for name, value in (LEAST | changes).items() if value is not ...}
    return Manifest.from_bytes(PATH, json.dumps(document).encode())


def test_the_least_that_is_needed() -> None:
    found = read()
    assert found == Manifest(job_id="j", bucket="b", destination="", mode="append", committed_ms=1)
    assert (found.previous, found.replaced, found.partitions, found.older_files, found.size) == (
        *(None, None, None),
        False,
        0,
    )


def test_no_partitions_are_not_none() -> None:
    assert read(partitions=[]).partitions == ()
    assert read(partitions=None).partitions is None
    assert b'"partitions":null' in read(partitions=None).to_bytes()
    assert b'"partitions":[]' in read(partitions=[]).to_bytes()


@pytest.mark.parametrize("key", [*HOSTILE_KEYS, "/x", "a//b", "dir/"])
def test_hostile_keys(key: str) -> None:
    found = read(files=[FILE | {"key": key}], deleted=[key], partitions=[key], destination=key)
    assert (found.files[0].key, found.deleted, found.partitions, found.destination) == (
        key,
        *(((key,),) * 2),
        key,
    )
    assert Manifest.from_bytes(PATH, found.to_bytes()) == found
