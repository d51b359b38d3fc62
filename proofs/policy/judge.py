"""A way to an S3 server that records what is asked, and judges it as AWS evaluates a policy.

What is not allowed is denied, and a Deny counts most. ``*`` and ``?`` are wildcards, ``${*}`` is a star.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qs, unquote
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

from aiohttp import web

from magicfs.policy.aws import ACTIONS
from magicfs.testing.fault_proxy import FaultProxy

__all__ = ["Asked", "JudgingProxy", "is_allowed", "names"]

_ANSWERS: Final = {"Content-Type": "application/xml"}
_COPIES: Final = {"CopyObject": "PutObject", "UploadPartCopy": "UploadPart"}


class Asked(NamedTuple):
    """One thing that was asked: of one key, or of the bucket with a prefix."""

    operation: str
    bucket: str
    key: str  # empty for the bucket
    prefix: str | None = None  # of a listing; None without one

    @property
    def resource(self) -> str:
        """Its ARN."""
        return f"arn:aws:s3:::{self.bucket}/{self.key}" if self.key else f"arn:aws:s3:::{self.bucket}"


def is_allowed(policy: Mapping[str, Any], one: Asked, action: str) -> bool:
    """Whether a policy allows an action."""
    found = {said["Effect"] for said in policy["Statement"] if _applies(said, one, action)}
    return found == {"Allow"}


def _applies(statement: Mapping[str, Any], one: Asked, action: str) -> bool:
    return (
        any(_pattern(said).fullmatch(action) for said in statement["Action"])
        and any(_pattern(said).fullmatch(one.resource) for said in statement["Resource"])
        and all(_holds(said, keys, one.prefix) for said, keys in statement.get("Condition", {}).items())
    )


def _holds(operator: str, keys: Mapping[str, Any], prefix: str | None) -> bool:
    assert [*keys] == ["s3:prefix"], keys
    (value,) = keys.values()
    match operator:
        case "Null":
            return bool((prefix is None) == (value == "true"))
        case "StringLike":
            return prefix is not None and any(_pattern(said).fullmatch(prefix) for said in value)
    raise AssertionError(f"{operator} is not known")


@cache
def _pattern(text: str) -> re.Pattern[str]:
    """A pattern of a policy of version 2012-10-17."""
    parts = re.split(r"(\$\{[*?$]\}|[*?])", text)
    made = {"*": ".*", "?": "."}
    return re.compile(
        "".join(made.get(one, re.escape(one[2] if one.startswith("${") else one)) for one in parts), re.DOTALL
    )


class JudgingProxy(FaultProxy):
    """Forwards what a policy allows.

    Attributes:
        policy: What counts; None allows everything.
        asked: All that was asked.
        denied: What was denied, here or by the server.
        is_hasty: Whether everything is denied after that.
    """

    def __init__(self, upstream: str) -> None:
        super().__init__(upstream)
        self.policy: Mapping[str, Any] | None = None
        self.is_hasty = False
        self.asked: list[Asked] = []
        self.denied: list[Asked] = []

    def clear_log(self) -> None:
        """Forget what was asked and denied."""
        self.asked, self.denied = [], []

    async def _forward(self, arrival: Any, action: Any) -> web.StreamResponse:
        asked = [*_asked(arrival)]
        self.asked += asked
        if self.is_hasty and self.denied:
            return web.Response(status=403, headers=_ANSWERS)
        policy = self.policy
        denied = [
            one for one in asked if policy is not None and not is_allowed(policy, one, ACTIONS[one.operation])
        ]
        self.denied += denied
        if not denied and arrival.operation == "DeleteObjects":
            async with await self._ask_upstream(arrival) as upstream:
                raw = await upstream.read()
            self.denied += asked if upstream.status == 403 or b"AccessDenied" in raw else []
            return web.Response(status=upstream.status, body=raw, headers=_ANSWERS)
        if not denied:
            return await super()._forward(arrival, action)
        if arrival.operation == "DeleteObjects":
            errors = "".join(
                f"<Error><Key>{escape(one.key)}</Key><Code>AccessDenied</Code><Message>denied</Message></Error>"
                for one in denied
            )
            text = f"<DeleteResult>{errors}</DeleteResult>"
            return web.Response(status=200, text=text, headers=_ANSWERS)
        text = "<Error><Code>AccessDenied</Code><Message>denied by the policy</Message></Error>"
        return web.Response(
            status=403, text="" if arrival.request.method == "HEAD" else text, headers=_ANSWERS
        )

    def _record(self, arrival: Any, status: int | None, action: Any) -> None:
        """Before the client can know the answer."""
        if status == 403:
            self.denied += _asked(arrival)
        super()._record(arrival, status, action)


def _asked(arrival: Any) -> Iterable[Asked]:
    path, _, query = arrival.target.partition("?")
    bucket, _, raw = path.removeprefix("/").partition("/")
    key, operation = unquote(raw), arrival.operation
    if operation == "DeleteObjects":
        for one in ET.fromstring(arrival.body):  # noqa: S314 - of our own requests
            said = {child.tag.rpartition("}")[2]: child.text or "" for child in one}
            if "Key" in said:
                yield Asked("DeleteObjectVersion" if "VersionId" in said else operation, bucket, said["Key"])
        return
    if operation in _COPIES:
        source = unquote(arrival.request.headers["x-amz-copy-source"]).removeprefix("/")
        name, _, version = source.partition("/")[2].partition("?versionId=")
        yield Asked("GetObjectVersion" if version else "GetObject", bucket, name)
        operation = _COPIES[operation]
    asked = parse_qs(query, keep_blank_values=True)
    if "versionId" in asked:
        operation = {"HeadObject": "GetObjectVersion"}.get(operation, f"{operation}Version")
    yield Asked(operation, bucket, key, asked.get("prefix", [None])[0])


def names(asked: Sequence[Asked]) -> list[str]:
    """What was asked, for people."""
    return sorted({f"{one.operation} {one.key or one.prefix or ''}" for one in asked})
