"""What went wrong with a request to Azure, in the words of ``magicfs.errors``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from magicfs.errors import (
    MagicError,
    ObjectExists,
    ObjectNotFound,
    PermissionDenied,
    PreconditionFailed,
    StoreError,
    Unavailable,
    Unsupported,
    UploadNotFound,
)
from magicfs.stores.answer_rules import (
    Malformed,
    check_plain,
    check_root,
    check_span,
    kind_by,
    refusal,
    translating,
    words,
)

NO_CONTAINER = frozenset(
    {"ContainerNotFound", "ContainerBeingDeleted", "ContainerDisabled", "FilesystemNotFound"}
)
"""Codes that are about the container, not about a blob in it."""

_CREDENTIALS = (
    "set AZURE_STORAGE_CONNECTION_STRING, or AZURE_STORAGE_ACCOUNT_NAME with a key, a SAS token or an "
    "identity that Azure's default chain finds; pickled filesystems leave inline secrets behind"
)
_ROLES = "give the identity the role Storage Blob Data Contributor on the container, or check its SAS token"
_REACH = "check that the account is right and its endpoint up, then try again"
_DOCUMENTS = {"list": "EnumerationResults", "blocklist": "BlockList"}
"""What answers to GET are, by what the request is about."""
_LEASE = "let its holder release the lease or break it, then try again"
_IMMUTABLE = (
    "wait until the policy ends or have the legal hold cleared, or publish to another destination; nothing "
    "can override them"
)
_BLOCKS = (
    "the list of blocks is not the one that was staged: it was committed, dropped by another write, or is "
    "older than 7 days"
)

# What the codes of the Blob service mean to us (Azure Storage, "Blob Storage error codes").
_KINDS: dict[str, type[StoreError]] = {
    **dict.fromkeys(("404", "ContainerBeingDeleted", "ContainerDisabled"), ObjectNotFound),
    **dict.fromkeys(("BlobAlreadyExists", "PathAlreadyExists", "PathConflict"), ObjectExists),
    "InvalidSourceOrDestinationResourceType": ObjectExists,
    **dict.fromkeys(
        ("ConditionNotMet", "SourceConditionNotMet", "TargetConditionNotMet"), PreconditionFailed
    ),
    "InvalidBlockList": UploadNotFound,
    **dict.fromkeys(("401", "403"), PermissionDenied),
    **dict.fromkeys(("405", "501"), Unsupported),
    # The body did not arrive as it was sent; nothing changed, and sending it again helps.
    **dict.fromkeys(("Md5Mismatch", "Crc64Mismatch"), Unavailable),
    **dict.fromkeys(("408", "429", "PendingCopyOperation", "OperationTimedOut"), Unavailable),
}
_HINTS = {
    **dict.fromkeys(("AuthorizationPermissionMismatch", "InsufficientAccountPermissions"), _ROLES),
    **dict.fromkeys(("LeaseAlreadyPresent", "LeaseIdMissing", "LeaseLost"), _LEASE),
    **dict.fromkeys(("BlobImmutableDueToPolicy", "BlobImmutableDueToLegalHold"), _IMMUTABLE),
    "PathImmutableDueToPolicy": _IMMUTABLE,
    "AuthenticationFailed": "renew the credentials, and check this machine's clock: a SAS token expires",
    "AuthorizationFailure": "renew the SAS token, which expires, or let the firewall admit this network",
    "KeyBasedAuthenticationNotPermitted": "use an identity of Entra ID: the account takes no keys",
    "BlobArchived": "rehydrate the blob from its archive first",
    "BlobBeingRehydrated": "wait until the blob is rehydrated",
    "ContainerBeingDeleted": "wait until the container is deleted, then create it again",
    "ContainerNotFound": "create the container first, or correct its name",
    "InvalidBlobOrBlock": "another program is sending blocks to this name; choose another name",
    "InvalidBlobType": "an append or page blob has this name; choose another, or remove it",
    "InvalidMetadata": "use ASCII letters, digits and - in metadata names",
    "RenameDestinationParentPathNotFound": "make the directory first",
    "SnapshotsPresent": "delete the snapshots of the blob first",
}
_TAGS_MAX = 2_000_000  # of 5,000 blobs with their metadata
_SIGNATURE = re.compile(r"(?i)\b(sig|signature|accountkey|sharedaccesssignature)=[^&;<\s'\"]+")


NO_CREDENTIALS = frozenset(
    {"AuthenticationFailed", "InvalidAuthenticationInfo", "NoAuthenticationInformation", "401"}
)
"""Codes of credentials that are wrong, expired or missing; not of roles."""


def code_of(error: StoreError) -> str:
    """The code that the service answered, or the HTTP status where it gave none; empty without an answer."""
    cause = error.__cause__
    code = getattr(cause, "error_code", None)
    return str(getattr(code, "value", code) or getattr(cause, "status_code", None) or "")


def translated(operation: str, path: str) -> AbstractContextManager[None]:
    """Raise what ``translate`` makes of exceptions within."""
    return translating(translate, operation, path)


def translate(error: Exception, operation: str, path: str) -> Exception:
    """The error of the port for an exception of the SDK; any other is returned unchanged."""
    known = _known(error, operation, path)
    if known is not error and any(_SIGNATURE.search(str(one)) for one in _chain(error)):
        known.__cause__ = _Withheld(error)
    return known


class _Withheld(Exception):
    """Stands in a traceback for an exception that told a signature: who answers may quote the request."""

    def __init__(self, error: Exception) -> None:
        super().__init__(f"{type(error).__name__}: {_unsigned(str(error))}")
        self.error_code = getattr(error, "error_code", None)
        self.status_code = getattr(error, "status_code", None)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _unsigned(text: str) -> str:
    return _SIGNATURE.sub(r"\1=…", text)


def _known(error: Exception, operation: str, path: str) -> Exception:
    import aiohttp
    from azure.core import exceptions as azure

    if isinstance(error, azure.HttpResponseError) and error.status_code:
        return _answered(error, operation, path)
    told = f"{type(error).__name__}: {_told(error)}"
    if isinstance(error, MagicError):
        return error
    if isinstance(error, azure.ClientAuthenticationError):
        return PermissionDenied(operation, path, f"no usable credentials: {told}", hint=_CREDENTIALS)
    # Of everything else the client knows, some may happen after the request was sent.
    if isinstance(error, (azure.AzureError, aiohttp.ClientError, OSError)):
        return Unavailable(operation, path, f"no sensible answer: {told}", hint=_REACH)
    return error


def _answered(error: Exception, operation: str, path: str) -> StoreError:
    from azure.core.exceptions import ClientAuthenticationError

    status = str(getattr(error, "status_code", ""))
    code = getattr(error, "error_code", None)
    code = str(getattr(code, "value", code) or status)
    kind = kind_by(_KINDS, code, status)
    if kind is StoreError and isinstance(error, ClientAuthenticationError):
        kind = PermissionDenied  # of the identity service, which answers 400
    told = _BLOCKS if kind is UploadNotFound else _told(error)
    hint = _HINTS.get(code, _CREDENTIALS if kind is PermissionDenied else "")
    if code == "ContainerNotFound":
        path = path.partition("/")[0]  # the key is one that the caller may never have named
    if kind is StoreError and status.startswith("2"):  # not what such a request is answered
        kind = Unavailable
    problem = f"{told or 'no message'} ({status} {words(code)})"
    return refusal(kind, operation, path, problem, hint, status)


def _told(error: Exception) -> str:
    """The first line of a message: further ones repeat headers. No signature is in it."""
    lines = str(getattr(error, "message", None) or error).strip().splitlines()
    return words(_unsigned(lines[0])) if lines else ""


def check_document(response: Any) -> None:
    """Raise ``Malformed`` for a success whose document is not that of the request; a hook of the SDK."""
    answered = response.http_response
    if not 200 <= answered.status_code < 300 or answered.request.method != "GET":
        return
    asked = dict(parse_qsl(urlsplit(answered.request.url).query))
    if name := _DOCUMENTS.get(asked.get("comp", "")):
        body = answered.body()
        check_plain(body, _TAGS_MAX)
        check_root(body, name)
    elif asked.get("resource") == "filesystem" and b'"paths"' not in answered.body():
        raise Malformed("the answer is no list of paths")
    elif span := answered.request.headers.get("x-ms-range"):
        start = span.removeprefix("bytes=").partition("-")[0]
        check_span(answered.headers.get("Content-Range", "bytes 0-"), int(start))
