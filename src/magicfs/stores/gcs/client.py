"""Requests to Google Cloud Storage with the credentials of a user's own ``gcsfs.GCSFileSystem``.

Each request is sent once: repeating is ours (``stores.retrying``). gcsfs's own requests are made again for
up to a minute, and hide whether an answer was lost.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import weakref
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from magicfs.errors import Unavailable
from magicfs.runtime import watchers
from magicfs.stores.answer_rules import DOCUMENT_BYTES_MAX, ERROR_BYTES_MAX, Malformed, deadline_s
from magicfs.stores.gcs import errors
from magicfs.stores.gcs.errors import Answer
from magicfs.stores.undocumented import log_missing, read, send_once, warn_of_exposure

if TYPE_CHECKING:
    import aiohttp
    from gcsfs.core import GCSFileSystem

CONNECTIONS = 64
"""Most connections at once, unless the filesystem's ``session_kwargs`` bring a connector of their own."""

CALLS_MAX = 100
"""Calls that one request takes (Google's reference, "Batch requests")."""

_ANSWER_BYTES_MAX = 2**20
_NUMBER = re.compile(r"[0-9]{1,3}")
_STATUS = re.compile(rb"[2-5][0-9]{2}")
_SILENCE_S = 60.0
_RENEWED_BEFORE = timedelta(seconds=300)
_PIECE = 256 * 1024
_PLACE = "_magicfs_session"


@dataclass(frozen=True, slots=True)
class GcsClient:
    """How a store makes requests."""

    filesystem: GCSFileSystem

    @property
    def location(self) -> str:
        """Where requests go: by an option, by the environment, or Google's own."""
        return str(self.filesystem.base).removesuffix("/storage/v1/").rstrip("/")

    async def ask(
        self,
        operation: str,
        path: str,
        method: str,
        target: str,
        *,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        size_max: int | None = None,
        accepts: int = 0,
    ) -> Answer:
        """Make one request; raises the port's errors, in which ``path`` names what it is about.

        ``size_max``: how much is read of the body of a success, where that is no document. ``accepts``: a
        status that is returned, although it is none of success.

        ``target`` is a path of the endpoint, encoded; the XML API is what lies outside of Google's own names.
        """
        from yarl import URL

        query = dict(params or {})
        sent = {"Accept-Encoding": "identity", "User-Agent": watchers.agent(), **(headers or {})}
        self._bill(query, sent, is_json="/storage/v1" in target)
        url = URL(f"{self.location}{target}", encoded=True)
        with errors.translated(operation, path):
            session = await self._session()
            await self._authorise(sent)
            if body is not None:
                sent["Content-Length"] = str(len(body))
            request = session.request(
                method,
                url.update_query(query) if query else url,
                headers=sent,
                data=None if body is None else _pieces(body),
                timeout=self._timeout(),
                allow_redirects=False,
            )
            async with asyncio.timeout(self._head_s(body)) as head, request as response:
                head.reschedule(None)  # the body is watched while it is read
                allowed = DOCUMENT_BYTES_MAX + 1 if size_max is None else size_max
                most = allowed if response.status < 300 else ERROR_BYTES_MAX
                content = await read(response.content, most, _SILENCE_S)
                if size_max is None and len(content) == allowed:
                    raise Malformed(f"the answer has more than {DOCUMENT_BYTES_MAX:,} bytes")
                answer = Answer(response.status, response.headers, content)
        if answer.status != accepts:
            errors.check(answer, operation, path)
        return answer

    @property
    def payer(self) -> str:
        """The project that pays for requests; empty for the bucket's own."""
        payer = self.filesystem.requester_pays
        return str((payer if isinstance(payer, str) else self.filesystem.project if payer else "") or "")

    def _bill(self, query: dict[str, str], headers: dict[str, str], *, is_json: bool) -> None:
        """Name who pays, as the filesystem was told; each of the two APIs has a way of its own."""
        if payer := self.payer:
            if is_json:
                query["userProject"] = payer
            else:
                headers["x-goog-user-project"] = payer

    async def _authorise(self, headers: dict[str, str]) -> None:
        known = self.filesystem.credentials
        if known.credentials is None:
            return  # anonymous
        if not _stay_valid(known.credentials):
            with errors.renewing():
                before_s = int(_RENEWED_BEFORE.total_seconds())
                await asyncio.to_thread(known.maybe_refresh, before_s)  # it waits for an answer
        known.credentials.apply(headers)

    def _head_s(self, body: bytes | None) -> float | None:
        """How long it may take until the headers of the answer are there; None if the filesystem says."""
        if self.filesystem.requests_timeout is not None:
            return None
        return deadline_s(_SILENCE_S, 0 if body is None else len(body))

    def _timeout(self) -> aiohttp.ClientTimeout:
        import aiohttp

        given = self.filesystem.requests_timeout
        if isinstance(given, aiohttp.ClientTimeout):
            return given
        return aiohttp.ClientTimeout(total=given, sock_connect=_SILENCE_S, sock_read=_SILENCE_S)

    async def _session(self) -> aiohttp.ClientSession:
        """A session of the filesystem's own arguments, which lives and ends with it."""
        import aiohttp

        filesystem = self.filesystem
        if (found := filesystem.__dict__.get(_PLACE)) is not None:
            return found  # type: ignore[no-any-return]
        has_credentials = filesystem.credentials.credentials is not None
        warn_of_exposure(self.location, has_credentials=has_credentials)
        own = filesystem.session_kwargs
        if "connector" in own or getattr(filesystem, "_use_client_cert", False):
            # Certificates of clients, and connections that others own, are the filesystem's affair.
            if (make := getattr(filesystem, "_set_session", None)) is not None:
                return await make()  # type: ignore[no-any-return]
            log_missing("gcsfs's GCSFileSystem._set_session", "connections are made without a certificate")
            own = {"connector_owner": "connector" not in own, **own}
        connector = aiohttp.TCPConnector(limit=CONNECTIONS) if "connector" not in own else own["connector"]
        made = aiohttp.ClientSession(auto_decompress=False, **{**own, "connector": connector})
        send_once(made)
        filesystem.__dict__[_PLACE] = made
        weakref.finalize(filesystem, filesystem.close_session, filesystem.loop, made, filesystem.asynchronous)
        return made


