from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicfs.errors import FormatError
from magicfs.formats.pointer import POINTER_FORMAT, RUNS_KEPT, Pointer

PATH = "b/d/_magicfs/current.json"
LEAST: dict[str, Any] = {"format": POINTER_FORMAT, "jobId": "j", "nonce": "n", "changed": 1, "runs": []}


def read(**changes: Any) -> Pointer:
    document = {name: value for name, value in (LEAST | changes).items() if value is not ...}
    return Pointer.from_bytes(PATH, json.dumps(document).encode())


def test_all_fields_are_needed() -> None:
    assert read() == Pointer(job_id="j", nonce="n", changed_ms=1)
    for field in LEAST:
        with pytest.raises(FormatError) as caught:
            read(**{field: ...})
        assert (caught.value.path, caught.value.field) == (PATH, field)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"format": "magicfs.manifest/1"}, "format"),
        ({"jobId": "a/b"}, "jobId"),
        ({"nonce": ""}, "nonce"),
        ({"changed": -1}, "changed"),
        ({"runs": {}}, "runs"),
        ({"runs": ["r"]}, "runs[0]"),
        ({"runs": [["r"]]}, "runs[0]"),
        ({"runs": [["r", "j", "x"]]}, "runs[0]"),
        ({"runs": [["r", "j"], [1, "j"]]}, "runs[1]"),
        ({"runs": [["r", None]]}, "runs[0]"),
        ({"runs": [["r", ".."]]}, "runs[0]"),
        ({"runs": [["r", "j"], ["r", "k"]]}, "runs[1]"),
    ],
)
def test_what_cannot_be_believed_is_named(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(FormatError) as caught:
        read(**changes)
    assert (caught.value.path, caught.value.field) == (PATH, field)


def test_a_newer_version_asks_for_a_newer_magicfs() -> None:
    with pytest.raises(FormatError, match=r"magicfs\.pointer/3.*use a newer magicfs"):
        read(format="magicfs.pointer/3")


def test_moving_remembers_the_last_runs() -> None:
    pointer = read(zz=1)
    for number in range(RUNS_KEPT + 5):
        pointer = pointer.moved(f"j{number}", f"run {number}", f"n{number}", number)
    last = RUNS_KEPT + 4
    assert (pointer.job_id, pointer.nonce, pointer.changed_ms) == (f"j{last}", f"n{last}", last)
    assert len(pointer.runs) == RUNS_KEPT
    assert pointer.runs[0] == ("run 5", "j5")
    assert pointer.runs[-1] == (f"run {last}", f"j{last}")
    assert pointer.job_of_run("run 5") == "j5"
    assert pointer.job_of_run("run 4") is None
    assert pointer.unknown == {"zz": 1}
    assert pointer.moved("x", None, "n", 1).runs == pointer.runs
    again = pointer.moved("x", "run 7", "n", 1)
    assert again.job_of_run("run 7") == "x"
    assert len(again.runs) == RUNS_KEPT


def test_size_limit_and_pickle() -> None:
    found = read(runs=[["r", "j"]])
    assert pickle.loads(pickle.dumps(found)) == found
    with pytest.raises(FormatError, match="at most 10"):
        Pointer.from_bytes(PATH, found.to_bytes(), size_limit=10)


_ids = st.from_regex(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,8}", fullmatch=True)


@given(
    st.builds(
        Pointer,
        job_id=_ids,
        nonce=st.text(min_size=1),
        changed_ms=st.integers(0, 2**63 - 1),
        runs=st.lists(st.tuples(st.text(), _ids), max_size=5, unique_by=lambda run: run[0]).map(tuple),
        unknown=st.dictionaries(st.just("z"), st.text()),
    )
)
def test_round_trip(found: Pointer) -> None:
    assert Pointer.from_bytes(PATH, found.to_bytes()) == found
