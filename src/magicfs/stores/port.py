"""The port: what magicfs asks of an object store, one bucket at a time.

A store is bound to one bucket. Keys are raw text. All methods are coroutines that run on fsspec's loop.
Each docstring says what is true afterwards, what a second identical call does, which errors there are,
and what is true after each of them. Any method may also raise:

* ``PermissionDenied``: nothing changed.
* ``Unavailable``: the store failed or stayed silent; whether a change took place is unknown.
* ``StoreError``: refused for another reason, which the message quotes; nothing changed.

Differences between stores are data, in ``Capabilities``.
"""

from __future__ import annotations

import builtins
import io
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, Literal, Protocol, cast

from magicfs.errors import Unsupported
from magicfs.protocol.parts import PartLimits

Body = bytes | bytearray | memoryview
"""Content that is written in one request."""

PartBody = Body | io.BytesIO
"""Content of a part. A ``BytesIO`` is read from its start, as often as need be, and never changed: handing
one over saves a copy of every part."""


@dataclass(frozen=True, slots=True)
class Uploads:
    """What the multipart uploads of a store are like.

    Attributes:
        delayed: Whether one process can open an upload and another one complete it; else the rest is moot.
        options: Names of the options that ``create_upload`` takes, as in S3's API.
        apart: Whether an upload is nothing to others of its key, and to objects there. Where it is not,
            whatever is written to a key drops its other uploads, which are then not found; an upload is not
            listed while an object has its key; one that was aborted stays, unlisted, until it expires,
            cannot be completed by who looks after the abort, and costs until then; a part that is sent late
            is taken and forgotten; and one that was sent twice completes as either of them.
        days: How many days an upload lives if nobody writes to it; None for as long as the bucket's owner
            likes.
        placed: Whether a file can be written at its place while it is open, without a body in memory
            (``stores.object_settings``).
    """

    delayed: bool = True
    options: frozenset[str] = frozenset()
    apart: bool = True
    days: int | None = None
    placed: bool = False


