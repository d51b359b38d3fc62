"""From a URL or a filesystem to the store behind it. The only place that knows the stores by name."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from magicfs.errors import UsageError
from magicfs.stores import fork_safety
from magicfs.stores.port import Store

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from fsspec import AbstractFileSystem

__all__ = [
    "PLAIN_SCHEMES",
    "SCHEMES",
    "aliases",
    "check",
    "filesystem",
    "loop_of",
    "open_store",
    "options_of",
    "protocol_of",
    "secrets_of",
    "with_secrets",
    "without_secrets",
]

SCHEMES = frozenset({"s3", "s3a", "memory"})
"""Schemes of the filesystems that can delay an upload, and so can be wrapped."""

PLAIN_SCHEMES = frozenset({"file", "local"})
"""Schemes of filesystems that cannot, but have a store: for committers that delay nothing."""

_ALIASES = (frozenset({"s3", "s3a"}), frozenset({"memory"}), PLAIN_SCHEMES)
# Keys of customer-provided encryption.
_IRREPLACEABLE = frozenset({"SSECustomerKey", "CopySourceSSECustomerKey"})
# Options of s3fs that carry a secret, those that it hands on to its client included.
_SECRETS = _IRREPLACEABLE | {
    *("key", "secret", "token", "username", "password", "session"),
    *("aws_access_key_id", "aws_secret_access_key", "aws_session_token"),
}


def filesystem(protocol: str, options: Mapping[str, Any]) -> AbstractFileSystem:
    """The fsspec filesystem of a protocol that has a store; ``check`` says whether it can delay an upload.

    Raises UsageError if the protocol has no store here, or its package is missing.
    """
    if protocol == "memory":
        from magicfs.stores.memory_filesystem import MemoryFileSystem

        return MemoryFileSystem(**options)
    if protocol in PLAIN_SCHEMES:
        from fsspec.implementations.local import LocalFileSystem

        # As on a store: a directory is there when something is written below it.
        return LocalFileSystem(**{"auto_mkdir": True, **options})
    if protocol not in SCHEMES:
        raise _cannot_delay(protocol)
    import fsspec

    try:
        return fsspec.filesystem(protocol, **options)
    except ImportError as error:
        raise UsageError(
            f"{protocol}:// needs a package that is not installed; pip install 'magicfs[s3]'"
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
    if "s3" in _protocols(filesystem):
        from magicfs.stores.retrying import RetryingStore
        from magicfs.stores.s3 import S3Store
        from magicfs.stores.s3_client import retries_of, without_retries

        sibling = without_retries(filesystem, options_of(filesystem))
        return RetryingStore(S3Store(sibling, bucket), retries=retries_of(filesystem))
    if PLAIN_SCHEMES & set(_protocols(filesystem)):
        from magicfs.stores.local import LocalStore

        return LocalStore(bucket)
    raise _cannot_delay(_protocols(filesystem)[0])


def loop_of(filesystem: AbstractFileSystem) -> AbstractEventLoop:
    """The loop on which the store behind a filesystem works: its own, or fsspec's where it has none."""
    from fsspec.asyn import get_loop

    loop: AbstractEventLoop = filesystem.loop if filesystem.async_impl else get_loop()
    return loop


def check(filesystem: AbstractFileSystem) -> None:
    """Raise UsageError for a filesystem that cannot delay an upload, by its name."""
    protocols = _protocols(filesystem)
    if "magic" in protocols:
        raise UsageError("this filesystem is magic's already; wrap the one that it wraps, its attribute fs")
    if not callable(getattr(filesystem, "store", None)) and "s3" not in protocols:
        raise _cannot_delay(protocols[0])


def aliases(protocol: str) -> frozenset[str]:
    """All names of a protocol."""
    return next((names for names in _ALIASES if protocol in names), frozenset({protocol}))


def options_of(filesystem: AbstractFileSystem) -> dict[str, Any]:
    """Everything that a filesystem was made with, by name, what was given by position included."""
    names = list(inspect.signature(type(filesystem).__init__).parameters)[1:]
    return {**dict(zip(names, filesystem.storage_args, strict=False)), **filesystem.storage_options}


def secrets_of(options: Mapping[str, Any]) -> frozenset[str]:
    """The names among the options, nested ones included, that carry a secret."""
    found = {name for name, value in options.items() if name in _SECRETS and value is not None}
    for value in options.values():
        if isinstance(value, Mapping):
            found |= secrets_of(value)
    return frozenset(found)


def without_secrets(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that may be written down: endpoint, region, addressing, but no credentials.

    Raises UsageError if one of them cannot be left out: without its key, data would be written in the clear.
    """
    if found := secrets_of(options) & _IRREPLACEABLE:
        raise UsageError(
            f"{', '.join(sorted(found))} is a secret that no other process can find by itself; set the "
            "encryption of the bucket instead, or pass allow_secrets_in_pickles=True to MagicFileSystem"
        )
    return {
        name: without_secrets(value) if isinstance(value, Mapping) else value
        for name, value in options.items()
        if name not in _SECRETS
    }


def with_secrets(options: Mapping[str, Any], source: Mapping[str, Any]) -> dict[str, Any]:
    """The options, with every secret that the source has: the reverse of ``without_secrets``."""
    filled = dict(options)
    for name, value in source.items():
        if name in _SECRETS:
            filled[name] = value
        elif isinstance(value, Mapping) and secrets_of(value):
            filled[name] = with_secrets(filled.get(name, {}), value)
    return filled


def protocol_of(filesystem: AbstractFileSystem) -> str | None:
    """The protocol of which ``filesystem()`` makes one of the same class; None if there is none."""
    protocol = _protocols(filesystem)[0]
    if protocol not in SCHEMES:
        return None
    if protocol == "memory":
        from magicfs.stores.memory_filesystem import MemoryFileSystem

        return protocol if type(filesystem) is MemoryFileSystem else None
    import fsspec

    return protocol if type(filesystem) is fsspec.get_filesystem_class(protocol) else None


def _protocols(filesystem: AbstractFileSystem) -> tuple[str, ...]:
    protocol = filesystem.protocol
    return (protocol,) if isinstance(protocol, str) else tuple(protocol)


def _cannot_delay(protocol: str) -> UsageError:
    if protocol == "memory":
        return UsageError(
            "fsspec's own memory filesystem has no uploads that could be delayed; use magicfs's, with "
            "target_protocol='memory' or a URL magic::memory://…"
        )
    return UsageError(
        f"the filesystem {protocol!r} cannot delay an upload; magicfs works on {', '.join(sorted(SCHEMES))}"
    )
