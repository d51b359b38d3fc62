"""Keys that seal: read from a file, the environment or a key service, and never written anywhere."""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Callable, Iterable
from os import PathLike
from pathlib import Path
from typing import Final, NoReturn, Protocol

from magicfs.errors import UsageError
from magicfs.seal.signing import BEGIN, from_pem

KEY_MIN: Final = 32
"""Bytes of the shortest key."""
_KEY_MAX: Final = 4096
_DIGITS: Final = 16
_ADVICE: Final = "make one with: openssl rand -hex 32 > sales.key"


class SealingKey(Protocol):
    """What makes and checks seals."""

    algorithm: str
    """The member of a seal that holds what ``made`` returns."""

    @property
    def id(self) -> str:
        """16 hexadecimal digits that name the key and show nothing of it."""

    def made(self, message: Iterable[bytes]) -> str:
        """The seal of a message, in hexadecimal digits. Raises UsageError if the key can only check."""

    def is_right(self, message: Iterable[bytes], said: str) -> bool:
        """Whether a seal is that of the message."""


class Key:
    """A key that makes and checks seals by HMAC-SHA256. It cannot be pickled, and shows only its id.

    Args:
        secret: 32 bytes or more, or a function that returns them, such as one that asks a key service. It is
            called once, when the key is first used.
    """

    algorithm = "hmac"

    def __init__(self, secret: bytes | Callable[[], bytes]) -> None:
        self._given = secret if callable(secret) else _checked(secret)
        self._id = ""

    @property
    def id(self) -> str:
        self._secret()
        return self._id

    def made(self, message: Iterable[bytes]) -> str:
        found = hmac.new(self._secret(), digestmod=hashlib.sha256)
        for one in message:
            found.update(one)
        return found.hexdigest()

    def is_right(self, message: Iterable[bytes], said: str) -> bool:
        return hmac.compare_digest(self.made(message), said)

    def _secret(self) -> bytes:
        secret = self._given
        if callable(secret):
            secret = self._given = _checked(secret())
        self._id = self._id or hmac.digest(secret, b"magicfs.seal id", "sha256").hex()[:_DIGITS]
        return secret

    def __repr__(self) -> str:
        return f"Key({self._id or 'not asked for yet'})"

    def __reduce__(self) -> NoReturn:
        raise UsageError("a key that seals is not sent to other processes; give it to drivers and operators")


def from_file(path: str | PathLike[str]) -> SealingKey:
    """The key in a file: its bytes, without white space at the ends.

    A PEM file holds an Ed25519 key. With the public one, readers can check seals, but not make them.
    """
    try:
        with Path(path).open("rb") as file:
            raw = file.read(_KEY_MAX + 1)
    except OSError as error:
        raise UsageError(f"the key file cannot be read: {error}; {_ADVICE}") from error
    if len(raw) > _KEY_MAX:
        raise UsageError(f"{os.fspath(path)} is larger than {_KEY_MAX} bytes, so it is not a key; {_ADVICE}")
    return from_pem(raw, os.fspath(path)) if raw.startswith(BEGIN) else Key(raw.strip())


def from_environment(name: str) -> Key:
    """The key in a variable, which is removed: processes that this one starts do not inherit it."""
    found = os.environ.get(name)
    if found is None:
        raise UsageError(f"the variable {name} is not set; set it to the key, or name a file")
    key = Key(found.strip().encode())
    del os.environ[name]
    return key


def _checked(secret: object) -> bytes:
    if not isinstance(secret, bytes) or len(secret) < KEY_MIN:
        what = f"{len(secret)} bytes" if isinstance(secret, bytes) else f"a {type(secret).__name__}"
        raise UsageError(f"a key has {KEY_MIN} bytes or more, and this is {what}; {_ADVICE}")
    return secret
