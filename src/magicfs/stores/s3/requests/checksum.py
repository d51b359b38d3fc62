"""Checksums of what is sent and of what comes back, by the names that S3 gives to algorithms."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping

from magicfs.stores.checksums import crc32
from magicfs.stores.port import Body

__all__ = ["ALGORITHMS", "USUAL", "checksum", "header_of", "is_as_told"]

USUAL = "CRC32"
"""The algorithm where nobody named another, as botocore has it."""


def _crc32(body: Body) -> bytes:
    return crc32(body).to_bytes(4, "big")


def _sha1(body: Body) -> bytes:
    return hashlib.sha1(body, usedforsecurity=False).digest()


def _sha256(body: Body) -> bytes:
    return hashlib.sha256(body).digest()


ALGORITHMS: Mapping[str, Callable[[Body], bytes]] = {"CRC32": _crc32, "SHA1": _sha1, "SHA256": _sha256}
"""Those that the standard library has; the others need more than botocore does, too."""


def checksum(algorithm: str, body: Body) -> str:
    """The checksum of a body, as S3 spells it."""
    return base64.b64encode(ALGORITHMS[algorithm](body)).decode()


def header_of(algorithm: str) -> str:
    """The name of the header that carries it."""
    return f"x-amz-checksum-{algorithm.lower()}"


def is_as_told(headers: Mapping[str, str], body: Body) -> bool:
    """Whether a body that was read whole is what its checksum says; true of one without any that we know."""
    for algorithm in ALGORITHMS:
        told = headers.get(header_of(algorithm))
        # One with a dash is made of the checksums of parts.
        if told is not None and "-" not in told:
            return checksum(algorithm, body) == told
    return True
