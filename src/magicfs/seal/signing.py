"""Seals that readers can check and cannot make: Ed25519, by the package ``cryptography``."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NoReturn

from magicfs.errors import UsageError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

BEGIN: Final = b"-----BEGIN "
"""How files with keys of this kind begin."""
_ADVICE: Final = "make one with: openssl genpkey -algorithm ed25519 -out sales.pem"


class PublicKey:
    """Checks seals that the holder of the private key has made, and makes none."""

    algorithm = "ed25519"

    def __init__(self, public: Ed25519PublicKey) -> None:
        self._public = public

    @property
    def id(self) -> str:
        return hashlib.sha256(b"magicfs.seal id" + self._public.public_bytes_raw()).hexdigest()[:16]

    def made(self, message: Iterable[bytes]) -> str:  # noqa: ARG002
        raise UsageError(
            f"key {self.id} is public: it can check seals, but not make them; nothing was changed; publish "
            "with the private key, or choose a dataset of your own"
        )

    def is_right(self, message: Iterable[bytes], said: str) -> bool:
        from cryptography.exceptions import InvalidSignature

        try:
            self._public.verify(bytes.fromhex(said), _digest(message))
        except (InvalidSignature, ValueError):
            return False
        return True

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id})"

    def __reduce__(self) -> NoReturn:
        raise UsageError("a key of seals is not sent to other processes; let them read its file")


class SigningKey(PublicKey):
    """Makes seals, and checks them."""

    def __init__(self, private: Ed25519PrivateKey) -> None:
        super().__init__(private.public_key())
        self._private = private

    def made(self, message: Iterable[bytes]) -> str:
        signature: bytes = self._private.sign(_digest(message))
        return signature.hex()


def from_pem(raw: bytes, path: str) -> PublicKey:
    """The key in a PEM file, private or public. ``path``: where it lies, for errors."""
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key
    except ImportError as error:
        raise UsageError(f"{path} needs a package: pip install 'magicfs[seal]'") from error
    try:
        is_public = raw.startswith(BEGIN + b"PUBLIC ")
        found = load_pem_public_key(raw) if is_public else load_pem_private_key(raw, None)
    except (TypeError, ValueError, UnsupportedAlgorithm):
        found = None
    if isinstance(found, Ed25519PrivateKey):
        return SigningKey(found)
    if isinstance(found, Ed25519PublicKey):
        return PublicKey(found)
    raise UsageError(f"{path} holds no Ed25519 key without a password; {_ADVICE}")


def _digest(message: Iterable[bytes]) -> bytes:
    found = hashlib.sha512()
    for one in message:
        found.update(one)
    return found.digest()
