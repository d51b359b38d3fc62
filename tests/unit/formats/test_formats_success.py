from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicfs.errors import FormatError
from magicfs.formats.statistics import Statistics
from magicfs.formats.success import SUCCESS_MARKER_FILE_LIMIT, SUCCESS_NAME, SuccessData

PATH = "b/d/_SUCCESS"


def read(document: object) -> SuccessData:
    return SuccessData.from_bytes(PATH, json.dumps(document).encode())


def test_only_the_name_is_needed() -> None:
    assert read({"name": SUCCESS_NAME}) == SuccessData()
    assert SuccessData().success, "as in Hadoop, a file that does not say is one of a success"


def test_an_empty_file_comes_from_the_classic_committer() -> None:
    with pytest.raises(FormatError, match="FileOutputCommitter") as caught:
        SuccessData.from_bytes(PATH, b"")
    assert caught.value.path == PATH


@pytest.mark.parametrize("name", ["", "org.example.Other/1", SUCCESS_NAME[:-1] + "2", "x" * 5000])
def test_another_name_is_another_format(name: str) -> None:
    with pytest.raises(FormatError, match="Incompatible file format") as caught:
        read({"name": name})
    assert caught.value.field == "name"
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("document", [{}, {"name": None}])
def test_no_name(document: dict[str, Any]) -> None:
    with pytest.raises(FormatError, match="no 'name' field"):
        read(document)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": 1}, "name"),
        ({"success": "true"}, "success"),
        ({"success": 1}, "success"),
        ({"timestamp": -1}, "timestamp"),
        ({"date": 1}, "date"),
        ({"hostname": 1}, "hostname"),
        ({"committer": []}, "committer"),
        ({"description": 1}, "description"),
        ({"jobId": 1}, "jobId"),
        ({"jobIdSource": 1}, "jobIdSource"),
        ({"metrics": {"m": "1"}}, "metrics.m"),
        ({"diagnostics": {"d": 1}}, "diagnostics.d"),
        ({"filenames": ["/a", 1]}, "filenames[1]"),
        ({"filenames": "/a"}, "filenames"),
        ({"iostatistics": ""}, "iostatistics"),
        ({"state": 1}, "state"),
        ({"stage": False}, "stage"),
    ],
)
def test_wrong_types_are_named(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(FormatError) as caught:
        read({"name": SUCCESS_NAME} | changes)
    assert caught.value.field == field


def test_a_null_diagnostic_reads_as_empty() -> None:
    assert read({"name": SUCCESS_NAME, "diagnostics": {"d": None}}).diagnostics == {"d": ""}


def test_at_most_a_hundred_file_names_are_written() -> None:
    names = tuple(f"/d/{number}" for number in range(SUCCESS_MARKER_FILE_LIMIT + 1))
    written = SuccessData(filenames=names).to_bytes()
    assert SuccessData.from_bytes(PATH, written).filenames == names[:100]
    assert read({"name": SUCCESS_NAME, "filenames": names}).filenames == names


def test_unknown_fields_are_kept() -> None:
    found = read({"zz": [1, {"a": None}], "name": SUCCESS_NAME, "generation": 7})
    assert found.unknown == {"zz": [1, {"a": None}], "generation": 7}
    assert list(json.loads(found.to_bytes()))[-3:] == ["stage", "zz", "generation"]


def test_touched_sets_timestamp_and_date() -> None:
    found = SuccessData(committer="magic").touched(1700000000000)
    assert (found.timestamp_ms, found.date) == (1700000000000, "Tue Nov 14 22:13:20 UTC 2023")


def test_size_limit_and_pickle() -> None:
    found = SuccessData(metrics={"m": 1}, statistics=Statistics({"c": 1}))
    assert pickle.loads(pickle.dumps(found)) == found
    with pytest.raises(FormatError, match="at most 10"):
        SuccessData.from_bytes(PATH, found.to_bytes(), size_limit=10)


_text = st.text()
_maybe = st.none() | _text


@given(
    st.builds(
        SuccessData,
        success=st.booleans(),
        timestamp_ms=st.integers(0, 2**63 - 1),
        date=_text,
        hostname=_text,
        committer=_text,
        description=_maybe,
        job_id=_text,
        job_id_source=_text,
        metrics=st.dictionaries(_text, st.integers(-(2**63), 2**63 - 1)),
        diagnostics=st.dictionaries(_text, _text),
        filenames=st.lists(_text).map(tuple),
        state=_maybe,
        stage=_maybe,
    )
)
def test_round_trip(found: SuccessData) -> None:
    assert SuccessData.from_bytes(PATH, found.to_bytes()) == found
