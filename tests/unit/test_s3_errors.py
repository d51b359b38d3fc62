"""What exceptions of the S3 client mean, for those that no server can be made to cause."""

from __future__ import annotations

import asyncio
import pickle

import aiohttp
import pytest
from botocore import exceptions as boto
from botocore.parsers import ResponseParserError

from magicfs.errors import (
    ObjectNotFound,
    PermissionDenied,
    PreconditionFailed,
    StoreError,
    Unavailable,
    Unsupported,
    UploadNotFound,
)
from magicfs.stores.s3.errors import translate


def answered(status: int, code: str = "", message: str = "told by the store") -> boto.ClientError:
    error = {"Code": code or str(status), "Message": message}
    response = {"Error": error, "ResponseMetadata": {"HTTPStatusCode": status}}
    return boto.ClientError(response, "PutObject")


def translated(error: Exception, operation: str = "put") -> StoreError:
    result = translate(error, operation, "bucket/dataset1/a b%")
    assert isinstance(result, StoreError)
    # Of a bucket that is not there the key says nothing: the caller may never have named it.
    key = "bucket" if "NoSuchBucket" in str(error) else "bucket/dataset1/a b%"
    assert (result.operation, result.key) == (operation, key)
    assert str(pickle.loads(pickle.dumps(result))) == str(result)
    return result


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (404, "NoSuchKey", ObjectNotFound),
        (404, "NoSuchBucket", ObjectNotFound),
        (404, "", ObjectNotFound),
        (404, "NoSuchUpload", UploadNotFound),
        (412, "PreconditionFailed", PreconditionFailed),
        (412, "", PreconditionFailed),
        (401, "", PermissionDenied),
        (403, "", PermissionDenied),
        (403, "AccessDenied", PermissionDenied),
        (403, "a code of tomorrow", PermissionDenied),
        (403, "InvalidAccessKeyId", PermissionDenied),
        (403, "RequestTimeTooSkewed", PermissionDenied),
        (403, "SignatureDoesNotMatch", PermissionDenied),
        (400, "ExpiredToken", PermissionDenied),
        (400, "InvalidToken", PermissionDenied),
        (405, "MethodNotAllowed", Unsupported),
        (501, "NotImplemented", Unsupported),
        (409, "ConditionalRequestConflict", Unavailable),
        (409, "OperationAborted", Unavailable),
        (429, "TooManyRequests", Unavailable),
        (400, "BadDigest", Unavailable),
        (400, "IncompleteBody", Unavailable),
        (400, "RequestTimeout", Unavailable),
        (400, "XAmzContentSHA256Mismatch", Unavailable),
        (500, "InternalError", Unavailable),
        (500, "", Unavailable),
        (502, "", Unavailable),
        (503, "SlowDown", Unavailable),
        (503, "ServiceUnavailable", Unavailable),
        (504, "", Unavailable),
        (520, "a code of tomorrow", Unavailable),
        (400, "EntityTooSmall", StoreError),
        (400, "InvalidPart", StoreError),
        (400, "KeyTooLongError", StoreError),
        (403, "InvalidObjectState", StoreError),
        (507, "InsufficientStorage", StoreError),
        (507, "XMinioStorageFull", StoreError),
    ],
)
def test_answer_of_the_store_becomes_the_error_of_the_port(
    status: int, code: str, kind: type[StoreError]
) -> None:
    error = translated(answered(status, code))
    assert type(error) is kind
    assert str(status) in str(error)
    assert (code or str(status)) in str(error)
    assert error.retryable is (kind is Unavailable)
    too_many = {"SlowDown", "ServiceUnavailable", "TooManyRequests"}
    assert getattr(error, "throttled", False) is (code in too_many)


def test_code_in_a_body_of_200_counts_although_the_status_says_nothing() -> None:
    assert type(translated(answered(200, "InternalError"))) is Unavailable


@pytest.mark.parametrize("operation", ["put_part", "complete_upload", "abort_upload"])
def test_404_without_words_is_about_the_upload_where_there_is_one(operation: str) -> None:
    assert type(translated(answered(404), operation)) is UploadNotFound
    assert type(translated(answered(404, "NoSuchBucket"), operation)) is ObjectNotFound


@pytest.mark.parametrize(
    ("status", "code", "hint"),
    [
        (507, "", "free space on the store"),
        (507, "XMinioStorageFull", "free space on the store"),
        (403, "RequestTimeTooSkewed", "clock"),
        (400, "ExpiredToken", "renew"),
        (400, "", "expired"),
        (301, "PermanentRedirect", "region"),
        (400, "AuthorizationHeaderMalformed", "region"),
        (400, "KeyTooLongError", "shorter"),
        (404, "NoSuchBucket", "create the bucket"),
        (403, "InvalidObjectState", "archive"),
    ],
)
def test_error_says_what_to_do(status: int, code: str, hint: str) -> None:
    assert hint in str(translated(answered(status, code)))


def test_a_refused_part_is_no_matter_of_credentials() -> None:
    assert "credentials" not in str(translated(answered(400, "InvalidPart"), "complete_upload"))


@pytest.mark.parametrize(
    "error",
    [
        boto.NoCredentialsError(),
        boto.PartialCredentialsError(provider="env", cred_var="aws_secret_access_key"),
        boto.CredentialRetrievalError(provider="role", error_msg="no answer"),
        boto.ProfileNotFound(profile="nightly"),
        boto.UnauthorizedSSOTokenError(),
    ],
)
def test_missing_credentials_are_permission_denied_and_name_what_to_set(error: Exception) -> None:
    denied = translated(error)
    assert type(denied) is PermissionDenied
    assert "AWS_ACCESS_KEY_ID" in str(denied)
    assert "AWS_PROFILE" in str(denied)


@pytest.mark.parametrize(
    "error",
    [
        boto.ParamValidationError(report="Invalid bucket name"),
        boto.InvalidRegionError(region_name="no such region"),
        boto.NoRegionError(),
    ],
)
def test_request_that_cannot_be_made_is_refused_for_good(error: Exception) -> None:
    refused = translated(error)
    assert type(refused) is StoreError
    assert not refused.retryable


@pytest.mark.parametrize(
    "error",
    [
        boto.ConnectTimeoutError(endpoint_url="http://store"),
        boto.ReadTimeoutError(endpoint_url="http://store"),
        boto.EndpointConnectionError(endpoint_url="http://store"),
        boto.ConnectionClosedError(endpoint_url="http://store"),
        boto.IncompleteReadError(actual_bytes=1, expected_bytes=2),
        boto.ResponseStreamingError(error="cut"),
        boto.FlexibleChecksumError(error_msg="wrong sum"),
        ResponseParserError("not XML"),
        aiohttp.ClientPayloadError("cut"),
        aiohttp.ServerDisconnectedError(),
        ConnectionResetError(),
        TimeoutError(),
    ],
)
def test_missing_or_garbled_answer_is_unavailable_because_nobody_knows(error: Exception) -> None:
    unavailable = translated(error)
    assert type(unavailable) is Unavailable
    assert type(error).__name__ in str(unavailable)


@pytest.mark.parametrize("error", [ZeroDivisionError(), asyncio.InvalidStateError()])
def test_error_of_a_program_is_left_alone(error: Exception) -> None:
    assert translate(error, "put", "bucket/key") is error
