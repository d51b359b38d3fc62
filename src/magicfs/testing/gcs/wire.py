"""Requests and answers, apart from the server that carries them, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote
from xml.sax.saxutils import escape

__all__ = ["NAMESPACE", "Answer", "Refusal", "Request", "json_answer", "xml_answer"]

NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"
"""Of the documents of the XML API, which shares it with S3."""

_XML_CODES = {
    "conditionNotMet": "PreconditionFailed",
    "authError": "AuthenticationRequired",
    "forbidden": "AccessDenied",
    "retentionPolicyNotMet": "AccessDenied",
    "objectUnderActiveHold": "AccessDenied",
    "invalid": "InvalidArgument",
}


@dataclass(frozen=True, slots=True)
class Request:
    """One request; header names are in lower case, the path is as it travelled."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    base_url: str

    @classmethod
    def of(cls, method: str, target: str, headers: Mapping[str, str], body: bytes, base_url: str) -> Request:
        """A request from its line, headers and body."""
        path, _, query = target.partition("?")
        lower = {name.lower(): value for name, value in headers.items()}
        return cls(method, path, dict(parse_qsl(query, keep_blank_values=True)), lower, body, base_url)

    @property
    def elements(self) -> list[str]:
        """The elements of the path; a slash within an element travels as %2F."""
        return [unquote(element) for element in self.path.split("/")[1:]]

    def document(self) -> dict[str, Any]:
        """The JSON object in the body; an empty body is an empty one."""
        try:
            found = json.loads(self.body) if self.body else {}
        except ValueError:
            raise Refusal(400, "parseError", "Parse Error") from None
        if not isinstance(found, dict):
            raise Refusal(400, "parseError", "Parse Error")
        return found

    def number(self, name: str, default: int) -> int:
        """A number of the query."""
        text = self.query.get(name, str(default))
        if not text.isdecimal():
            raise Refusal(400, "invalid", f"Invalid value for {name}: {text}")
        return int(text)


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


class Refusal(Exception):
    """A request that is answered with an error: HTTP status, the reason of the JSON API, a sentence.

    ``code``: what the XML API says instead, where that differs.
    """

    def __init__(self, status: int, reason: str, message: str, code: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message
        self.code = code or _XML_CODES.get(reason, reason)

    def as_json(self) -> Answer:
        """The answer of the JSON API."""
        entry = {"message": self.message, "domain": "global", "reason": self.reason}
        return json_answer(
            {"error": {"code": self.status, "message": self.message, "errors": [entry]}}, self.status
        )

    def as_xml(self) -> Answer:
        """The answer of the XML API."""
        return xml_answer(
            f"<Error><Code>{escape(self.code)}</Code><Message>{escape(self.message)}</Message></Error>",
            self.status,
        )


def json_answer(document: Mapping[str, Any], status: int = 200) -> Answer:
    """An answer that is a JSON document."""
    return Answer(status, json.dumps(document).encode(), {"Content-Type": "application/json; charset=UTF-8"})


def xml_answer(document: str, status: int = 200) -> Answer:
    """An answer that is an XML document."""
    body = f"<?xml version='1.0' encoding='UTF-8'?>{document}"
    return Answer(status, body.encode(), {"Content-Type": "application/xml; charset=UTF-8"})
