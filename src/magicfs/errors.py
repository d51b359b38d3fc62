"""Every error that magicfs raises on purpose.

::

    MagicError
    ├── UsageError(ValueError)        fix the call
    │     └── ProtocolViolation       calls out of order: commit after abort, one task committed twice
    ├── FormatError(ValueError)       a persisted file is malformed or inconsistent: path, field
    │     └── SealBroken              it is not as who has the key sealed it
    ├── StoreError(OSError)           the store refused or did not answer: key, operation, retryable
    │     ├── ObjectNotFound(FileNotFoundError)
    │     ├── ObjectExists(FileExistsError)
    │     ├── PermissionDenied(PermissionError)
    │     ├── PreconditionFailed      a conditional request found another version
    │     ├── UploadNotFound          never a FileNotFoundError: the object may well be there
    │     ├── Unsupported             this store cannot do it at all
    │     └── Unavailable             try again later
    ├── CommitUnfinished              every file is visible, its manifest or _SUCCESS perhaps not: recover
    └── CommitError                   carries done, failed, not_started
          ├── OutputExists            the mode does not allow it; nothing was changed
          ├── CommitDenied            another attempt or driver was chosen
          ├── CommitFailed            known not to have happened; cleaning up is safe
          └── CommitOutcomeUnknown    may have happened; nothing may be deleted

Classes are sorted by what their reader does next. Every message ends with what to do. Every error
pickles with all its attributes, because engines ship errors between processes.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable
from typing import Any, ClassVar

__all__ = [
    "CommitDenied",
    "CommitError",
    "CommitFailed",
    "CommitOutcomeUnknown",
    "CommitUnfinished",
    "FormatError",
    "MagicError",
    "ObjectExists",
    "ObjectNotFound",
    "OutputExists",
    "PermissionDenied",
    "PreconditionFailed",
    "ProtocolViolation",
    "SealBroken",
    "StoreError",
    "Unavailable",
    "Unsupported",
    "UploadNotFound",
    "UsageError",
]


class MagicError(Exception):
    """Base of the tree. ``str(error)`` is one sentence or two: what happened, then what to do."""

    message: str

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[Any, ...]:
        # Keyword-only constructor arguments do not survive BaseException's own pickling.
        return _rebuild, (type(self), self.args, self.__dict__.copy())


def _rebuild(cls: type[MagicError], args: tuple[object, ...], state: dict[str, object]) -> MagicError:
    error = cls.__new__(cls)
    error.args = args
    error.__dict__.update(state)
    if isinstance(error, StoreError):
        error.errno = error.code  # a slot of OSError, so it is not in the state
    return error


class UsageError(MagicError, ValueError):
    """The call cannot work: an option, a path or a mode is wrong. Nothing was changed."""


class ProtocolViolation(UsageError):
    """Calls out of order, such as a task committed twice or a commit after an abort."""


class FormatError(MagicError, ValueError):
    """A persisted file is malformed or inconsistent.

    Attributes:
        path: Where the file was read from.
        field: The field at fault, dotted and indexed (``commits[3].etags``); empty for the whole file.
    """

    def __init__(self, path: str, field: str, problem: str) -> None:
        where = f"{path}: {field}" if field else path
        super().__init__(f"{where}: {problem}")
        self.path = path
        self.field = field
        self.problem = problem


class SealBroken(FormatError):
    """A record is not sealed as its publisher's key seals it. Nothing of it was carried out."""


class StoreError(MagicError, OSError):
    """The store refused an operation, or did not answer it.

    Attributes:
        key: ``bucket/key`` the operation was about.
        operation: The port's name of it, such as ``put_part``.
        retryable: Whether the same request may succeed later without any change.
    """

    default_hint: ClassVar[str] = "see the store's answer above"
    code: ClassVar[int] = errno.EIO
    retryable: ClassVar[bool] = False

    def __init__(self, operation: str, key: str, problem: str, *, hint: str = "") -> None:
        super().__init__(f"{operation} of {key}: {problem}; {hint or self.default_hint}")
        self.operation = operation
        self.key = key
        self.problem = problem
        self.hint: str = hint or self.default_hint
        self.errno: int = self.code


class ObjectNotFound(StoreError, FileNotFoundError):
    """No object at this key, or no such bucket."""

    default_hint = "check the bucket and the key"
    code: ClassVar[int] = errno.ENOENT


class ObjectExists(StoreError, FileExistsError):
    """A create-only write found an existing object."""

    default_hint = "choose another name, or allow overwriting"
    code: ClassVar[int] = errno.EEXIST


class PermissionDenied(StoreError, PermissionError):
    """The credentials are missing, wrong, expired or not allowed to do this."""

    default_hint = (
        "check the credentials (environment, profile, role or storage_options) and the policy of the bucket"
    )
    code: ClassVar[int] = errno.EACCES


class PreconditionFailed(StoreError):
    """A conditional request found a different version than the one it named."""

    default_hint = "read the object again, then decide"


class UploadNotFound(StoreError):
    """The multipart upload does not exist: it was aborted, expired, or already completed."""

    default_hint = "read the object itself to find out"


class Unsupported(StoreError):
    """The store has no such operation."""

    default_hint = "use another store, or another committer"
    code: ClassVar[int] = errno.ENOTSUP


class Unavailable(StoreError):
    """The store is throttling, failing or out of reach.

    Attributes:
        throttled: Whether it reported too many requests.
    """

    default_hint = "try again later"
    code: ClassVar[int] = errno.EAGAIN
    retryable = True
    throttled = False


class CommitUnfinished(MagicError):
    """Every file of a job is visible, but its manifest, the pointer or ``_SUCCESS`` could not be written, or
    old files could not be deleted.

    Readers of manifests may not see the files yet. Nothing is lost: fix the cause, then commit again or run
    ``magicfs recover URL``. It is not a ``CommitError``: do not run the job again under another name.

    Attributes:
        report: The ``JobReport`` of what was published.
    """

    def __init__(self, message: str, report: Any) -> None:
        super().__init__(message)
        self.report = report


class CommitError(MagicError):
    """A task or job commit that did not succeed.

    Attributes:
        done: Keys that were published.
        failed: Keys whose publication failed.
        not_started: Keys that were not tried.
    """

    def __init__(
        self,
        message: str,
        *,
        done: Iterable[str] = (),
        failed: Iterable[str] = (),
        not_started: Iterable[str] = (),
    ) -> None:
        super().__init__(message)
        self.done: tuple[str, ...] = tuple(done)
        self.failed: tuple[str, ...] = tuple(failed)
        self.not_started: tuple[str, ...] = tuple(not_started)


class OutputExists(CommitError):
    """The mode does not allow publishing onto existing data. Nothing was changed."""


class CommitDenied(CommitError):
    """Another attempt or driver was chosen. No file of this one was published, or another process published
    it without the files in ``failed``.
    """


class CommitFailed(CommitError):
    """The commit did not happen as a whole; ``done`` names the files that were published."""


class AuditFailed(CommitFailed):
    """The audit of a job failed, so none of its files was published; ``failed`` has the rules' findings.

    Attributes:
        quarantined: Whether the job waits until you accept or abort it; otherwise it was aborted.
    """

    def __init__(self, message: str, *, failed: Iterable[str] = (), quarantined: bool = False) -> None:
        super().__init__(message, failed=failed)
        self.quarantined = quarantined


class CommitOutcomeUnknown(CommitError):
    """The store did not report whether the commit happened; nothing was deleted."""
