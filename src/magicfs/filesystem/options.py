"""The arguments of ``MagicFileSystem``: its own, the wrapped filesystem's, the secret ones."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from secrets import token_hex
from typing import Any
from weakref import WeakValueDictionary

from fsspec.spec import AbstractFileSystem

from magicfs.errors import UsageError
from magicfs.protocol.hadoop_release import HadoopRelease
from magicfs.stores import resolve
from magicfs.stores.object_settings import options_of

_FSSPEC = frozenset(
    {"asynchronous", "loop", "batch_size", "use_listings_cache", "listings_expiry_time", "max_paths"}
)
_KEPT: WeakValueDictionary[str, AbstractFileSystem] = WeakValueDictionary()


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Raise UsageError, which lists the choices, for a value that is none of them."""
    if value not in choices:
        raise UsageError(f"{name}={value!r} is unknown; choose one of {', '.join(choices)}")


def release_of(hadoop: str | None, *, tracking: str, unique_names: bool) -> HadoopRelease | None:
    """The release of Hadoop that reads what is written; None if none has to.

    Raises UsageError for an unknown one, and for what a job commit of that Hadoop could not find.
    """
    if hadoop is None:
        return None
    release = HadoopRelease.of(hadoop)
    if tracking == "memory":
        raise UsageError(
            f"hadoop={hadoop!r} is for files that Hadoop has to find, and tracking='memory' records none of "
            "them in the store; leave one of the two out"
        )
    if unique_names:
        raise UsageError(
            f"hadoop={hadoop!r} is for files of Hadoop's own jobs, whose magic committer does not change "
            "file names; leave unique_names or hadoop out"
        )
    return release


def split(
    given: Mapping[str, Any], protocol: str | None, target: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Separate fsspec's options from those nested under a name of the wrapped protocol.

    ``given``: what is left of the keyword arguments. ``protocol``: the wrapped protocol; ``s3`` and ``s3a``
    are names of one. Returns options of ``AsyncFileSystem``, and all options of the wrapped filesystem.

    Raises UsageError if some option belongs to neither. fsspec would hand a flat ``endpoint_url`` to the
    wrong layer, and the request would go to the real service.
    """
    aliases = resolve.aliases(protocol or "")
    own: dict[str, Any] = {}
    merged = dict(target)
    unknown: dict[str, Any] = {}
    for name, value in given.items():
        if name in _FSSPEC:
            own[name] = value
        elif name in aliases and isinstance(value, Mapping):
            merged |= value
        else:
            unknown[name] = value
    if unknown:
        if unknown == {"anon": True} and isinstance(refused := sys.exception(), PermissionError):
            # pandas tries whatever was refused once more without credentials, and would hide why.
            raise refused
        shown = protocol or "s3"
        nested = ", ".join(f"{name!r}: …" for name in sorted(unknown))
        raise UsageError(
            f"unknown option {', '.join(sorted(unknown))} of magic; options of the wrapped filesystem are "
            f"nested: storage_options={{{shown!r}: {{{nested}}}}}"
        )
    return own, merged


def wrapped(
    fs: AbstractFileSystem | None, protocol: str | None, options: Mapping[str, Any], *, asynchronous: bool
) -> AbstractFileSystem:
    """The filesystem to wrap, given or made.

    Raises UsageError if neither or both were given, or an instance that works on another kind of loop.
    """
    if fs is not None and protocol is not None:
        raise UsageError("give either fs or target_protocol, not both")
    if fs is None and protocol is None:
        raise UsageError("magic:// wraps another filesystem; write magic+s3://bucket/key, or give fs=")
    if protocol is not None:
        extra = {"asynchronous": True} if asynchronous else {}
        return resolve.filesystem(protocol, {**options, **extra})
    assert fs is not None
    if not isinstance(fs, AbstractFileSystem):
        raise UsageError(f"fs is {type(fs).__name__}, not an fsspec filesystem")
    resolve.check(fs)
    if fs.async_impl and bool(fs.asynchronous) != asynchronous:
        raise UsageError("asynchronous must be the same for magic and the wrapped filesystem")
    return fs


def without_secrets(
    filesystem: AbstractFileSystem, kwargs: Mapping[str, Any], given: bool, allowed: bool
) -> dict[str, Any]:
    """The keyword arguments with which a pickle makes the instance again.

    ``given``: whether the wrapped one was given as an instance; it would pickle its own secrets. Raises
    UsageError if that has secrets and they are not allowed.
    """
    if allowed:
        return dict(kwargs)
    if given and (found := resolve.secrets_of(options_of(filesystem))):
        raise UsageError(
            f"the wrapped filesystem has inline secrets ({', '.join(sorted(found))}), which would be "
            "pickled with it; take them from the environment or a profile, or pass "
            "allow_secrets_in_pickles=True"
        )
    return {
        name: resolve.without_secrets(value) if isinstance(value, Mapping) else value
        for name, value in kwargs.items()
    }


def described(filesystem: AbstractFileSystem) -> dict[str, Any]:
    """What fsspec's ``from_dict`` takes, filesystems within included; no secret is in it.

    Raises UsageError for a secret that cannot be left out.
    """
    kind, protocol = type(filesystem), filesystem.protocol
    named = {"cls": f"{kind.__module__}:{kind.__name__}", "args": []}
    named["protocol"] = protocol if isinstance(protocol, str) else protocol[0]
    given = resolve.without_secrets(options_of(filesystem))
    return named | {
        name: described(value) if isinstance(value, AbstractFileSystem) else value
        for name, value in given.items()
    }


def described_by_protocol(filesystem: AbstractFileSystem) -> dict[str, Any]:
    """A wrapped filesystem as the arguments that make it, without secrets; empty if no protocol does."""
    if (protocol := resolve.protocol_of(filesystem)) is None:
        return {}
    given = resolve.without_secrets(options_of(filesystem))
    own = {name: value for name, value in given.items() if name not in {"asynchronous", "loop"}}
    return {"target_protocol": protocol, "target_options": own}


def keep_secrets(filesystem: AbstractFileSystem) -> dict[str, Any]:
    """The argument by which this process finds a filesystem's secrets again; empty if it has none."""
    if not resolve.secrets_of(options_of(filesystem)):
        return {}
    for word, kept in list(_KEPT.items()):
        if kept is filesystem:
            return {"secrets_of": word}
    word = token_hex(16)
    _KEPT[word] = filesystem
    return {"secrets_of": word}


def with_kept_secrets(target: Mapping[str, Any], word: str | None) -> dict[str, Any]:
    """Options with the secrets that belong to a word of ``keep_secrets``; as they are in other processes."""
    kept = _KEPT.get(word) if word is not None else None
    return dict(target) if kept is None else resolve.with_secrets(target, options_of(kept))
