"""Signature version 4 of a request to S3, in its headers. Pure: the caller brings the clock.

As botocore's ``S3SigV4Auth`` signs; tests compare the two.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Sequence
from typing import NamedTuple, Protocol

EMPTY_SHA256 = hashlib.sha256(b"").hexdigest()
UNSIGNED_PAYLOAD = "UNSIGNED-PAYLOAD"
"""What stands in place of the hash of a body that TLS and a checksum protect."""

Header = tuple[str, str]

_ALGORITHM = "AWS4-HMAC-SHA256"


def canonical(pairs: Sequence[str]) -> str:
    """A query as it is signed, of encoded pairs; one without an equals sign gets it."""
    if len(pairs) == 1:
        return pairs[0] if "=" in pairs[0] else f"{pairs[0]}="
    # By names first: "a" comes before "a-", although "=" does not come before "-".
    return "&".join([f"{name}={value}" for name, _, value in sorted([pair.partition("=") for pair in pairs])])


class Credentials(Protocol):
    """As botocore freezes them."""

    @property
    def access_key(self) -> str:
        """Names the key; no secret."""

    @property
    def secret_key(self) -> str:
        """The secret."""

    @property
    def token(self) -> str | None:
        """Of a session; a secret, too."""


class Scope(NamedTuple):
    """What a signing key is good for, beside a day."""

    region: str
    service: str


class Signer:
    """Signs requests; the key of a day is derived once."""

    __slots__ = ("_key", "_key_of", "_second", "_stamp")

    def __init__(self) -> None:
        self._key_of: tuple[str, str, Scope] | None = None
        self._key = b""
        self._second = -1
        self._stamp = ""

    def __repr__(self) -> str:
        return "Signer()"

    def signed(
        self,
        credentials: Credentials,
        scope: Scope,
        now: float,
        method: str,
        path: str,
        query: str,
        headers: Sequence[Header],
        payload: str,
    ) -> list[Header]:
        """The headers with those that sign them.

        Args:
            credentials: Of who asks.
            scope: Region and service.
            now: Seconds since the epoch, as the store counts them.
            method: The HTTP method.
            path: Encoded as it is sent, from the root of the host.
            query: Canonical: encoded pairs, sorted, each with an equals sign.
            headers: All that are signed, ``Host`` among them; names are each given once.
            payload: The hash of the body in hexadecimal digits, or ``UNSIGNED_PAYLOAD``.
        """
        stamp = self._stamp_at(now)
        made = [*headers, ("X-Amz-Date", stamp), ("X-Amz-Content-SHA256", payload)]
        if credentials.token:
            made.append(("X-Amz-Security-Token", credentials.token))
        canonical = sorted([(name.lower(), " ".join(value.split())) for name, value in made])
        names = ";".join([name for name, _ in canonical])
        lines = "\n".join([f"{name}:{value}" for name, value in canonical])
        request = f"{method}\n{path}\n{query}\n{lines}\n\n{names}\n{payload}"
        day = stamp[:8]
        place = f"{day}/{scope.region}/{scope.service}/aws4_request"
        hashed = hashlib.sha256(request.encode()).hexdigest()
        text = f"{_ALGORITHM}\n{stamp}\n{place}\n{hashed}"
        key = self._key_for(credentials.secret_key, day, scope)
        signature = hmac.digest(key, text.encode(), "sha256").hex()
        told = f"{_ALGORITHM} Credential={credentials.access_key}/{place}, "
        made.append(("Authorization", f"{told}SignedHeaders={names}, Signature={signature}"))
        return made

    def _stamp_at(self, now: float) -> str:
        second = int(now // 1)
        if second != self._second:
            self._stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(second))
            self._second = second
        return self._stamp

    def _key_for(self, secret: str, day: str, scope: Scope) -> bytes:
        wanted = (secret, day, scope)
        if wanted != self._key_of:
            key = f"AWS4{secret}".encode()
            for text in (day, scope.region, scope.service, "aws4_request"):
                key = hmac.digest(key, text.encode(), "sha256")
            self._key, self._key_of = key, wanted
        return self._key
