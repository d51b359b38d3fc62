"""Requests to a bucket of S3 that magicfs sends itself."""

from __future__ import annotations

import asyncio
import hashlib
import io
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from magicfs.runtime import watchers
from magicfs.stores import checksums, object_settings
from magicfs.stores.answer_rules import DOCUMENT_BYTES_MAX, ERROR_BYTES_MAX, WORK_S, Malformed
from magicfs.stores.port import Body, PartBody
from magicfs.stores.s3.checksums import USUAL, header_of, is_as_told
from magicfs.stores.s3.http import Answer
from magicfs.stores.s3.requests import answer as answers
from magicfs.stores.s3.requests.answer import Refused
from magicfs.stores.s3.requests.line import Line, counts
from magicfs.stores.s3.requests.operation import KEY, Draft, Operation
from magicfs.stores.s3.requests.route import Route
from magicfs.stores.s3.requests.signature import EMPTY_SHA256, UNSIGNED_PAYLOAD, Header, canonical

_OFF_THE_LOOP: Final = 512 * 1024
"""Bytes of a body that is hashed beside the loop, so that other requests go on meanwhile."""

_WORKS: Final = frozenset({"CompleteMultipartUpload", "CopyObject", "UploadPartCopy"})
"""Operations in which S3 sends spaces while it works."""

_SKEW_S_MAX: Final = 86_400.0
_REGION: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_USUAL_ARGUMENTS: Final = frozenset({"Metadata", KEY})


@dataclass(frozen=True, slots=True, repr=False)
class _Kind:
    """What all requests of one operation with arguments of the same names have in common.

    A customer's key may be in it.
    """

    operation: Operation
    made: Mapping[str, Any]
    query: list[str]
    headers: list[Header]
    algorithm: str  # of the checksum of the body; empty for none
    is_checked_each_time: bool


