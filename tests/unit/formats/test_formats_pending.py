from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicfs.errors import FormatError, UsageError
from magicfs.formats import plain_pending
from magicfs.formats.document import java_text
from magicfs.formats.fields import LONG_MAX, Fields
from magicfs.formats.pending import Pending
from magicfs.formats.plain_pending import UploadedPart

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


ANYTHING = (
    st.none()
    | st.booleans()
    | st.integers(-1, 2**63)
    | st.sampled_from(["", "/x", "x", "é"])
    | st.floats(0, 1)
)
NESTED = ANYTHING | st.lists(ANYTHING, max_size=2) | st.dictionaries(st.sampled_from(["etag", "a"]), ANYTHING)


FIELDS = st.sampled_from([*json.loads(minimal().to_bytes()), "new"])


@given(st.dictionaries(FIELDS, NESTED, max_size=2), NESTED)
def test_reading_at_once_and_field_by_field_are_the_same(changes: dict[str, Any], element: object) -> None:
    whole = json.loads(minimal().to_bytes("object"))
    for document in (whole | changes, whole | {"etags": [*whole["etags"], element]}):
        with pytest.MonkeyPatch.context() as patch:
            at_once = _outcome(document)
            patch.setattr(plain_pending, "read", lambda _: None)
            assert at_once == _outcome(document)


def _outcome(document: object) -> Pending | str:
    try:
        return read(document)
    except (FormatError, UsageError) as error:
        return f"{type(error)} {error}"


def test_what_magicfs_writes_is_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    pending = minimal(extra_data={"a": "b"}, filename="x", parts=(UploadedPart("1", "CRC32", "c="),))
    raw = pending.to_bytes("object")
    monkeypatch.setattr(Fields, "version", lambda *_: pytest.fail("it was read field by field"))
    assert Pending.from_bytes(PATH, raw) == pending
