"""What went wrong with a request to S3, in the words of ``magicfs.errors``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from magicfs.errors import (
    MagicError,
    ObjectNotFound,
    PermissionDenied,
    PreconditionFailed,
    StoreError,
    Unavailable,
    Unsupported,
    UploadNotFound,
)
from magicfs.stores.answer_rules import REACH, check_span, kind_by, refusal, translating, words
from magicfs.stores.object_settings import GIVE_CUSTOMER_KEY
from magicfs.stores.s3.requests.answer import Refused

CONFLICT = "ConditionalRequestConflict"
"""Two conditional requests met; S3 asks that the request be repeated."""

_LIFECYCLE = "the store does not know the upload: it was aborted, expired by a lifecycle rule, or completed"
_CREDENTIALS = (
    "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or AWS_PROFILE, or run with a role; "
    "pickled filesystems leave inline secrets behind"
)
_REGION = "set the region of the bucket: client_kwargs={'region_name': …}"
_SPACE = "free space on the store, then run the job again"

# What the codes of the S3 API mean to us (Amazon S3 API reference, "Error responses").
_KINDS: dict[str, type[StoreError]] = {
    **dict.fromkeys(("404", "NoSuchKey", "NoSuchBucket", "NotFound"), ObjectNotFound),
    "NoSuchUpload": UploadNotFound,
    **dict.fromkeys(("412", "PreconditionFailed"), PreconditionFailed),
    **dict.fromkeys(("401", "403", "AccessDenied", "AccountProblem", "AllAccessDisabled"), PermissionDenied),
    **dict.fromkeys(("ExpiredToken", "Forbidden", "InvalidAccessKeyId", "InvalidSecurity"), PermissionDenied),
    **dict.fromkeys(("InvalidToken", "NotSignedUp", "RequestExpired"), PermissionDenied),
    **dict.fromkeys(
        ("RequestTimeTooSkewed", "SignatureDoesNotMatch", "TokenRefreshRequired"), PermissionDenied
    ),
    **dict.fromkeys(("405", "501", "MethodNotAllowed", "NotImplemented"), Unsupported),
    "InvalidObjectState": StoreError,  # 403, but no matter of credentials: the object lies in an archive
    "507": StoreError,
    # The body did not arrive as it was sent; nothing changed, and sending it again helps.
    **dict.fromkeys(("BadDigest", "IncompleteBody", "XAmzContentSHA256Mismatch"), Unavailable),
    **dict.fromkeys(("408", "429", CONFLICT, "InternalError", "OperationAborted"), Unavailable),
    **dict.fromkeys(("RequestTimeout", "ServiceUnavailable"), Unavailable),
    **dict.fromkeys(("SlowDown", "Throttling", "ThrottlingException"), Unavailable),
}
_HINTS = {
    # A HEAD has no body that could say more.
    "400": "check that the credentials are not expired, and the region; if the object is encrypted with a "
    f"customer's key, {GIVE_CUSTOMER_KEY}",
    "301": _REGION,
    "AuthorizationHeaderMalformed": _REGION,
    "PermanentRedirect": _REGION,
    "ExpiredToken": "renew the credentials",
    "InsufficientStorage": _SPACE,
    "507": _SPACE,
    "InvalidObjectState": "restore the object from its archive first",
    "KeyTooLongError": "choose a shorter name",
    "NoSuchBucket": "create the bucket first, or correct its name",
    "RequestTimeTooSkewed": "set this machine's clock",
}


def of_some(
    refused: Sequence[Mapping[str, str]], operation: str, bucket: str, keys: Sequence[str]
) -> StoreError:
    """The error of a request about many keys of which some were refused."""
    first = refused[0]
    code, told = first.get("Code", ""), first.get("Message", "")
    path = f"{bucket}/{words(first.get('Key', keys[0]))}"
    problem = f"{len(refused)} of {len(keys)} refused: {words(code)} {words(told)}".strip()
    return kind_by(_KINDS, code, "")(operation, path, problem)


def code_of(error: StoreError) -> str:
    """The code that the store answered, or the HTTP status where it gave none; empty without an answer."""
    response = getattr(error.__cause__, "response", None) or {}
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", "")
    return str(response.get("Error", {}).get("Code") or status)


def translated(operation: str, path: str) -> AbstractContextManager[None]:
    """Raise what ``translate`` makes of exceptions within."""
    return translating(translate, operation, path)


def translate(error: Exception, operation: str, path: str) -> Exception:
    """The error of the port for an exception of our own requests or of ``aiobotocore``; any other is returned
    unchanged.
    """
    if isinstance(error, Refused):
        return _answered(error.response, operation, path)
    import aiohttp
    from botocore import exceptions as boto
    from botocore.parsers import ResponseParserError

    credentials = (
        *(boto.NoCredentialsError, boto.PartialCredentialsError, boto.CredentialRetrievalError),
        *(boto.NoAuthTokenError, boto.TokenRetrievalError, boto.SSOError, boto.ProfileNotFound),
    )
    unsent = (
        *(boto.ParamValidationError, boto.ValidationError, boto.EndpointProviderError, boto.NoRegionError),
        *(boto.ConfigNotFound, boto.ConfigParseError, boto.InvalidConfigError),
    )
    # Of everything else the client knows, some may happen after the request was sent.
    unanswered = (boto.BotoCoreError, ResponseParserError, aiohttp.ClientError, OSError)
    told = f"{type(error).__name__}: {words(error)}"
    if isinstance(error, boto.ClientError):
        return _answered(error.response, operation, path)
    if isinstance(error, credentials):
        return PermissionDenied(operation, path, f"no usable credentials: {told}", hint=_CREDENTIALS)
    if isinstance(error, unsent):
        problem = f"the request cannot be made: {told}"
        kind = Unsupported if "Unknown parameter" in told else StoreError  # of an older client
        return kind(operation, path, problem, hint="correct the name or the option")
    if isinstance(error, unanswered):
        return Unavailable(operation, path, f"no sensible answer: {told}", hint=REACH)
    if isinstance(error, ValueError) and not isinstance(error, MagicError):  # of a header that cannot be sent
        problem = f"the request cannot be made: {told}"
        return StoreError(operation, path, problem, hint="correct the name or the option")
    return error


def check_range(answer: Mapping[str, Any], start: int, operation: str, path: str) -> None:
    """Raise Unavailable for an answer with other bytes of an object than those from a place on."""
    with translated(operation, path):
        check_span(str(answer.get("ContentRange", "bytes 0-")), start)


def _answered(response: Mapping[str, Any], operation: str, path: str) -> StoreError:
    answer = response.get("Error", {})
    status = str(response.get("ResponseMetadata", {}).get("HTTPStatusCode", ""))
    code = str(answer.get("Code") or status)
    kind = kind_by(_KINDS, code, status)
    if kind is ObjectNotFound and operation in {"put_part", "complete_upload", "abort_upload"}:
        kind = ObjectNotFound if code == "NoSuchBucket" else UploadNotFound
    if code == "NoSuchBucket":
        path = path.partition("/")[0]  # the key is one that the caller may never have named
    told = _LIFECYCLE if kind is UploadNotFound else words(answer.get("Message") or "")
    problem = f"{told or 'no message'} ({status} {words(code)})"
    if "Server Side Encryption" in told:  # of codes that mean other things as well
        hint = GIVE_CUSTOMER_KEY
    else:
        hint = _HINTS.get(code) or ("" if status == "400" else _HINTS.get(status, ""))
    return refusal(kind, operation, path, problem, hint, code, status)
