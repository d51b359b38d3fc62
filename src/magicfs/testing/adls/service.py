"""The double as one function from a request to its answer."""

from __future__ import annotations

from email.utils import formatdate

from magicfs.testing.adls.blob_api import BlobApi
from magicfs.testing.adls.content import Content
from magicfs.testing.adls.dfs_api import DfsApi
from magicfs.testing.adls.wire import Refusal, Request
from magicfs.testing.double_server import Answer

__all__ = ["Service"]

_VERSION = "2025-11-05"


class Service:
    """All of it. ``account``: the only one that there is; who names no other key than its own is let in."""

    def __init__(self, account: str) -> None:
        self._account = account
        content = Content()
        self._blob = BlobApi(content)
        self._dfs = DfsApi(content)

    def answer(self, request: Request) -> Answer:
        """What a request is answered."""
        always = {
            "x-ms-version": _VERSION,
            "x-ms-request-id": "00000000-0000-0000-0000-000000000000",
            "Date": formatdate(usegmt=True),
        }
        try:
            self._check_access(request)
            answer = (self._dfs if request.is_dfs else self._blob).answer(request)
        except Refusal as refusal:
            answer = refusal.answer(request)
        return Answer(answer.status, answer.body, {**always, **answer.headers})

    def _check_access(self, request: Request) -> None:
        given = request.headers.get("authorization", "")
        if request.elements[0] != self._account or not given.startswith(f"SharedKey {self._account}:"):
            problem = "Server failed to authenticate the request."
            raise Refusal(403, "AuthenticationFailed", problem)
