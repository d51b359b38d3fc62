"""From a URL or a filesystem to the store behind it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from magicfs.errors import UsageError
from magicfs.protocol.paths import Location, redacted
from magicfs.runtime import fork_safety
from magicfs.stores import backends
from magicfs.stores.backends import (
    BACKENDS,
    IRREPLACEABLE,
    Backend,
    has_secret_name,
    is_secret,
    without_password,
)
from magicfs.stores.port import Store

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from fsspec import AbstractFileSystem

__all__ = [
    "SCHEMES",
    "advice_for",
    "aliases",
    "chains_with_slash",
    "check",
    "check_leads",
    "filesystem",
    "fsspec_opens",
    "has_buckets",
    "is_unchanged",
    "loop_of",
    "open_store",
    "protocol_of",
    "protocols",
    "redacted",
    "scheme_has_buckets",
    "secrets_of",
    "with_secrets",
    "without_secrets",
]

SCHEMES = frozenset[str]().union(*(one.schemes for one in BACKENDS))
"""Schemes of the filesystems that have a store, and so can be wrapped."""


def filesystem(protocol: str, options: Mapping[str, Any]) -> AbstractFileSystem:
    """The fsspec filesystem of a protocol that has a store; ``check`` says whether it can delay an upload.

    Raises UsageError if the protocol has no store here, or its package is missing.
    """
    backend = backends.of_scheme(protocol)
    if backend is None:
        raise _cannot_delay(protocol)
    try:
        return backend.make(protocol, options)
    except ImportError as error:
        raise UsageError(
            f"{protocol}:// needs a package that is not installed; pip install 'magicfs[{backend.extra}]'"
        ) from error


def open_store(filesystem: AbstractFileSystem, bucket: str) -> Store:
    """The store of one bucket behind a filesystem; UsageError if it has none here.

    On S3 its requests are repeated as ``stores.retrying.RETRIES`` says; of the filesystem's own options only
    ``config_kwargs={"retries": {"total_max_attempts": …}}`` changes that. On local files nothing is repeated.
    """
    fork_safety.keep_inherited_filesystems()
    if callable(maker := getattr(filesystem, "store", None)):
        store: Store = maker(bucket)
        return store
    names = protocols(filesystem)
    backend = _backend(names)
    # FSSpec's own memory filesystem has objects of its own kind.
    if backend is None or backend is backends.MEMORY:
        raise _cannot_delay(names[0])
    return backend.open(filesystem, bucket)


def is_unchanged(path: str, etag: str) -> bool:
    """Whether a file of this machine has the size and the date of its ETag; a backup restores these alone."""
    from magicfs.stores.local import files as local_files

    now = local_files.info_of("", Path(path).stat()).etag
    return now.partition("-")[2] == etag.partition("-")[2]


def loop_of(filesystem: AbstractFileSystem) -> AbstractEventLoop:
    """The loop on which the store behind a filesystem works: its own, or fsspec's where it has none."""
    from fsspec.asyn import get_loop

    loop: AbstractEventLoop = filesystem.loop if filesystem.async_impl else get_loop()
    return loop


def check(filesystem: AbstractFileSystem) -> None:
    """Raise UsageError for a filesystem that cannot delay an upload, by its name."""
    names = protocols(filesystem)
    if "magic" in names:
        raise UsageError("this filesystem is magic's already; wrap the one that it wraps, its attribute fs")
    backend = _backend(names)
    has_store = backend is not None and backend is not backends.MEMORY
    if not has_store and not callable(getattr(filesystem, "store", None)):
        raise _cannot_delay(names[0])


def aliases(protocol: str) -> frozenset[str]:
    """All names of a protocol."""
    backend = backends.of_scheme(protocol)
    return frozenset({protocol}) if backend is None else backend.schemes


def scheme_has_buckets(scheme: str) -> bool:
    """Whether the first element of a path is a bucket; True for an unknown scheme."""
    backend = backends.of_scheme(scheme)
    return backend is None or backend.has_buckets


def check_leads(location: Location, filesystem: AbstractFileSystem) -> None:
    """Raise UsageError for a URL of files of this machine and a filesystem of buckets, or the reverse."""
    if bool(location.bucket) != has_buckets(filesystem):
        raise UsageError(
            f"{location.url} does not lead to where the filesystem {protocols(filesystem)[0]!r} is; write "
            "the URL of the store that it reaches, such as s3://bucket/sales, or leave filesystem out"
        )


