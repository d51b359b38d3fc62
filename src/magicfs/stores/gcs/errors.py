"""What went wrong with a request to Google Cloud Storage, in the words of ``magicfs.errors``.

No message quotes a request: its headers carry a token.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
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
from magicfs.stores.answer_rules import NOT_READ, REACH, Malformed, kind_by, refusal, root_of, words

_LIFECYCLE = "the store does not know the upload: it was aborted, expired by a lifecycle rule, or completed"
CREDENTIALS = (
    "set GOOGLE_APPLICATION_CREDENTIALS to the file of a service account, log in with gcloud, or run with a "
    "service account attached; pickled filesystems leave inline tokens behind"
)
_ROLES = "grant the roles that docs/gcs.md names for the bucket, or check which account is used"
_KEPT = "wait until the retention ends or release the hold, or publish to another destination"
_PAYER = "the bucket is requester-pays: set requester_pays=PROJECT in the filesystem's options"
_BUCKET = "create the bucket first, or correct its name"
_SLOWER = "too many requests for one object or bucket; try again later"

# Reasons of the JSON API and codes of the XML API (Google's reference, "HTTP status and error codes").
_KINDS: Mapping[str, type[StoreError]] = {
    **dict.fromkeys(("rateLimitExceeded", "userRateLimitExceeded", "SlowDown"), Unavailable),
    **dict.fromkeys(("BadDigest", "IncompleteBody"), Unavailable),  # the body did not arrive as it was sent
    "NotImplemented": Unsupported,
    **dict.fromkeys(("objectUnderActiveHold", "retentionPolicyNotMet"), StoreError),
    **dict.fromkeys(("401", "403"), PermissionDenied),
    "404": ObjectNotFound,
    **dict.fromkeys(("405", "501"), Unsupported),
    "412": PreconditionFailed,
    **dict.fromkeys(("408", "429"), Unavailable),
}
_VALUES_MAX = 2_000_000
_OF_UPLOADS = frozenset({"put_part", "written", "complete_upload", "abort_upload"})


@dataclass(frozen=True, slots=True)
class Answer:
    """What the service answered."""

    status: int
    headers: Mapping[str, str]
    content: bytes


def check(answer: Answer, operation: str, path: str) -> None:
    """Raise the error of the port for an answer that is one."""
    if answer.status >= HTTPStatus.MULTIPLE_CHOICES:
        raise refused(answer, operation, path)


def refused(answer: Answer, operation: str, path: str) -> StoreError:
    """The error of the port for an answer of either API."""
    reason, message = _told(answer.content)
    kind = kind_by(_KINDS, reason, str(answer.status))
    if _is_kept(reason, message):
        kind = StoreError
    if kind is ObjectNotFound and is_about_the_bucket(answer):
        path = path.partition("/")[0]  # the key is one that the caller may never have named
    elif kind is ObjectNotFound and operation in _OF_UPLOADS:
        kind, message = UploadNotFound, _LIFECYCLE
    problem = f"{message or 'no message'} ({answer.status} {words(reason)})".replace(" )", ")")
    hint = _hint(kind, answer, reason, message)
    return refusal(kind, operation, path, problem, hint, str(answer.status))


def is_about_the_bucket(answer: Answer) -> bool:
    """Whether an answer of 404 is about the bucket, and not about an object in it."""
    reason, message = _told(answer.content)
    return reason == "NoSuchBucket" or "bucket does not exist" in message


@contextmanager
def translated(operation: str, path: str) -> Iterator[None]:
    """Raise the port's errors for exceptions of the client."""
    import aiohttp

    try:
        yield
    except (aiohttp.InvalidURL, ValueError, TypeError) as error:
        problem = f"the request cannot be made: {type(error).__name__}: {words(error)}"
        raise StoreError(operation, path, problem, hint="correct the name or the option") from error
    except _NotRenewed as error:
        problem = f"no usable credentials: {error}"
        raise PermissionDenied(operation, path, problem, hint=CREDENTIALS) from None
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        problem = f"no sensible answer: {type(error).__name__}: {words(error)}"
        raise Unavailable(operation, path, problem, hint=REACH) from error


@contextmanager
def reading(operation: str, path: str) -> Iterator[None]:
    """Raise Unavailable where an answer does not say what answers to such a request say."""
    try:
        yield
    except MagicError:
        raise
    except (Malformed, *NOT_READ) as error:
        problem = f"no sensible answer: {type(error).__name__}: {words(error)}"
        raise Unavailable(operation, path, problem, hint=REACH) from error


class _NotRenewed(Exception):
    """The credentials are expired, and no others were given for them."""


@contextmanager
def renewing() -> Iterator[None]:
    """Tell credentials that are refused from those that cannot be asked for just now."""
    from google.auth import exceptions

    try:
        yield
    except exceptions.TransportError as error:
        raise OSError(f"credentials could not be renewed: {type(error).__name__}") from None
    except Exception as error:  # noqa: BLE001
        # Of gcsfs or of google-auth; what they quote may hold a secret.
        raise _NotRenewed(f"they could not be renewed: {type(error).__name__}") from None


def _told(content: bytes) -> tuple[str, str]:
    """The reason and the message of an error, of either API."""
    text = content.decode(errors="replace").strip()
    if text.startswith("<"):
        try:
            root = root_of(content)
        except Malformed:
            return "", ""
        return root.findtext("Code", ""), words(root.findtext("Message", ""))
    try:
        error = _loaded(content)["error"]
        entries = error.get("errors") or [{}]
        return str(entries[0].get("reason", "")), words(error.get("message", ""))
    except (Malformed, *NOT_READ):
        return "", ""


def _is_kept(reason: str, message: str) -> bool:
    """Whether a retention policy or a hold forbids it: no matter of credentials."""
    named = {"objectUnderActiveHold", "retentionPolicyNotMet"}
    return reason in named or "retention policy" in message or "under active" in message


def _hint(kind: type[StoreError], answer: Answer, reason: str, message: str) -> str:
    if _is_kept(reason, message):
        return _KEPT
    if "requester pays" in message.lower() or reason == "UserProjectMissing":
        return _PAYER
    if kind is PermissionDenied:
        return CREDENTIALS if answer.status == HTTPStatus.UNAUTHORIZED else _ROLES
    if kind is ObjectNotFound and is_about_the_bucket(answer):
        return _BUCKET
    return _SLOWER if answer.status == HTTPStatus.TOO_MANY_REQUESTS else ""


def document(answer: Answer, operation: str, path: str, kind: str = "") -> dict[str, Any]:
    """What an answer says in JSON. Raises Unavailable if it is none, as from a proxy on the way.

    ``kind``: which kind of resource it says that it is.
    """
    with reading(operation, path):
        found = _loaded(answer.content)
        if not isinstance(found, dict):
            raise Malformed("the answer is no JSON object")
        if kind and found.get("kind") != kind:
            raise Malformed(f"the answer must be {kind}, and it is {words(found.get('kind', 'of no kind'))}")
    return found


def _loaded(content: bytes) -> Any:
    if sum(map(content.count, (b"[", b"{", b","))) > _VALUES_MAX:
        raise Malformed(f"the answer has more than {_VALUES_MAX:,} values")
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise Malformed("the answer is no JSON") from error


def not_deleted(answer: Answer, operation: str, path: str) -> StoreError | None:
    """Why one object was not deleted; None if it is not there."""
    gone = answer.status == HTTPStatus.NOT_FOUND and not is_about_the_bucket(answer)
    if gone or answer.status < HTTPStatus.MULTIPLE_CHOICES:
        return None
    return refused(answer, operation, path)