@dataclass(frozen=True, slots=True)
class Checksums:
    """Which checksums a store knows, by their algorithms.

    Attributes:
        of_uploads: Those that it has of the objects of uploads, as wholes.
        of_put: That of an object that was put, where it is another one than these; else empty.
        of_parts: That with which uploads are opened, so that completing one needs the checksum of each part
            again; None without any.
    """

    of_uploads: tuple[str, ...] = ()
    of_put: str = ""
    of_parts: str | None = None

    def of_object(self, *, is_put: bool) -> tuple[str, ...]:
        """Those that it has of an object that was put or uploaded: a writer makes one, to be compared."""
        return (self.of_put,) if is_put and self.of_put else self.of_uploads


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a store can do.

    Attributes:
        uploads: What its multipart uploads are like.
        parts: Limits of part sizes and counts.
        rename: How an object gets another name: by copying and deleting, or in one step. A store that can do
            it in one step is a ``stores.tree_port.TreeStore``; one of whose buckets some can, and only asking
            tells which, is a ``stores.tree_port.FolderStore``.
        metadata: Whether objects keep user metadata. Where they do not, what is given is forgotten, and the
            id of an upload tells the ETag that its object will have and no other
            (``protocol.readback.etag_of_upload``).
        directories: Whether keys are paths of real files: nothing can lie below an object, and an object
            cannot be where others lie below. A write that asks for it raises ``StoreError``, and so does a
            key with an element that is empty, ``.``, ``..`` or too long for the name of a file.
        puts_files: Whether ``put`` makes of a body what an upload without options makes of it, with the same
            metadata and settings. Where it does not, as for records that an archive must not take, files are
            always uploads.
        guesses_content_type: Whether the store's filesystem gives a file that it opens a content type by its
            name, as that of no other does.
        checksums: Which checksums it knows.
        versions: Whether buckets can keep versions of what is deleted or written over. Then the store is a
            ``VersionStore``, and what is written to such a bucket has a ``version``.
        bulk_delete_max: Most keys that one ``delete`` takes.
        list_page_max: Most entries of one page of a listing.
        requests_max: Most requests at once that the store's client carries; more would wait for a connection.
    """

    uploads: Uploads = field(default_factory=Uploads)
    parts: PartLimits = field(default_factory=PartLimits)
    rename: Literal["copy", "atomic", "by bucket"] = "copy"
    metadata: bool = True
    directories: bool = False
    puts_files: bool = True
    guesses_content_type: bool = False
    checksums: Checksums = field(default_factory=Checksums)
    versions: bool = False
    bulk_delete_max: int = 1000
    list_page_max: int = 1000
    requests_max: int = 32

    @property
    def prefers_rename(self) -> bool:
        """Whether renaming a file costs less than delaying its upload, so that of two committers that the
        store can carry the one that renames is the better one: so it is with real files.
        """
        return self.directories and self.rename == "atomic"


RIGHTS_OF: Final = "magicfs.rights-of"
"""Metadata for ``put`` to a store that keeps none: the key of an object. Nobody who may not read that object
may read what is written. Files have rights of their own; in a bucket the bucket says who reads."""


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """An object as ``head``, ``put``, ``complete_upload`` and listings show it.

    Attributes:
        key: Its key.
        size: Length in bytes; -1 where an answer has none.
        etag: As the store gives it, quotes included; empty where an answer has none.
        modified: Seconds since the epoch; None where an answer has none.
        metadata: User metadata with lower-case names; only ``head`` fills it.
        description: What else describes the content, by names of ``protocol.file_options.DESCRIPTION``; only
            ``head`` fills it.
        version: Under which id the bucket keeps it when it is deleted or written over; empty in listings, and
            where the bucket keeps no versions.
    """

    key: str
    size: int
    etag: str
    modified: float | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    description: Mapping[str, Any] = field(default_factory=dict)
    version: str = ""


@dataclass(frozen=True, slots=True)
class Part:
    """A part that the store has acknowledged.

    Attributes:
        number: From 1.
        etag: As the store gave it, quotes included.
        checksum: Algorithm and base64 value, if the upload was opened with one; completing needs it again.
    """

    number: int
    etag: str
    checksum: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class UploadInfo:
    """A pending upload as a listing shows it.

    Attributes:
        key: The key that it will have.
        upload_id: The upload.
        initiated: Seconds since the epoch.
        initiator: Who opened it, as the store says; empty where it does not.
    """

    key: str
    upload_id: str
    initiated: float
    initiator: str = ""


class PutMode(Enum):
    """When ``put`` writes. The third mode is ``Update(etag)``."""

    OVERWRITE = "overwrite"
    """Whatever the key holds."""
    CREATE = "create"
    """Only if the key is free."""


@dataclass(frozen=True, slots=True)
class Update:
    """The mode of a ``put`` that writes only if the key still holds the object of this ETag.

    Attributes:
        etag: As the store gave it, quotes included.
    """

    etag: str


class Store(Protocol):
    """One bucket of an object store."""

    @property
    def name(self) -> str:
        """What messages call the store, such as ``s3`` or ``memory``."""

    @property
    def bucket(self) -> str:
        """The bucket."""

    @property
    def identity(self) -> str:
        """The same text for the same bucket at the same endpoint, in this process."""

    @property
    def capabilities(self) -> Capabilities:
        """What it can do."""

    async def create_upload(
        self, key: str, *, metadata: Mapping[str, str], options: Mapping[str, Any] | None = None
    ) -> str:
        """Open a multipart upload and return its id.

        Afterwards the upload is listed and nothing is visible at the key. A second call opens a second,
        independent upload of the same key. After ``Unavailable`` an upload may be open whose id nobody
        knows; only ``list_uploads`` finds it.

        Args:
            key: The key that it will have.
            metadata: User metadata of the object.
            options: What else the object shall have, by names of ``capabilities.uploads.options``. They count
                before what the store does for every object. ``Metadata`` among them is joined with
                ``metadata``, whose names count.

        Raises:
            ObjectNotFound: No such bucket.
            Unsupported: The store has no multipart uploads.
            UsageError: An option has another name; nothing changed.
        """

    async def put_part(self, key: str, upload_id: str, number: int, body: PartBody) -> Part:
        """Send one part, numbered from 1, in any order.

        Afterwards the part is part of the upload. A second call replaces the part; the last
        acknowledged one counts. After an error the part may or may not be there; sending it again is safe.

        Raises:
            UploadNotFound: Aborted or completed already.
        """

    async def complete_upload(
        self, key: str, upload_id: str, parts: Sequence[Part], *, if_absent: bool = False
    ) -> ObjectInfo:
        """Make the upload visible, with the given parts in ascending order, at least one.

        Afterwards the key holds exactly these parts and the metadata given at creation, replacing what
        was there, and the upload is no longer listed. A second call either succeeds without change or
        raises ``UploadNotFound``: only a HEAD that shows the write id says what happened.
        With ``if_absent`` it succeeds only if the key was free. Some stores ignore that, a few let several
        conditional completes win, and some, as Google Cloud Storage, have no such condition:
        ``stores.conditions`` probes whether it is honoured. A second such call may also meet the caller's own
        object. Nothing rests on that condition: one job publishes because one conditional write moves its job
        object, and no two write one name because names hold the ids of job and task.
        After ``Unavailable`` the object may be visible, or become visible later.

        Raises:
            ObjectExists: ``if_absent`` was given and something is there; the upload is still pending.
            Unsupported: ``if_absent`` was given, which the store cannot honour; the upload is still pending.
            UploadNotFound: Aborted, completed already, or never opened; nothing changed.
            StoreError: A part is unknown, too small or its ETag differs, or parts are not named once each in
                ascending order; the upload is still pending.
        """

    async def abort_upload(self, key: str, upload_id: str) -> None:
        """Discard an upload and its parts.

        Afterwards the upload is not listed and cannot be completed. One that is not there counts as
        discarded, so a second call does nothing. After ``Unavailable`` it may still be pending.
        """

    def list_uploads(self, prefix: str) -> AsyncIterator[UploadInfo]:
        """All pending uploads whose keys start with the prefix, whatever the number of pages.

        Raises:
            ObjectNotFound: No such bucket.
        """

    async def put(
        self,
        key: str,
        body: Body,
        *,
        metadata: Mapping[str, str] | None = None,
        mode: PutMode | Update = PutMode.OVERWRITE,
    ) -> ObjectInfo:
        """Write an object in one request, if the mode allows it.

        Afterwards the key holds the body, replacing what was there. ``metadata`` may have ``RIGHTS_OF`` where
        the store keeps none. A second call does the same again, but with ``CREATE`` and ``Update`` it meets
        the caller's own object. So if a reply was lost, read the object back before it counts a refusal as
        true.

        Raises:
            ObjectExists: The mode is ``CREATE`` and something is there; nothing changed.
            PreconditionFailed: The mode is ``Update`` and another object, or none, is there; nothing changed.
            ObjectNotFound: No such bucket.
            Unsupported: The store cannot honour the condition; nothing changed.
        """

    async def copy(
        self, source: str, destination: str, *, etag: str = "", mode: PutMode | Update = PutMode.OVERWRITE
    ) -> int:
        """Copy an object within the bucket, with its metadata; no byte of it passes through this process.

        Afterwards the destination holds the content and the metadata of the source, replacing what was
        there, and the source is as it was. Until then the destination holds what it held, never a part of
        the copy. A second call does the same again. A copy onto itself changes nothing. After
        ``Unavailable`` the destination may hold either object, or the copy later. With ``etag`` it copies
        only the object of that ETag, and the two may share their bytes afterwards, as hard links do.
        ``mode`` is about the destination, as for ``put``. Some stores ignore it, and nobody probes that.

        Returns:
            Bytes that were copied.

        Raises:
            ObjectNotFound: No such source or bucket; nothing changed.
            ObjectExists or PreconditionFailed: The source has another ETag, or the mode does not allow to
                replace what is at the destination; nothing changed.
            Unsupported: As for ``put``.
        """

    async def get(self, key: str, *, size_max: int | None = None) -> bytes:
        """Read an object whole, or at most its first ``size_max`` bytes.

        Raises:
            ObjectNotFound: No such object or bucket.
            StoreError: A service's object has more than 64 MiB, and no ``size_max`` was given.
        """

    async def get_range(self, key: str, start: int, size: int, *, etag: str) -> bytes:
        """Read so many bytes of an object, or what there is of them, if it is still the one of that ETag.

        Args:
            key: Its key.
            start: The first byte, from 0; less than the object has.
            size: How many bytes, at least 1.
            etag: As the store gave it, quotes included.

        Raises:
            ObjectNotFound: No such object or bucket.
            PreconditionFailed: Another object is there.
        """

    async def head(self, key: str) -> ObjectInfo:
        """Describe an object, its metadata included.

        Raises:
            ObjectNotFound: No such object or bucket.
        """

    async def checksums(self, key: str, *, etag: str) -> Mapping[str, str]:
        """What the store says of all bytes of an object, if it is still the one of that ETag; none is read.

        In base64 by algorithm, as S3 names them: ``CRC32``, ``CRC32C``, ``CRC64NVME``, ``SHA1``, ``SHA256``,
        ``MD5``. Empty where the store says nothing, or only of parts.

        Args:
            key: Its key.
            etag: As the store gave it, quotes included.

        Raises:
            ObjectNotFound: No such object or bucket.
            PreconditionFailed: Another object is there.
        """

    def list(self, prefix: str, *, limit: int | None = None) -> AsyncIterator[ObjectInfo]:
        """Every object whose key starts with the prefix, flat, whatever the number of pages; no cache.

        Args:
            prefix: Plain text; a directory's ends with a slash.
            limit: Stop after so many, without asking for more.

        Raises:
            ObjectNotFound: No such bucket.
        """

    def list_directories(self, prefix: str) -> AsyncIterator[str]:
        """Every directory whose path starts with the prefix, and no deeper: what keys that start with the
        prefix have up to the next slash, that slash included, each once. However much lies in a directory,
        it is one entry. No cache, as for ``list``.

        A directory is there while an object lies in it; a store of files may show empty ones, too.

        Args:
            prefix: Plain text; that of a directory's content ends with a slash.

        Raises:
            ObjectNotFound: No such bucket.
        """

    async def delete(self, keys: Sequence[str]) -> None:
        """Delete objects, at most ``bulk_delete_max`` of them, in one request.

        Afterwards none of the keys exists. Missing ones count as deleted, so a second call does nothing.

        Raises:
            StoreError: Some could not be deleted; the message names the first; the others are gone. Or
                there are too many keys; nothing changed.
        """

    async def delete_matching(self, key: str, etag: str) -> None:
        """Delete an object if it is still the one of that ETag.

        Afterwards that object is not there. A missing one counts as deleted, so a second call does nothing.
        Some stores ignore the condition: ``stores.conditions`` probes whether it is honoured.

        Raises:
            PreconditionFailed: Another object is there; nothing changed.
        """

    async def delete_all_matching(self, objects: Sequence[tuple[str, str]]) -> builtins.list[str]:
        """Delete objects by key and ETag, at most ``bulk_delete_max`` of them, in one request.

        Afterwards none of the named objects exists; what has another ETag by now is left. Missing ones count
        as deleted, so a second call does nothing. Some stores ignore the ETags: see ``stores.conditions``.

        Returns:
            Keys that hold another object, untouched.

        Raises:
            StoreError: As for ``delete``.
        """


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of the bucket's lifecycle that ends open uploads.

    Attributes:
        days: After how many days, from when an upload was opened.
        prefix: Of which keys.
    """

    days: int
    prefix: str = ""