def fsspec_opens(scheme: str) -> bool:
    """Whether fsspec opens URLs of a scheme by the filesystem of the store.

    Its own memory filesystem is another one than ours, with other objects.
    """
    return backends.of_scheme(scheme) is not backends.MEMORY


def has_buckets(filesystem: AbstractFileSystem) -> bool:
    """As ``scheme_has_buckets``, for a filesystem."""
    backend = _backend(protocols(filesystem))
    return backend is None or backend.has_buckets


def chains_with_slash(filesystem: AbstractFileSystem) -> bool:
    """Whether the paths that fsspec takes out of chained URLs begin with a slash before the bucket.

    It takes ``magic::memory://bucket/a`` apart by its own memory filesystem, whose root is a slash.
    """
    return _backend(protocols(filesystem)) is backends.MEMORY


def secrets_of(options: Mapping[str, Any], where: str = "") -> frozenset[str]:
    """The names among the options, nested ones included, that carry a secret.

    One that does by its value, such as a URL with a password, is named with ``where`` it stands.
    """
    found: set[str] = set()
    for name, value in options.items():
        if is_secret(name, value):
            found.add(name if has_secret_name(name) else f"{where}{name}")
        elif isinstance(value, Mapping):
            found |= secrets_of(value, f"{where}{name}.")
    return frozenset(found)


def without_secrets(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that may be written down: endpoint, region, addressing, but no credentials.

    A URL with a password loses only that, so that requests go the same way.

    Raises UsageError if one of them cannot be left out: without its key, data would be written in the clear.
    """
    if found := secrets_of(options) & IRREPLACEABLE:
        raise UsageError(
            f"{', '.join(sorted(found))} is a secret that no other process can find by itself; set the "
            "encryption of the bucket instead, or pass allow_secrets_in_pickles=True to MagicFileSystem"
        )
    plain: dict[str, Any] = {}
    for name, value in options.items():
        if not is_secret(name, value):
            plain[name] = without_secrets(value) if isinstance(value, Mapping) else value
        elif not has_secret_name(name) and (rest := without_password(value)) is not None:
            plain[name] = rest
    return plain


def advice_for(secrets: Collection[str]) -> str:
    """Where a command finds secrets of these names, if not on its command line."""
    found = [one.advice for one in BACKENDS if one.advice and one.secrets & set(secrets)]
    if any(not has_secret_name(name) for name in secrets):
        found.append(
            "set a URL with a password in the environment: HTTPS_PROXY, HTTP_PROXY, AWS_ENDPOINT_URL or "
            "FSSPEC_S3"
        )
    return "; ".join(found)


def with_secrets(options: Mapping[str, Any], source: Mapping[str, Any]) -> dict[str, Any]:
    """The options, with every secret that the source has: the reverse of ``without_secrets``."""
    filled = dict(options)
    for name, value in source.items():
        if is_secret(name, value):
            filled[name] = value
        elif isinstance(value, Mapping) and secrets_of(value):
            filled[name] = with_secrets(filled.get(name, {}), value)
    return filled


def protocol_of(filesystem: AbstractFileSystem) -> str | None:
    """The protocol of which ``filesystem()`` makes one of the same class; None if there is none."""
    protocol = protocols(filesystem)[0]
    if protocol not in SCHEMES:
        return None
    if protocol == "memory":
        from magicfs.stores.memory.filesystem import MemoryFileSystem

        return protocol if type(filesystem) is MemoryFileSystem else None
    backend = backends.of_scheme(protocol)
    return protocol if backend is not None and type(filesystem) in backend.classes(protocol) else None


def protocols(filesystem: AbstractFileSystem) -> tuple[str, ...]:
    """All names by which a filesystem calls itself."""
    protocol = filesystem.protocol
    return (protocol,) if isinstance(protocol, str) else tuple(protocol)


def _backend(names: tuple[str, ...]) -> Backend | None:
    """The kind of store of a filesystem that has all these names."""
    return next((one for one in BACKENDS if one.schemes & set(names)), None)


def _cannot_delay(protocol: str) -> UsageError:
    if protocol == "memory":
        return UsageError(
            "fsspec's own memory filesystem has no uploads that could be delayed; use magicfs's, with "
            "target_protocol='memory' or a URL magic::memory://…"
        )
    return UsageError(
        f"the filesystem {protocol!r} cannot delay an upload; magicfs works on {', '.join(sorted(SCHEMES))}"
    )