class OwnRequests:
    """The requests of one store.

    ``extra`` is what its filesystem adds to all its requests, as far as they know it.
    """

    def __init__(self, line: Line, bucket: str, extra: Mapping[str, Any]) -> None:
        self.line = line
        self._bucket = bucket
        self._extra = extra
        self._kinds: dict[tuple[str, ...], _Kind] = {}

    async def ask(
        self, method: str, made: Mapping[str, Any], given: dict[str, Any], size_max: int | None = None
    ) -> dict[str, Any]:
        """Make the request that clients have a method for.

        ``made`` are the store's arguments for all its requests, of which the operation takes what it knows;
        ``given`` are those of this one. Returns what a client returns; of an object that is read, the first
        ``size_max`` bytes are the ``Body``. Raises ``Refused``, and ``OSError`` if there was no sensible
        answer.
        """
        from botocore.exceptions import ParamValidationError

        if method in {"copy_object", "upload_part_copy"}:
            given = _copied(given)
        try:
            kind = self._kind(method, made, given)
            draft = kind.operation.draft(given)
        except ValueError as error:
            raise ParamValidationError(report=str(error)) from None
        draft.query += kind.query
        draft.headers += kind.headers
        payload = await self._protected(kind, draft)
        route = self.line.route
        received = await self._exchange(route, kind.operation, draft, payload, size_max)
        refused = _refusal(received)
        if refused is not None and await self._learns(route, kind.operation, received, refused):
            received = await self._exchange(self.line.route, kind.operation, draft, payload, size_max)
            refused = _refusal(received)
        if refused is not None:
            raise refused
        answer = self._read(kind.operation, received, size_max)
        if method in answers.ALWAYS:
            answers.check_has(answer, method)
        return answer

    def _kind(self, method: str, made: Mapping[str, Any], given: Mapping[str, Any]) -> _Kind:
        named = (method, *given)
        kind = self._kinds.get(named)
        if kind is None or kind.made is not made:
            kind = self._kinds[named] = self._new_kind(method, made, given)
        elif kind.is_checked_each_time:
            self._check(kind.operation, given)
        if kind.operation.about_key and not given[KEY]:
            raise ValueError("a key must have a character")
        return kind

    def _new_kind(self, method: str, made: Mapping[str, Any], given: Mapping[str, Any]) -> _Kind:
        from botocore.handlers import sse_md5

        operation = self.line.operation(method)
        foreign = object_settings.foreign(made.keys() | given.keys())
        every = {**self._extra, **made}
        shared = {
            name: value
            for name, value in every.items()
            if name in operation.fields and name not in foreign and name not in given and value is not None
        }
        sse_md5(shared)
        if operation.mode and self.line.asks_sums:
            shared[operation.mode] = "ENABLED"
        if method in {"list_objects_v2", "list_object_versions"}:
            shared["EncodingType"] = "url"
        self._check(operation, {**shared, **given})
        argument, header = operation.algorithm
        algorithm = shared.get(argument, "")
        draft = operation.draft(shared)
        if argument and not algorithm and (operation.must_sum or self.line.sums):
            algorithm = USUAL
            draft.headers.append((header, USUAL))
        often = method == "create_multipart_upload" and bool(given.keys() - _USUAL_ARGUMENTS)
        return _Kind(operation, made, draft.query, draft.headers, algorithm, often)

    def _check(self, operation: Operation, arguments: Mapping[str, Any]) -> None:
        from botocore.validate import validate_parameters

        known = {name: arguments[name] for name in arguments if name in operation.shape.members}
        if operation.streams:
            known[operation.payload] = b""
        validate_parameters({**known, "Bucket": self._bucket}, operation.shape)

    async def _protected(self, kind: _Kind, draft: Draft) -> str:
        """Give a request the checksum of its body; returns the hash that is signed."""
        body = draft.body = _plain(draft.body)
        is_hashed = self._is_hashed(kind)
        if len(body) < _OFF_THE_LOOP:
            told, payload = _sums(body, kind.algorithm, is_hashed)
        else:
            told, payload = await _beside_the_loop(body, kind.algorithm, is_hashed)
        if kind.algorithm:
            draft.headers.append((header_of(kind.algorithm), told))
        return payload

    def _is_hashed(self, kind: _Kind) -> bool:
        """Whether the signature covers the body; where TLS and a checksum protect it, it need not."""
        line = self.line
        if line.route.version is None:
            return False
        if line.signs_payload is not None:
            return line.signs_payload
        return not (line.route.is_secure and kind.algorithm and kind.operation.streams)

    async def _exchange(
        self, route: Route, operation: Operation, draft: Draft, payload: str, size_max: int | None
    ) -> Answer:
        line = self.line
        method, body = operation.method, _plain(draft.body)
        path = f"{route.path}/{draft.key}" if operation.about_key else route.path or "/"
        pairs = [*operation.literal, *draft.query]
        target = f"{path}?{'&'.join(pairs)}" if pairs else path
        headers = [("Host", route.host), *route.headers, *draft.headers]
        if route.version is not None:
            credentials = await line.credentials()
            if credentials is None:
                from botocore.exceptions import NoCredentialsError

                raise NoCredentialsError
            now = line.clock() + line.skew_s
            headers = line.signer.signed(
                credentials, route.scope, now, method, path, canonical(pairs), headers, payload
            )
        headers.append(("User-Agent", f"{line.agent} {watchers.agent()}"))
        headers.append(("Accept-Encoding", "identity"))
        if body or method in {"PUT", "POST"}:
            headers.append(("Content-Length", str(len(body))))
        counts["own"] += 1
        if operation.name != "GetObject":
            # One more shows that it has too much.
            size_max = DOCUMENT_BYTES_MAX + 1
        elif size_max is not None:
            size_max = max(size_max, ERROR_BYTES_MAX)
        work_s = WORK_S if operation.name in _WORKS else 0.0
        return await line.transport.ask(
            route.address, method, target, headers, body, size_max=size_max, patience_s=work_s
        )

    async def _learns(self, route: Route, operation: Operation, received: Answer, refused: Refused) -> bool:
        """Whether an answer told what makes the request succeed: the region of the bucket, or the time."""
        line = self.line
        error = refused.response["Error"]
        code = error["Code"]
        if code == "RequestTimeTooSkewed":
            return self._learns_time(route, received)
        is_elsewhere = received.status in {301, 302, 307} or code in {
            *("PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException"),
        }
        # An answer to HEAD has no document that could say more.
        if not is_elsewhere and not (operation.method == "HEAD" and received.status == 400):
            return False
        if line.route != route:  # another request has learned it meanwhile
            return True
        region = received.headers.get("x-amz-bucket-region") or error.get("Region")
        if not region and operation.name != "HeadBucket":
            region = await self._region(route)
        if not region or not _REGION.fullmatch(region):
            return False
        line.route = await line.elsewhere(region)
        return line.route != route

    async def _region(self, route: Route) -> str:
        operation = self.line.operation("head_bucket")
        draft = operation.draft({})
        answer = await self._exchange(route, operation, draft, EMPTY_SHA256, None)
        return answer.headers.get("x-amz-bucket-region", "")

    def _learns_time(self, route: Route, received: Answer) -> bool:
        """Correct the clock, by a day at most, if nobody on the way can have written the answer.

        Who reads a request that is signed for a time to come could send it then.
        """
        moment = answers.moment(received.headers.get("date", ""))
        if moment is None or not (route.is_secure or route.is_local):
            return False
        skew = moment.timestamp() - self.line.clock()
        if abs(skew) > _SKEW_S_MAX:
            return False
        changed = abs(skew - self.line.skew_s) > 60
        self.line.skew_s = skew
        return changed

    def _read(self, operation: Operation, received: Answer, size_max: int | None) -> dict[str, Any]:
        made = answers.headers_of(operation, received.headers) | _date(operation, received)
        body = received.body
        if operation.name == "GetObject":
            if not {"content-length", "transfer-encoding"} & received.headers.keys():
                raise Malformed("nothing in the answer says where its body ends")
            is_whole = received.status == 200 and len(body) == made.get("ContentLength", -1)
            if is_whole and self.line.asks_sums and not is_as_told(received.headers, body):
                raise Malformed("the data does not match its checksum")
            made["Body"] = body if size_max is None else body[:size_max]
        elif operation.method != "HEAD":
            if len(body) > DOCUMENT_BYTES_MAX:
                raise Malformed(f"the answer has more than {DOCUMENT_BYTES_MAX:,} bytes")
            made |= answers.document_of(operation, body)
        return made


