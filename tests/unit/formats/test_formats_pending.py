from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicfs.errors import FormatError, UsageError
from magicfs.formats.document import java_text
from magicfs.formats.fields import LONG_MAX
from magicfs.formats.pending import Pending, UploadedPart
from magicfs.formats.statistics import Statistics

PATH = "b/d/__magic_job-j/x.pending"
MINIMAL: dict[str, Any] = {
    "uploadId": "u",
    "bucket": "b",
    "destinationKey": "d/x",
    "etags": ['"1"'],
    "length": 5,
}


def read(document: object) -> Pending:
    return Pending.from_bytes(PATH, json.dumps(document).encode())


def minimal(**changes: Any) -> Pending:
    return Pending(
        **{
            "upload_id": "u",
            "bucket": "b",
            "destination_key": "d/x",
            "parts": (UploadedPart("1"),),
            "length": 5,
        }
        | changes
    )


def test_only_five_fields_and_no_version_are_needed() -> None:
    assert read(MINIMAL) == minimal(parts=(UploadedPart('"1"'),))


@pytest.mark.parametrize("field", MINIMAL)
@pytest.mark.parametrize("null", [False, True])
def test_each_required_field_is_missed_by_name(field: str, null: bool) -> None:
    document = MINIMAL | {field: None}
    if not null:
        del document[field]
    with pytest.raises(FormatError, match="required") as caught:
        read(document)
    assert (caught.value.path, caught.value.field) == (PATH, field)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"version": 3}, "version"),
        ({"version": 1}, "version"),
        ({"version": "2"}, "version"),
        ({"uploadId": ""}, "uploadId"),
        ({"uploadId": 7}, "uploadId"),
        ({"bucket": ""}, "bucket"),
        ({"bucket": ["b"]}, "bucket"),
        ({"destinationKey": ""}, "destinationKey"),
        ({"destinationKey": "/d/x"}, "destinationKey"),
        ({"destinationKey": {}}, "destinationKey"),
        ({"etags": []}, "etags"),
        ({"etags": "1"}, "etags"),
        ({"etags": {"0": "1"}}, "etags"),
        ({"etags": ["1", ""]}, "etags[1]"),
        ({"etags": ["1", None]}, "etags[1]"),
        ({"etags": ["1", 2]}, "etags[1]"),
        ({"etags": ["1", {}]}, "etags[1].etag"),
        ({"etags": [{"etag": ""}]}, "etags[0].etag"),
        ({"etags": [{"etag": "1", "checksum": 1}]}, "etags[0].checksum"),
        ({"etags": [{"etag": "1", "checksumAlgorithm": 1}]}, "etags[0].checksumAlgorithm"),
        ({"length": -1}, "length"),
        ({"length": True}, "length"),
        ({"length": 5.0}, "length"),
        ({"length": LONG_MAX + 1}, "length"),
        ({"filename": 1}, "filename"),
        ({"uri": []}, "uri"),
        ({"created": -1}, "created"),
        ({"saved": "now"}, "saved"),
        ({"date": 0}, "date"),
        ({"jobId": 0}, "jobId"),
        ({"taskId": 0}, "taskId"),
        ({"text": 0}, "text"),
        ({"extraData": {"k": 1}}, "extraData.k"),
        ({"extraData": {"k": None}}, "extraData.k"),
        ({"iostatistics": []}, "iostatistics"),
        ({"iostatistics": {"counters": {"c": "1"}}}, "iostatistics.counters.c"),
    ],
)
def test_what_cannot_be_true_is_refused_by_name(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(FormatError) as caught:
        read(MINIMAL | changes)
    assert caught.value.field == field


def test_wrong_version_speaks_as_hadoop_does() -> None:
    with pytest.raises(FormatError, match="Wrong version: 3"):
        read(MINIMAL | {"version": 3})


@pytest.mark.parametrize(
    "element",
    ['"11aa"', {"etag": '"11aa"'}, {"etag": '"11aa"', "checksumAlgorithm": None, "checksum": None}],
)
def test_both_generations_of_etags_load(element: object) -> None:
    assert read(MINIMAL | {"etags": [element]}).parts == (UploadedPart('"11aa"'),)


def test_generations_may_be_mixed() -> None:
    mixed = read(MINIMAL | {"etags": ["1", {"etag": "2", "checksumAlgorithm": "SHA1", "checksum": "s="}]})
    assert mixed.parts == (UploadedPart("1"), UploadedPart("2", "SHA1", "s="))


def test_part_count_is_ignored_when_read_and_derived_when_written() -> None:
    pending = read(MINIMAL | {"partCount": "nonsense"})
    assert json.loads(pending.to_bytes())["partCount"] == 1
    assert "partCount" not in pending.unknown


def test_the_writer_chooses_the_generation() -> None:
    pending = minimal(parts=(UploadedPart('"1"'), UploadedPart("2", unknown={"size": 9})))
    assert json.loads(pending.to_bytes())["etags"] == ['"1"', "2"]
    assert json.loads(pending.to_bytes("object"))["etags"] == [
        {"etag": '"1"', "checksumAlgorithm": None, "checksum": None},
        {"etag": "2", "checksumAlgorithm": None, "checksum": None, "size": 9},
    ]
    with pytest.raises(UsageError, match="string, object"):
        pending.to_bytes("both")  # type: ignore[arg-type]


def test_an_upload_with_checksums_never_loses_them() -> None:
    pending = minimal(parts=(UploadedPart('"1"', "CRC32", "c="), UploadedPart("2")))
    assert json.loads(pending.to_bytes("string"))["etags"] == [
        {"etag": '"1"', "checksumAlgorithm": "CRC32", "checksum": "c="},
        {"etag": "2", "checksumAlgorithm": None, "checksum": None},
    ]
    assert read(json.loads(pending.to_bytes())) == pending


def test_unknown_fields_are_kept_at_every_level_and_written_last() -> None:
    document = MINIMAL | {
        "zeta": {"deep": [1, {"x": None}]},
        "alpha": "é",
        "etags": [{"etag": "1", "partNumber": 1}],
        "iostatistics": {"histograms": {}, "meanstatistics": {"m": {"samples": 1, "sum": 1, "max": 1}}},
    }
    pending = read(document)
    written = json.loads(pending.to_bytes("object"))
    assert list(written)[-3:] == ["partCount", "zeta", "alpha"]
    assert written["zeta"] == document["zeta"]
    assert written["etags"][0]["partNumber"] == 1
    assert written["iostatistics"]["histograms"] == {}
    assert written["iostatistics"]["meanstatistics"]["m"]["max"] == 1
    assert read(written) == pending


def test_an_unknown_field_cannot_replace_ours() -> None:
    assert json.loads(minimal(unknown={"bucket": "theirs"}).to_bytes())["bucket"] == "b"


@pytest.mark.parametrize(
    "key", ["../../etc/passwd", "a//b", "a/./b", "d/", " ", "\n", "dataset10/x", "%2e%2e/x"]
)
def test_keys_are_raw_text(key: str) -> None:
    assert read(MINIMAL | {"destinationKey": key}).destination_key == key


@pytest.mark.parametrize(
    "changes",
    [
        {"upload_id": ""},
        {"bucket": ""},
        {"destination_key": ""},
        {"destination_key": "/x"},
        {"parts": ()},
        {"length": -1},
        {"length": LONG_MAX + 1},
        {"created_ms": -1},
    ],
)
def test_what_could_not_be_read_cannot_be_made(changes: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        minimal(**changes)


def test_a_part_needs_an_etag() -> None:
    with pytest.raises(UsageError):
        UploadedPart("")


def test_half_a_surrogate_pair_is_refused_clearly() -> None:
    with pytest.raises(UsageError, match="destinationKey: half a surrogate pair"):
        minimal(destination_key="x\udc80").to_bytes()


def test_size_limit() -> None:
    raw = json.dumps(MINIMAL).encode()
    assert Pending.from_bytes(PATH, raw, size_limit=len(raw)).length == 5
    with pytest.raises(FormatError, match="at most"):
        Pending.from_bytes(PATH, raw, size_limit=len(raw) - 1)


def test_touched_sets_all_three_times() -> None:
    pending = minimal().touched(1700000000000)
    assert (pending.created_ms, pending.saved_ms) == (1700000000000, 1700000000000)
    assert pending.date == "Tue Nov 14 22:13:20 UTC 2023"


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "Thu Jan 01 00:00:00 UTC 1970"),
        (-1, "Wed Dec 31 23:59:59 UTC 1969"),
        (1767225600999, "Thu Jan 01 00:00:00 UTC 2026"),
        (951782400000, "Tue Feb 29 00:00:00 UTC 2000"),
    ],
)
def test_dates_are_javas(milliseconds: int, text: str) -> None:
    assert java_text(milliseconds) == text