@dataclass(frozen=True, slots=True)
class Written:
    """What an open upload has come to.

    Attributes:
        size: Bytes of its parts.
        last: When the last of them was written, in seconds since the epoch; None if it has none.
    """

    size: int
    last: float | None


class Upkeep(Protocol):
    """The upkeep of one bucket."""

    async def clock(self) -> float:
        """What time the store says it is, in seconds since the epoch."""

    async def written(self, key: str, upload_id: str) -> Written:
        """How much was written to an upload, and when last.

        Raises:
            UploadNotFound: Aborted or completed already.
        """

    async def rules(self) -> tuple[Rule, ...]:
        """The rules that end open uploads, as far as they ask for nothing but age and prefix."""


def upkeep_of(store: Store) -> Upkeep:
    """The upkeep of a store's bucket. Makes no request.

    Raises:
        Unsupported: The store has none.
    """
    made = getattr(store, "upkeep", None)
    if made is None:
        problem = f"{store.name}:// cannot say when an upload was last written, or how large it is"
        raise Unsupported("upkeep", store.name, problem, hint="use magicfs recover URL --job ID --abort")
    return cast("Upkeep", made())


UNVERSIONED = "null"
"""What a listing calls the version of an object that was written while the bucket kept none."""


@dataclass(frozen=True, slots=True)
class Version:
    """One version of an object, as a listing shows it.

    Attributes:
        key: Its key.
        version: Its id.
        size: Length in bytes; 0 of a marker.
        etag: As the store gives it, quotes included; empty of a marker.
        is_marker: Whether it says that the object was deleted, and holds nothing.
        is_latest: Whether it is what is at the key now.
    """

    key: str
    version: str
    size: int
    etag: str
    is_marker: bool = False
    is_latest: bool = False


