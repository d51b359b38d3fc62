"""Requests and answers, apart from the server that carries them, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from xml.sax.saxutils import escape

from proofs.doubles import double_server
from proofs.doubles.double_server import Answer

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


class Request(double_server.Request):
    """A request of either API."""

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
