"""Requests to the double, its answers, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote
from xml.sax.saxutils import escape

from proofs.doubles import double_server
from proofs.doubles.double_server import Answer

__all__ = ["Refusal", "Request", "json_answer", "xml_answer"]

_OF_DFS = ("resource", "action", "recursive", "mode")


class Request(double_server.Request):
    """A request of either API. The first element of its path is the account, the second the container."""

    @property
    def container(self) -> str:
        """The container; empty for a request to the account."""
        return self.elements[1] if len(self.elements) > 1 else ""

    @property
    def name(self) -> str:
        """What lies in the container; empty for a request to the container itself."""
        _, _, _, *rest = [*self.path.split("/", 3), ""]
        return unquote(rest[0]).strip("/")

    @property
    def is_dfs(self) -> bool:
        """Whether it is meant for the endpoint ``dfs``, which is this one, too."""
        return self.method == "PATCH" or any(name in self.query for name in _OF_DFS)

    @property
    def metadata(self) -> dict[str, str]:
        """User metadata."""
        return {
            name.removeprefix("x-ms-meta-"): value
            for name, value in self.headers.items()
            if name.startswith("x-ms-meta-")
        }

    def number(self, name: str, default: int) -> int:
        """A number of the query."""
        text = self.query.get(name, "") or str(default)
        if not text.isdecimal():
            raise Refusal(400, "InvalidQueryParameterValue", f"{name} is no number: {text}")
        return int(text)


class Refusal(Exception):
    """A request that is answered with an error: HTTP status, code, a sentence."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message

    def answer(self, request: Request) -> Answer:
        """The answer, as the API of the request writes it."""
        headers = {"x-ms-error-code": self.code}
        if request.is_dfs:
            code = "PathImmutableDueToPolicy" if self.code.startswith("BlobImmutable") else self.code
            document = {"error": {"code": code, "message": self.message}}
            return json_answer(document, self.status, {"x-ms-error-code": code})
        text = f"<Error><Code>{self.code}</Code><Message>{escape(self.message)}</Message></Error>"
        return xml_answer(text, self.status, headers)


def json_answer(
    document: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None
) -> Answer:
    """An answer that is a JSON document."""
    kind = {"Content-Type": "application/json;charset=utf-8"}
    return Answer(status, json.dumps(document).encode(), kind | dict(headers or {}))


def xml_answer(document: str, status: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
    """An answer that is an XML document."""
    body = f'<?xml version="1.0" encoding="utf-8"?>{document}'.encode()
    return Answer(status, body, {"Content-Type": "application/xml"} | dict(headers or {}))
