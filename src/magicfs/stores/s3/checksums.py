"""Checksums of what is sent to S3 and of what comes back, by the names that S3 gives to algorithms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from magicfs.errors import PreconditionFailed
from magicfs.stores import checksums
from magicfs.stores.port import Body, Checksums

USUAL = "CRC32"
"""The algorithm where nobody named another, as botocore has it."""


ALGORITHMS: Final = ("CRC32", "SHA1", "SHA256")
"""Those that the standard library has; the others need more than botocore does, too."""


def header_of(algorithm: str) -> str:
    """The name of the header that carries it."""
    return f"x-amz-checksum-{algorithm.lower()}"


def is_as_told(headers: Mapping[str, str], body: Body) -> bool:
    """Whether a body that was read whole is what its checksum says; true of one without any that we know."""
    for algorithm in ALGORITHMS:
        told = headers.get(header_of(algorithm))
        # One with a dash is made of the checksums of parts.
        if told is not None and "-" not in told:
            return checksums.of_bytes(algorithm, body) == told
    return True


def of_part(wanted: Checksums, answer: Mapping[str, Any]) -> tuple[str, str] | None:
    """The checksum of a part that completing its upload needs again; None without one.

    Answers carry a checksum that botocore added by itself, too; only an upload that was opened with an
    algorithm must be completed with the checksums of its parts.
    """
    algorithm = wanted.of_parts
    value = answer.get(f"Checksum{algorithm}")
    return (algorithm, value) if algorithm and value else None


def known(options: Mapping[str, Any]) -> Checksums:
    """Which checksums a store knows, given what is added to its requests."""
    named = options.get("ChecksumAlgorithm") or None
    return Checksums(("CRC64NVME",), of_put=named or USUAL, of_parts=named)


def of_object(path: str, answer: Mapping[str, Any], etag: str) -> Mapping[str, str]:
    """What an answer to HEAD says of all bytes of an object, by algorithm.

    Raises PreconditionFailed for one of a server that does not know the condition.
    """
    if answer.get("ETag", etag) != etag:
        raise PreconditionFailed("checksums", path, f"no object of ETag {etag} is there")
    # Without a kind those of uploads are made of the checksums of parts.
    kind = answer.get("ChecksumType", "COMPOSITE" if "-" in etag else "FULL_OBJECT")
    if kind != "FULL_OBJECT":
        return {}
    told = {name: answer.get(f"Checksum{name}", "") for name in checksums.MADE}
    return {name: value for name, value in told.items() if value and "-" not in value}
