from __future__ import annotations

import json
import time
from typing import Any

import pytest

from magicfs.errors import FormatError, UsageError
from magicfs.formats.pending import Pending
from magicfs.formats.pendingset import PendingSet
from magicfs.formats.plain_pending import UploadedPart
from magicfs.formats.statistics import Statistics

PATH = "b/d/__magic_job-j/task_1.pendingset"


def pending(key: str, **changes: Any) -> Pending:
    given_ = {"upload_id": "u", "bucket": "b", "parts": (UploadedPart("1"),), "length": 5}
    return Pending(destination_key=key, **given_ | changes)


def child(key: str, **changes: Any) -> dict[str, Any]:
    return {"uploadId": "u", "bucket": "b", "destinationKey": key, "etags": ["1"], "length": 5} | changes


def read(document: object) -> PendingSet:
    return PendingSet.from_bytes(PATH, json.dumps(document).encode())


def test_only_the_commits_are_needed() -> None:
    assert read({"commits": []}) == PendingSet()
    assert read({"commits": [child("d/x")]}) == PendingSet(commits=(pending("d/x"),))


def test_two_commits_with_one_key() -> None:
    with pytest.raises(
        FormatError, match=r"Destination 'd/x' .* more than one pending commit, .*commits\[0\]"
    ):
        read({"commits": [child("d/x"), child("d/x")]})
    with pytest.raises(UsageError, match="Destination 'd/x'"):
        PendingSet(commits=(pending("d/x"), pending("d/x", upload_id="v")))


def test_similar_keys_are_not_one_key() -> None:
    keys = ["dataset1", "dataset10", "dataset1/", "dataset1/x", "Dataset1", "dataset%31", "e\u0301", "\u00e9"]
    found = read({"commits": [child(key) for key in keys]})
    assert [commit.destination_key for commit in found.commits] == keys


def test_merge_moves_the_statistics_of_the_commits() -> None:
    one = pending("a", statistics=Statistics({"c": 1}, minimums={"m": 5}), unknown={"z": 1})
    two = pending("b", statistics=Statistics({"c": 2}, minimums={"m": 3}))
    merged = PendingSet.merge("j", iter([one, two]), {"task.attempt.id": "attempt_1"})
    assert merged.statistics == Statistics({"c": 3}, minimums={"m": 3})
    assert [commit.statistics for commit in merged.commits] == [Statistics(), Statistics()]
    assert merged.commits[0].unknown == {"z": 1}
    assert PendingSet.from_bytes(PATH, merged.to_bytes()) == merged


def test_extra_data_is_written_only_when_there_is_any() -> None:
    assert list(json.loads(PendingSet().to_bytes())) == ["version", "jobId", "commits", "iostatistics"]
    assert json.loads(PendingSet(extra_data={"k": "v"}).to_bytes())["extraData"] == {"k": "v"}


@pytest.mark.slow
def test_ten_thousand_commits_are_read_quickly() -> None:
    commits = [pending(f"d/part-{n:05}", uri="s3a://b/d/" + "x" * 150).touched(n) for n in range(10_000)]
    raw = PendingSet.merge("j", commits).to_bytes("object")
    before = time.process_time()
    found = PendingSet.from_bytes(PATH, raw)
    seconds = time.process_time() - before
    assert len(found.commits) == 10_000
    assert seconds < 5, "a second or so on an ordinary machine; the margin is for a busy one"