@dataclass(frozen=True, slots=True)
class GcsBucket(GcsClient):
    """Requests about one bucket. Keys are raw text; the port's errors name them."""

    bucket: str

    @property
    def root(self) -> str:
        """Where the JSON API has the bucket."""
        return f"/storage/v1/b/{quote(self.bucket)}"

    def object(self, key: str) -> str:
        """Where it has an object."""
        return f"{self.root}/o/{quote(key, safe='')}"

    def path(self, key: str) -> str:
        """What messages call a key."""
        return f"{self.bucket}/{key}"

    def reading(self, operation: str, key: str) -> AbstractContextManager[None]:
        """Raise Unavailable where an answer does not say what answers to such a request say."""
        return errors.reading(operation, self.path(key))

    async def about(self, operation: str, key: str, method: str, target: str, **how: Any) -> Answer:
        """As ``ask``."""
        return await self.ask(operation, self.path(key), method, target, **how)

    async def document(
        self, operation: str, key: str, method: str, target: str, kind: str = "", **how: Any
    ) -> dict[str, Any]:
        """What an answer says in JSON; ``kind`` is which kind of resource it must be."""
        answer = await self.about(operation, key, method, target, **how)
        return errors.document(answer, operation, self.path(key), kind)

    async def delete(self, operation: str, objects: Sequence[tuple[str, str]]) -> list[Answer]:
        """Delete up to a hundred objects in one request; returns the answer for each.

        Of each its key and its generation, which is empty for whatever is there.
        """
        boundary = f"magicfs-{secrets.token_hex(16)}"
        calls = "".join(
            f"--{boundary}\r\nContent-Type: application/http\r\nContent-ID: <{number}>\r\n\r\n"
            f"DELETE {self._deletion(*one)} HTTP/1.1\r\n\r\n\r\n"
            for number, one in enumerate(objects)
        )
        first, _ = objects[0]
        headers = {"Content-Type": f"multipart/mixed; boundary={boundary}"}
        body = f"{calls}--{boundary}--\r\n".encode()
        how = {"headers": headers, "body": body, "size_max": _ANSWER_BYTES_MAX}
        answer = await self.about(operation, first, "POST", "/batch/storage/v1", **how)
        with self.reading(operation, first):
            found = _answers(answer)
        if sorted(found) != list(range(len(objects))):
            problem = f"{len(found)} of {len(objects)} calls of a batch were answered"
            raise Unavailable(operation, self.path(first), problem)
        return [found[number] for number in range(len(objects))]

    def _deletion(self, key: str, generation: str) -> str:
        # Each call is billed by itself; what the batch says of it does not count.
        asked = {"ifGenerationMatch": generation, "userProject": self.payer}
        query = urlencode({name: value for name, value in asked.items() if value})
        return f"{self.object(key)}{'?' if query else ''}{query}"


def following(document: Mapping[str, str]) -> dict[str, str] | None:
    """Where the next page of a listing begins."""
    token = document.get("nextPageToken")
    return {"pageToken": token} if token else None


def _stay_valid(credentials: Any) -> bool:
    """Whether credentials of google-auth are good for a while."""
    if not credentials.valid:
        return False
    expiry = credentials.expiry
    return expiry is None or expiry.replace(tzinfo=UTC) - datetime.now(UTC) > _RENEWED_BEFORE


async def _pieces(body: bytes) -> AsyncIterator[memoryview]:
    """A body a little at a time, so that no other request waits while a large one is sent."""
    view = memoryview(body)
    for start in range(0, len(view), _PIECE):
        yield view[start : start + _PIECE]


def _answers(answer: Answer) -> dict[int, Answer]:
    """By the number of their call."""
    kind = answer.headers.get("Content-Type", "")
    message = message_from_bytes(f"Content-Type: {kind}\r\n\r\n".encode() + answer.content)
    found = {}
    for part in message.get_payload() if message.is_multipart() else ():
        number = str(part.get("Content-ID", "")).strip("<>").removeprefix("response-")  # type: ignore[union-attr]
        body = part.get_payload(decode=True)  # type: ignore[union-attr]
        if not _NUMBER.fullmatch(number) or not isinstance(body, bytes):
            continue
        line, _, rest = body.replace(b"\r\n", b"\n").partition(b"\n")
        status = line.split(b" ")[1] if line.startswith(b"HTTP/") else b""
        if _STATUS.fullmatch(status):
            found[int(number)] = Answer(int(status), {}, rest.partition(b"\n\n")[2])
    return found
