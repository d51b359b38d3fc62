from __future__ import annotations

import json
from typing import Any

import pytest

from magicfs.classic.records import WINNERS_FIELD, Winners
from magicfs.errors import FormatError
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


def test_a_null_diagnostic_reads_as_empty() -> None:
    assert read({"name": SUCCESS_NAME, "diagnostics": {"d": None}}).diagnostics == {"d": ""}


def test_at_most_a_hundred_file_names_are_written() -> None:
    names = tuple(f"/d/{number}" for number in range(SUCCESS_MARKER_FILE_LIMIT + 1))
    written = SuccessData(filenames=names).to_bytes()
    assert SuccessData.from_bytes(PATH, written).filenames == names[:100]
    assert read({"name": SUCCESS_NAME, "filenames": names}).filenames == names


def test_touched_sets_timestamp_and_date() -> None:
    found = SuccessData(committer="magic").touched(1700000000000)
    assert (found.timestamp_ms, found.date) == (1700000000000, "Tue Nov 14 22:13:20 UTC 2023")


WINNERS = Winners({"j": {"attempt-000000-a": 2}})


def test_the_winners_of_stocator_are_a_field_of_success() -> None:
    assert Winners.of(PATH, SuccessData()) is None
    assert Winners.of(PATH, WINNERS.written_into(SuccessData(job_id="j"))) == WINNERS
    assert WINNERS.added("j", {}).added("k", {"attempt-000001-b": 0}).jobs == {
        "j": {},
        "k": {"attempt-000001-b": 0},
    }


@pytest.mark.parametrize(
    ("jobs", "field"),
    [
        ([], ""),
        ({"j": 1}, ".j"),
        ({"j": {"attempt-000000-a": -1}}, ".j.attempt-000000-a"),
        ({"j": {"attempt-000000-a": "1"}}, ".j.attempt-000000-a"),
        ({"..": {}}, ""),
        ({"j": {"../x": 1}}, ""),
        ({"j": {"task-1": 1}}, ""),
    ],
)
def test_winners_that_cannot_be_true_are_refused(jobs: Any, field: str) -> None:
    with pytest.raises(FormatError) as caught:
        Winners.of(PATH, SuccessData(unknown={WINNERS_FIELD: jobs}))
    assert caught.value.path == PATH
    assert caught.value.field == f"{WINNERS_FIELD}{field}"