def test_dates_end_with_the_year_9999() -> None:
    with pytest.raises(UsageError, match="milliseconds"):
        java_text(253402300800000)


def test_pickles() -> None:
    pending = minimal(statistics=Statistics({"c": 1}), extra_data={"k": "v"}, unknown={"z": [1]})
    assert pickle.loads(pickle.dumps(pending)) == pending


_hostile = st.text() | st.sampled_from(
    [
        "a b",
        "50%",
        "%2F",
        "a+b",
        "#",
        "?",
        "\\",
        '"',
        "\x00",
        "\u2028",
        "Zürich",
        "東京",
        "😀",
        "../x",
        "é",
        "é",
    ]
)
_keys = st.builds(
    lambda head, tail: f"{head}/{tail}", st.sampled_from(["dataset1", "dataset10", "d"]), _hostile
)
_texts = st.dictionaries(_hostile, _hostile, max_size=3)
_parts = st.builds(UploadedPart, _hostile.filter(bool), st.none() | _hostile, st.none() | _hostile)
_pendings = st.builds(
    Pending,
    upload_id=_hostile.filter(bool),
    bucket=_hostile.filter(bool),
    destination_key=_keys,
    parts=st.lists(_parts, min_size=1, max_size=4).map(tuple),
    length=st.integers(0, LONG_MAX),
    filename=st.none() | _hostile,
    uri=_hostile,
    created_ms=st.integers(0, LONG_MAX),
    saved_ms=st.integers(0, LONG_MAX),
    date=_hostile,
    job_id=_hostile,
    task_id=_hostile,
    text=_hostile,
    extra_data=_texts,
    unknown=_texts.map(lambda found: {f"x-{name}": value for name, value in found.items()}),
)


@given(_pendings)
def test_round_trip(pending: Pending) -> None:
    raw = pending.to_bytes("object")
    assert Pending.from_bytes(PATH, raw) == pending
    assert Pending.from_bytes(PATH, raw).to_bytes("object") == raw
    as_text = Pending.from_bytes(PATH, pending.to_bytes("string"))
    assert [part.etag for part in as_text.parts] == [part.etag for part in pending.parts]