class Versions(Protocol):
    """The versions of the objects of one bucket. Each is written once, and goes when it is deleted by its id.

    Where the bucket keeps versions, ``put``, ``copy`` and ``complete_upload`` of the store add one, and its
    ways to delete add a marker above the others, which they leave.
    """

    async def are_kept(self) -> bool:
        """Whether versions are kept of what is deleted or written over from now on.

        Raises:
            ObjectNotFound: No such bucket.
        """

    async def head(self, key: str, version: str) -> ObjectInfo:
        """Describe a version, its metadata included.

        Raises:
            ObjectNotFound: No such version, or it is a marker.
        """

    async def get_range(self, key: str, version: str, start: int, size: int) -> bytes:
        """Read so many bytes of a version, at least 1, from one that it has.

        Raises:
            ObjectNotFound: No such version, or it is a marker.
        """

    async def copy_part(
        self, key: str, upload_id: str, number: int, source: tuple[str, str], start: int, size: int
    ) -> Part:
        """Make a part of an upload of so many bytes of a version; none of them passes through this process.

        ``source``: key and version, which is empty for what is there now. Afterwards the part is part of the
        upload, as after ``put_part``. A second call replaces the part.

        Raises:
            ObjectNotFound: No such version, or it is a marker; nothing changed.
            UploadNotFound: Aborted or completed already.
        """

    async def delete(self, versions: Sequence[tuple[str, str]]) -> None:
        """Delete versions by key and id, markers among them, at most ``bulk_delete_max``, in one request.

        Afterwards none of them exists, for good. If one was what its key held, the key holds what lies below.
        Missing ones count as deleted, so a second call does nothing.

        Raises:
            StoreError: Some could not be deleted; the message names the first; the others are gone. Or
                there are too many; nothing changed.
        """

    def list(self, prefix: str) -> AsyncIterator[Version]:
        """Every version of every object whose key starts with the prefix. Those of a key follow one another,
        and the first is what is there now.

        Raises:
            ObjectNotFound: No such bucket.
        """


class VersionStore(Store, Protocol):
    """A store whose capabilities say that some buckets keep versions."""

    def versions(self) -> Versions:
        """The versions of the bucket. Makes no request."""
