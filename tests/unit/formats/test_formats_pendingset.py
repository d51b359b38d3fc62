from __future__ import annotations

import json
import pickle
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicfs.errors import FormatError, UsageError
from magicfs.formats.pending import Pending, UploadedPart
from magicfs.formats.pendingset import PendingSet
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


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ({}, "commits"),
        ({"commits": None}, "commits"),
        ({"commits": {}}, "commits"),
        ({"commits": [], "version": 2}, "version"),
        ({"commits": [], "version": True}, "version"),
        ({"commits": [], "jobId": 1}, "jobId"),
        ({"commits": [], "extraData": {"k": 1}}, "extraData.k"),
        ({"commits": [], "iostatistics": 1}, "iostatistics"),
        ({"commits": [child("a"), None]}, "commits[1]"),
        ({"commits": [child("a"), child("b", version=3)]}, "commits[1].version"),
        ({"commits": [child("a"), child("b", etags=[])]}, "commits[1].etags"),
        ({"commits": [child("a", etags=[{"etag": ""}])]}, "commits[0].etags[0].etag"),
        ({"commits": [child("a", iostatistics={"gauges": {"g": []}})]}, "commits[0].iostatistics.gauges.g"),
        ({"commits": [child("a"), child("b"), child("a")]}, "commits[2].destinationKey"),
    ],
)
def test_what_cannot_be_true_is_refused_by_name(document: dict[str, Any], field: str) -> None:
    with pytest.raises(FormatError) as caught:
        read(document)
    assert (caught.value.path, caught.value.field) == (PATH, field)


@pytest.mark.parametrize("field", ["uploadId", "bucket", "destinationKey", "etags", "length"])
def test_a_commit_lacks_a_required_field(field: str) -> None:
    commit = child("b")
    del commit[field]
    with pytest.raises(FormatError, match="required") as caught:
        read({"commits": [child("a"), commit]})
    assert caught.value.field == f"commits[1].{field}"


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


def test_unknown_fields_are_kept_at_every_level() -> None:
    document = {
        "seal": {"alg": "x"},
        "commits": [child("a", owner=[1], etags=[{"etag": "1", "n": 1}])],
        "iostatistics": {"h": 1},
    }
    found = read(document)
    written = json.loads(found.to_bytes("object"))
    assert list(written)[-1] == "seal"
    assert written["commits"][0]["owner"] == [1]
    assert written["commits"][0]["etags"][0]["n"] == 1
    assert written["iostatistics"]["h"] == 1
    assert read(written) == found


def test_size_limit() -> None:
    with pytest.raises(FormatError, match="at most 5"):
        PendingSet.from_bytes(PATH, b'{"commits":[]}', size_limit=5)


def test_ten_thousand_commits_are_read_quickly() -> None:
    commits = [pending(f"d/part-{n:05}", uri="s3a://b/d/" + "x" * 150).touched(n) for n in range(10_000)]
    raw = PendingSet.merge("j", commits).to_bytes("object")
    before = time.process_time()
    found = PendingSet.from_bytes(PATH, raw)
    seconds = time.process_time() - before
    assert len(found.commits) == 10_000
    assert seconds < 5, "a second or so on an ordinary machine; the margin is for a busy one"


def test_pickles() -> None:
    found = PendingSet.merge("j", [pending("a"), pending("b")])
    assert pickle.loads(pickle.dumps(found)) == found


@given(st.lists(st.text(min_size=1).filter(lambda key: key[0] != "/"), unique=True, max_size=6), st.text())
def test_round_trip(keys: list[str], job_id: str) -> None:
    found = PendingSet(job_id=job_id, commits=tuple(map(pending, keys)), extra_data={job_id: job_id})
    assert PendingSet.from_bytes(PATH, found.to_bytes("string")) == found
    assert PendingSet.from_bytes(PATH, found.to_bytes("object")) == found
