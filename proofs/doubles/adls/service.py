"""The double as one function from a request to its answer."""

from __future__ import annotations

from email.utils import formatdate

from proofs.doubles.adls.blob_api import BlobApi
from proofs.doubles.adls.content import Content
from proofs.doubles.adls.dfs_api import DfsApi
from proofs.doubles.adls.wire import Refusal, Request
from proofs.doubles.double_server import Answer

__all__ = ["Service"]

_VERSION = "2025-11-05"


class Service:
    """All of it. ``account``: the only one that there is. Who names its key, comes with a SAS token or bears
    the ``token`` is let in.
    """

    def __init__(self, account: str, token: str) -> None:
        self._account = account
        self._token = token
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
        if request.elements[0] != self._account or not self._is_let_in(request):
            problem = "Server failed to authenticate the request."
            raise Refusal(403, "AuthenticationFailed", problem)

    def _is_let_in(self, request: Request) -> bool:
        given = request.headers.get("authorization", "")
        if given:
            return given.startswith(f"SharedKey {self._account}:") or given == f"Bearer {self._token}"
        # What is renamed needs the token, too.
        source = request.headers.get("x-ms-rename-source", "?sig=")
        return bool(request.query.get("sig")) and "sig=" in source.partition("?")[2]
