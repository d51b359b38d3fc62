"""What to believe after a complete that was not plainly confirmed."""

from __future__ import annotations

import hashlib

import pytest

from magicfs.errors import (
    ObjectExists,
    ObjectNotFound,
    PermissionDenied,
    PreconditionFailed,
    StoreError,
    Unavailable,
    Unsupported,
    UploadNotFound,
)
from magicfs.protocol.readback import Found, Outcome, etag_of_parts, resolve

OURS = "our-write-id"
OUR_OBJECT = Found(True, OURS, 5, '"etag"')
THEIR_OBJECT = Found(True, "their-write-id", 5, '"etag"')
NAMELESS_OBJECT = Found(True, None, 5, '"etag"')
NO_OBJECT = Found(False)
SILENCE = None
ERRORS = [
    ObjectExists,
    ObjectNotFound,
    PermissionDenied,
    PreconditionFailed,
    StoreError,
    Unavailable,
    Unsupported,
    UploadNotFound,
]


def told(kind: type[StoreError], write_id: str | None, found: Found | None) -> Outcome:
    return resolve(kind("complete_upload", "bucket/key", "no"), write_id, found)


@pytest.mark.parametrize("kind", ERRORS)
def test_object_that_bears_our_write_id_is_done_whatever_was_answered(kind: type[StoreError]) -> None:
    assert told(kind, OURS, OUR_OBJECT) is Outcome.DONE


@pytest.mark.parametrize("kind", ERRORS)
@pytest.mark.parametrize("write_id", [OURS, None])
def test_nothing_is_known_when_the_store_says_nothing(kind: type[StoreError], write_id: str | None) -> None:
    assert told(kind, write_id, SILENCE) is Outcome.UNKNOWN


@pytest.mark.parametrize("found", [THEIR_OBJECT, NAMELESS_OBJECT, NO_OBJECT])
@pytest.mark.parametrize("write_id", [OURS, None])
def test_silence_of_the_complete_proves_nothing(write_id: str | None, found: Found) -> None:
    assert told(Unavailable, write_id, found) is Outcome.UNKNOWN


@pytest.mark.parametrize("kind", [StoreError, PermissionDenied, Unsupported])
@pytest.mark.parametrize("found", [THEIR_OBJECT, NAMELESS_OBJECT, NO_OBJECT])
def test_plain_refusal_is_a_failure(kind: type[StoreError], found: Found) -> None:
    assert told(kind, OURS, found) is Outcome.FAILED


@pytest.mark.parametrize("found", [THEIR_OBJECT, NAMELESS_OBJECT, NO_OBJECT])
@pytest.mark.parametrize("kind", [UploadNotFound, ObjectNotFound])
def test_upload_that_is_gone_without_our_object_is_a_failure(kind: type[StoreError], found: Found) -> None:
    assert told(kind, OURS, found) is Outcome.FAILED


@pytest.mark.parametrize("found", [THEIR_OBJECT, NAMELESS_OBJECT])
def test_gone_upload_of_hadoop_may_be_the_object_that_is_there(found: Found) -> None:
    assert told(UploadNotFound, None, found) is Outcome.UNKNOWN


def test_gone_upload_of_hadoop_with_no_object_is_a_failure() -> None:
    assert told(UploadNotFound, None, NO_OBJECT) is Outcome.FAILED


@pytest.mark.parametrize("kind", [PreconditionFailed, ObjectExists])
@pytest.mark.parametrize("found", [THEIR_OBJECT, NAMELESS_OBJECT])
def test_condition_that_met_another_object_is_a_conflict(kind: type[StoreError], found: Found) -> None:
    assert told(kind, OURS, found) is Outcome.CONFLICT


@pytest.mark.parametrize("kind", [PreconditionFailed, ObjectExists])
def test_condition_that_met_an_object_which_is_not_there_any_more_says_nothing(
    kind: type[StoreError],
) -> None:
    assert told(kind, OURS, NO_OBJECT) is Outcome.UNKNOWN


def test_object_without_a_write_id_is_never_taken_for_an_upload_without_one() -> None:
    assert told(StoreError, None, NAMELESS_OBJECT) is not Outcome.DONE


PARTS = ['"0cc175b9c0f1b6a831c399e269772661"', "92eb5ffee6ae2fec3ad71c777531578f"]
"""MD5 of ``a`` and of ``b``."""


def test_etag_of_an_object_is_told_by_those_of_its_parts() -> None:
    digests = b"".join(bytes.fromhex(part.strip('"')) for part in PARTS)
    assert etag_of_parts(PARTS) == f"{hashlib.md5(digests, usedforsecurity=False).hexdigest()}-2"


@pytest.mark.parametrize("etags", [[], ["no-md5"], [*PARTS, '"0"'], ["0" * 33]])
def test_etags_of_other_kinds_tell_nothing(etags: list[str]) -> None:
    assert etag_of_parts(etags) is None


@pytest.mark.parametrize("kind", ERRORS)
def test_an_upload_without_identity_is_done_if_an_object_of_its_parts_is_there(
    kind: type[StoreError],
) -> None:
    expected = etag_of_parts(PARTS)
    error = kind("complete_upload", "bucket/key", "no")
    assert resolve(error, None, Found(True, None, 2, f'"{expected}"'), expected) is Outcome.DONE
    assert resolve(error, None, Found(True, None, 2, '"another-2"'), expected) is not Outcome.DONE
    assert resolve(error, None, Found(False), expected) is not Outcome.DONE
    assert resolve(error, None, Found(True, None, 2, None), expected) is not Outcome.DONE


@pytest.mark.parametrize("kind", ERRORS)
def test_equal_content_is_no_identity_for_an_upload_that_has_one(kind: type[StoreError]) -> None:
    expected = etag_of_parts(PARTS)
    error = kind("complete_upload", "bucket/key", "no")
    theirs = Found(True, "their-write-id", 2, f'"{expected}"')
    assert resolve(error, OURS, theirs, expected) is not Outcome.DONE
