"""What all objects of a job bear beside their content: encryption, ACL, tags and storage class.

A store learns them from the options of its filesystem. A job writes them down, but for keys of the customer's
own (SSE-C), so that another process, with options of its own, writes the job's objects as the job was told.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from collections.abc import Set as AbstractSet
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeGuard

from magicfs.errors import UsageError
from magicfs.stores.port import Part, Store

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

OF_EVERY_FILESYSTEM: Final = frozenset(
    {"batch_size", "listings_expiry_time", "max_paths", "skip_instance_cache", "use_listings_cache"}
)
_OF_EVERY_LOOP: Final = frozenset({"asynchronous", "loop"})


def options_of(filesystem: AbstractFileSystem) -> dict[str, Any]:
    """Everything that a filesystem was made with, by name, what was given by position included."""
    names = list(inspect.signature(type(filesystem).__init__).parameters)[1:]
    return {**dict(zip(names, filesystem.storage_args, strict=False)), **filesystem.storage_options}


def named_by(function: Callable[..., Any]) -> frozenset[str]:
    """The arguments of a function that have names."""
    return frozenset(inspect.signature(function).parameters) - {"self", "kwargs"}


def check_few(scheme: str, options: Mapping[str, Any], own: Collection[str]) -> None:
    """Raise UsageError for an option of a filesystem that takes anything, and has a few options of its own.

    What nobody reads was meant for another store: a key, or an endpoint.
    """
    for name in options:
        if name in own or name in OF_EVERY_FILESYSTEM or name in _OF_EVERY_LOOP:
            continue
        near = get_close_matches(str(name), own, 1, 0.7)
        meant = f"did you mean {near[0]}?" if near else "omit it, or use the URL of the store that has it"
        where = "files of this machine know" if scheme != "memory" else "memory:// knows"
        raise UsageError(f"{where} no option {name!r}; {meant}; nothing was changed")


class PlacedPart(Protocol):
    """All of a file as the first and only part of its upload."""

    @property
    def size(self) -> int:
        """Bytes written so far."""

    def write(self, data: memoryview) -> None:
        """Add bytes at the end; blocks as a file does. StoreError as ``put_part`` raises it."""

    def close(self) -> None:
        """End it, and wait for what the filesystem has to say; blocks. A second call does the same.

        StoreError as ``put_part`` raises it.
        """

    def read(self, start: int, size: int) -> bytes:
        """Bytes of it, once it is closed; fewer at its end. StoreError as ``put_part`` raises it."""

    def reader(self) -> Callable[[], bytes]:
        """What reads all of it back once it is put, until its upload ends; then it raises OSError.

        It holds nothing open.
        """


class PlacingStore(Store, Protocol):
    """A store whose capabilities say ``uploads.placed``."""

    def place_part(self, key: str, upload_id: str) -> PlacedPart | None:
        """Begin part 1 of an upload that has no parts; None if it cannot be written at its place."""

    async def put_placed_part(self, key: str, upload_id: str, part: PlacedPart) -> Part:
        """As ``put_part``, of what has been written; nothing may be written to it afterwards."""


def can_place(store: Store) -> TypeGuard[PlacingStore]:
    """Whether a store can; one upload may have to do without all the same."""
    return store.capabilities.uploads.placed and hasattr(store, "place_part")


ObjectSettings = Mapping[str, str]
"""By the names that S3 gives to the arguments of its requests; empty if nothing was told."""

NAMES: Final = frozenset(
    {
        *("ServerSideEncryption", "SSEKMSKeyId", "SSEKMSEncryptionContext", "BucketKeyEnabled"),
        *("SSECustomerAlgorithm", "ACL", "GrantFullControl", "GrantRead", "GrantReadACP", "GrantWriteACP"),
        *("Tagging", "StorageClass"),
    }
)
"""All of them. None is a secret."""

_GROUPS: Final = (
    frozenset({"ServerSideEncryption", "SSEKMSKeyId", "SSEKMSEncryptionContext", "BucketKeyEnabled"}),
    frozenset({"ACL", "GrantFullControl", "GrantRead", "GrantReadACP", "GrantWriteACP"}),
)
"""Settings that contradict each other: of each group all come from one place."""
_CUSTOMER_KEYS: Final = frozenset({"SSECustomerKey", "SSECustomerKeyMD5"})
_OWNERS_ACLS: Final = frozenset({"private", "bucket-owner-read", "bucket-owner-full-control"})
"""The ACLs that give rights to nobody but the owners of object and bucket."""
_ARCHIVES: Final = frozenset({"GLACIER", "DEEP_ARCHIVE"})

GIVE_CUSTOMER_KEY: Final = (
    "give the job's customer key (SSE-C): SSECustomerAlgorithm and SSECustomerKey in s3_additional_kwargs, "
    "by storage_options or, for a command, the variable FSSPEC_S3"
)


def of_store(store: Store) -> ObjectSettings:
    """What everything that is written through a store bears; empty where stores know no such settings."""
    settings: ObjectSettings = getattr(store, "object_settings", {})
    return settings


def store_with(store: Store, settings: ObjectSettings) -> Store:
    """The store through which a job is written that was told these settings; without any, the store itself.

    Raises UsageError if it cannot write so: it lacks the customer's key, or a newer magicfs wrote the
    settings. No request is made.
    """
    made = getattr(store, "with_object_settings", None)
    if made is None or not settings or settings == of_store(store):
        return store
    found: Store = made(settings)
    return found


def store_as_recorded(store: Store, settings: ObjectSettings) -> Store:
    """The same, of settings that a record in the bucket has. Raises UsageError as ``check_recorded``, too."""
    check_recorded(settings, of_store(store))
    return store_with(store, settings)


def check_recorded(settings: ObjectSettings, own: ObjectSettings) -> None:
    """Raise UsageError if settings of a record give rights away that this process was not given itself.

    That is an ACL that opens objects to others, a grant, or a key by its ARN, which may be another account's.
    Somebody who may write a record would decide otherwise who reads what commands write.
    """
    given_away = [name for name, value in settings.items() if _gives_away(name, value)]
    refused = {name: settings[name] for name in sorted(given_away) if own.get(name) != settings[name]}
    if refused:
        listed = ", ".join(f"{name}={value!a}" for name, value in refused.items())
        raise UsageError(
            f"a record in the bucket asks to write objects with {listed}, which this process was not given, "
            "and magicfs does not take access rights from a record; nothing was changed; if it is right, "
            "give it in s3_additional_kwargs, by storage_options or, for a command, the variable FSSPEC_S3"
        )


def _gives_away(name: str, value: str) -> bool:
    if name == "SSEKMSKeyId":
        return value.startswith("arn:")
    return name.startswith("Grant") or (name == "ACL" and value not in _OWNERS_ACLS)


def of_options(options: Mapping[str, Any]) -> ObjectSettings:
    """The settings among the arguments that a filesystem adds to its requests. Keys are left out."""
    # s3fs takes the ACL in small letters, too.
    known = {"ACL": options.get("acl"), **options}
    return {name: _text(known[name]) for name in sorted(NAMES & known.keys()) if known[name]}


def arguments(settings: ObjectSettings, options: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of requests that write with these settings, or read what was written so.

    ``options``: what the filesystem adds to its requests; of these only the customer's key counts. Raises
    UsageError if that is needed and not there, or a setting is unknown.
    """
    if unknown := sorted(settings.keys() - NAMES):
        raise UsageError(
            f"the job has the object settings {', '.join(unknown)}, which this version of magicfs does not "
            "know; nothing was changed; use the version that set the job up, or a newer one"
        )
    made: dict[str, Any] = dict(settings)
    if "BucketKeyEnabled" in made:
        made["BucketKeyEnabled"] = settings["BucketKeyEnabled"] == "true"
    if "Tagging" in made:
        made["TaggingDirective"] = "REPLACE"  # a copy takes over its source's tags otherwise
    if "SSECustomerAlgorithm" in made:
        if not options.get("SSECustomerKey"):
            raise UsageError(
                "the job encrypts with a customer key (SSE-C), which is not stored anywhere; nothing was "
                f"changed; {GIVE_CUSTOMER_KEY}"
            )
        made |= {name: options[name] for name in _CUSTOMER_KEYS & options.keys()}
    return made


def of_records(settings: ObjectSettings) -> ObjectSettings:
    """The settings of what must be read again at any time: never the storage class of an archive."""
    if not is_archive(settings):
        return settings
    return {name: value for name, value in settings.items() if name != "StorageClass"}


def is_archive(settings: ObjectSettings) -> bool:
    """Whether objects of these settings cannot be read before somebody restores them."""
    return settings.get("StorageClass") in _ARCHIVES


def beside(made: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """What ``arguments`` made, without what one file is given otherwise: encryption and access as a whole."""
    replaced = {name for group in _GROUPS if group & given.keys() for name in group}
    return {name: value for name, value in made.items() if name not in replaced}


def foreign(own: AbstractSet[str]) -> frozenset[str]:
    """Arguments that requests must not have beside their own."""
    return (NAMES | _CUSTOMER_KEYS) - own


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