def _date(operation: Operation, received: Answer) -> dict[str, str]:
    """When the server answered a listing of uploads, by which their ages are judged."""
    return {"Date": received.headers.get("date", "")} if operation.name == "ListMultipartUploads" else {}


def _plain(body: PartBody) -> Body:
    """Content of one byte an item; that of a ``BytesIO`` is shared, not copied."""
    if isinstance(body, io.BytesIO):
        return body.getvalue()
    return body.cast("B") if isinstance(body, memoryview) and body.itemsize != 1 else body


def _refusal(received: Answer) -> Refused | None:
    if received.status < 300:
        return None
    return answers.error_of(received.status, received.body)


def _copied(given: Mapping[str, Any]) -> dict[str, Any]:
    from botocore.handlers import copy_source_sse_md5, handle_copy_source_param

    arguments = dict(given)
    handle_copy_source_param(arguments)
    copy_source_sse_md5(arguments)
    return arguments


def _sums(body: Body, algorithm: str, is_hashed: bool) -> tuple[str, str]:
    told = checksums.of_bytes(algorithm, body) if algorithm else ""
    if not is_hashed:
        return told, UNSIGNED_PAYLOAD
    return told, hashlib.sha256(body).hexdigest() if body else EMPTY_SHA256


async def _beside_the_loop(body: Body, algorithm: str, is_hashed: bool) -> tuple[str, str]:
    try:
        made = asyncio.get_running_loop().run_in_executor(None, _sums, body, algorithm, is_hashed)
    except RuntimeError:  # the interpreter ends, and starts no threads any more
        return _sums(body, algorithm, is_hashed)
    return await made
