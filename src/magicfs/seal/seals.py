"""Which records are sealed, and what a seal says: the last member of the record's one JSON object.

::

    {…, "seal":{"key":"<id>","count":<n>,"hmac":"<64 digits>"}}

The seal is made of the bytes before it with a brace behind them, of the kind of the record, its place, and a
count that grows. Readers without a key meet one more field that they do not know.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from magicfs.errors import SealBroken
from magicfs.formats import limits
from magicfs.seal.keys import SealingKey

SEAL_MAX: Final = 512
"""Most bytes that a seal adds to a record."""
FIELD: Final = "seal"
_SEAL: Final = re.compile(
    rb',"seal":\{"key":"([0-9a-f]{16})","count":(0|[1-9][0-9]{0,15}),"([a-z0-9]{4,16})":"([0-9a-f]{64,256})"\}\}\Z'
)
_VERSION: Final = r"(?:\.[0-9]{5,9})?\.json"
_JOB: Final = r"__magic(?:_job-[^/]+)?/job-[^/]+"
_KINDS: Final = re.compile(
    rf"(?:.*/)?(?:(?P<job>{_JOB}/job{_VERSION})|(?P<job_location>{_JOB}/job-location\.json)"
    rf"|(?P<pointer>_magicfs/current{_VERSION})|(?P<tag>_magicfs/\.tags/[^/]+)"
    r"|(?P<registration>_magicfs/\.catalogs/[^/]+)|(?P<alias>_magicfs/\.alias\.json)"
    r"|(?P<manifest>_magicfs/[^/.][^/]*\.json))",
    re.DOTALL,
)
_LIMITS: Final = {
    "job": limits.JOB_OBJECT_SIZE_LIMIT,
    "job location": limits.JOB_LOCATION_SIZE_LIMIT,
    "pointer": limits.POINTER_SIZE_LIMIT,
    "tag": limits.TAG_SIZE_LIMIT,
    "registration": limits.REGISTRATION_SIZE_LIMIT,
    "alias": limits.REGISTRATION_SIZE_LIMIT,
    "manifest": limits.MANIFEST_SIZE_LIMIT,
}
"""Of the kinds that are sealed. What these name by its SHA-256 needs no seal of its own."""


def kind_of(key: str) -> str | None:
    """What kind of sealed record lies at a key; None if what lies there is not sealed."""
    found = _KINDS.fullmatch(key)
    return None if found is None or found.lastgroup is None else found.lastgroup.replace("_", " ")


@dataclass(frozen=True, slots=True)
class Opened:
    """What is under a seal, which is right."""

    body: bytes
    count: int
    key: str
    """The id of the key."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a sealed record belongs.

    Attributes:
        path: Where it lies, for errors.
        kind: What ``kind_of`` says.
        dataset: The name under which its dataset is sealed.
        relative: Its key, relative to that dataset.
    """

    path: str
    kind: str
    dataset: str
    relative: str

    def sealed(self, body: bytes, count: int, key: SealingKey) -> bytes:
        """A record with its seal. Raises UsageError if nobody would read it."""
        if not body.endswith(b"}") or len(body) < 3:
            raise self.broken("only a JSON object with members can be sealed")
        made = key.made(self._message(body, count, key.id))
        seal = f',"seal":{{"key":"{key.id}","count":{count},"{key.algorithm}":"{made}"}}}}'.encode()
        what = f"the sealed {self.kind} {self.path}"
        return limits.within(
            body[:-1] + seal, _LIMITS[self.kind], what, "publish fewer files", value_limit=2**62
        )

    def opened(self, raw: bytes, keys: Sequence[SealingKey]) -> Opened:
        """What is under the seal of a record. Raises SealBroken if no key has sealed it there."""
        found = _SEAL.search(raw, max(0, len(raw) - SEAL_MAX))
        if found is None:
            raise self.broken(
                "is not sealed, and this process has the key of its dataset; if a process of yours without "
                "the key wrote it, let that end its job, then run magicfs seal URL --accept; else remove it"
            )
        named, count, algorithm, said = (one.decode() for one in found.groups())
        key = next((one for one in keys if one.id == named), None)
        if key is None:
            have = ", ".join(one.id for one in keys)
            raise self.broken(f"is sealed with key {named}, and this process has {have}; give that key, too")
        body = raw[: found.start()] + b"}"
        message = self._message(body, int(count), named)
        if algorithm != key.algorithm or not key.is_right(message, said):
            raise self.broken(
                "its seal is wrong: it was altered, or comes from another place; find out who wrote it, and "
                "restore it; if the dataset was moved here, give the name that it was sealed under"
            )
        return Opened(body, int(count), named)

    def broken(self, problem: str) -> SealBroken:
        """The error for this record."""
        return SealBroken(self.path, FIELD, f"{problem}; nothing of it was carried out")

    def _message(self, body: bytes, count: int, key: str) -> Iterator[bytes]:
        """Each part with its length before it, so that no two records have one message."""
        head = (b"magicfs seal 1", self.kind.encode(), self.dataset.encode(), self.relative.encode())
        for one in (*head, str(count).encode(), key.encode(), body):
            yield len(one).to_bytes(8, "big")
            yield one
