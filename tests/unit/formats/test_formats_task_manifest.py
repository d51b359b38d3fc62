from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicfs.errors import FormatError, UsageError
from magicfs.formats.document import iso_text, parse, render_indented
from magicfs.formats.hadoop_uri import decode, encode
from magicfs.formats.success import SUCCESS_MARKER_FILE_LIMIT, SuccessData, manifest_success
from magicfs.formats.task_manifest import (
    TASK_MANIFEST_TYPE,
    EntryStatus,
    FileEntry,
    TaskManifest,
)

PATH = "d/_temporary/j/00/manifests/000000-manifest.json"


def document(**changes: Any) -> dict[str, Any]:
    whole = {
        "type": TASK_MANIFEST_TYPE,
        "version": 1,
        "jobId": "j",
        "taskID": "000000",
        "taskAttemptID": "attempt-000000-1",
        "taskAttemptDir": "file:///d/_temporary/j/00/tasks/attempt-000000-1",
        "files": [{"s": "file:///s/a", "d": "file:///d/a", "z": 1, "e": "etag"}],
        "directories": [{"d": "file:///d/x", "t": 1, "l": 1}],
    } | changes
    return {name: value for name, value in whole.items() if value is not ...}


def read(content: object) -> TaskManifest:
    return TaskManifest.from_bytes(PATH, json.dumps(content).encode())


def manifest(**changes: Any) -> TaskManifest:
    given: dict[str, Any] = {
        "job_id": "j",
        "task_id": "000000",
        "attempt_id": "attempt-000000-1",
        "attempt_directory": "file:///w",
    }
    return TaskManifest(**given | changes)


def test_paths_with_blanks_and_everything_else_come_back() -> None:  # 152
    names = [
        "a b",
        "50%",
        "%20",
        "a+b#c?d&e",
        "día/日本/😀",
        'quote"back\\slash',
        "line\nbreak\ttab",
        "\u202e",
    ]
    files = tuple(FileEntry(encode(f"file:///s/{n}"), encode(f"file:///d/{n}"), 3, '"e"') for n in names)
    written = manifest(files=files).to_bytes()
    assert [decode(one.destination) for one in TaskManifest.from_bytes(PATH, written).files] == [
        f"file:///d/{name}" for name in names
    ]
    assert b" a b" not in written
    assert TaskManifest.from_bytes(PATH, written) == manifest(files=files)


def test_type_version_attempt_number_and_directories_may_be_missing() -> None:
    found = read(document(type=..., version=..., directories=..., jobAttemptNumber=...))
    assert (found.job_attempt, found.directories, found.size) == (0, (), 1)


def test_two_files_of_one_destination_are_refused() -> None:  # 152
    twice = [{"s": f"s{n}", "d": "file:///d/a", "z": 0} for n in range(2)]
    with pytest.raises(FormatError, match="written to by more than one file") as caught:
        read(document(files=twice))
    assert caught.value.field == "files[1].d"
    with pytest.raises(UsageError, match="written to by more than one file"):
        manifest(files=(FileEntry("s0", "d", 0), FileEntry("s1", "d", 0)))


def test_a_missing_etag_is_left_out_again() -> None:
    for etag in (..., None):
        entry = {"s": "s", "d": "d", "z": 1} | ({} if etag is ... else {"e": None})
        written = json.loads(read(document(files=[entry])).to_bytes())
        assert written["files"] == [{"s": "s", "d": "d", "z": 1}]


def test_a_status_of_another_number_is_kept_and_counts_as_unknown() -> None:
    found = read(document(directories=[{"d": "d", "t": 9, "l": 1}]))
    assert EntryStatus.of(found.directories[0].status) is EntryStatus.UNKNOWN
    assert json.loads(found.to_bytes())["directories"][0]["t"] == 9
    assert [EntryStatus.of(number).name for number in range(5)] == [
        "UNKNOWN",
        "NOT_FOUND",
        "FILE",
        "DIR",
        "CREATED_DIR",
    ]


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(st.text(), _values, max_size=4))
def test_indented_json_is_json(content: dict[str, Any]) -> None:
    assert parse("x", render_indented(content), size_limit=10**6) == content


def test_indented_json_looks_as_jackson_writes_it() -> None:
    content = {"a": {}, "b": [], "c": [1, "x"], "d": [{"e": None}, {"f": True}], 'g"': "\x1b\n"}
    assert render_indented(content).decode() == (
        '{\n  "a" : { },\n  "b" : [ ],\n  "c" : [ 1, "x" ],\n  "d" : [ {\n    "e" : null\n  }, {\n'
        '    "f" : true\n  } ],\n  "g\\"" : "\\u001b\\n"\n}'
    )


@pytest.mark.parametrize("value", [float("nan"), "a\ud800"])
def test_indented_json_refuses_what_json_cannot_hold(value: object) -> None:
    with pytest.raises(UsageError):
        render_indented({"a": [value]})


def test_a_success_file_has_no_nulls_sorted_maps_and_at_most_a_hundred_names() -> None:
    success = SuccessData(
        job_id="j",
        diagnostics={"b": "2", "a": "1"},
        metrics={"z": 1, "y": 2},
        filenames=tuple(f"file:///d/{n}" for n in range(120)),
        unknown={"later": 1},
    )
    raw = manifest_success(success)
    written = json.loads(raw)
    assert not {"state", "stage", "description"} & set(written)
    assert (list(written["diagnostics"]), list(written["metrics"])) == (["a", "b"], ["y", "z"])
    assert len(written["filenames"]) == SUCCESS_MARKER_FILE_LIMIT
    assert written["later"] == 1
    assert SuccessData.from_bytes("_SUCCESS", raw).diagnostics == success.diagnostics


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (1700000000007, "2023-11-14T22:13:20.007Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
    ],
)
def test_dates_are_those_of_java_time(milliseconds: int, text: str) -> None:
    assert iso_text(milliseconds) == text


def test_dates_beyond_all_years_are_refused() -> None:
    with pytest.raises(UsageError, match="not in the years"):
        iso_text(10**18)
