"""The double as one function from a request to its answer."""

from __future__ import annotations

from proofs.doubles.gcs import batches
from proofs.doubles.gcs.content import Content
from proofs.doubles.gcs.inserts import Inserts
from proofs.doubles.gcs.json_api import JsonApi
from proofs.doubles.gcs.wire import Answer, Refusal, Request
from proofs.doubles.gcs.xml_api import XmlApi

__all__ = ["Service"]

_JSON = ("storage", "v1")


class Service:
    """All of it. ``token``: the only bearer token that counts; without one a request is anonymous."""

    def __init__(self, token: str) -> None:
        self._content = Content()
        self._token = token
        self._inserts = Inserts(self._content)
        self._json = JsonApi(self._content)
        self._xml = XmlApi(self._content)

    def answer(self, request: Request) -> Answer:
        """What a request is answered."""
        elements = request.elements
        is_json = tuple(elements[:2]) == _JSON or elements[0] in {"upload", "download", "batch"}
        try:
            if elements[0] == "batch":
                self._check_token(request)
                return batches.answer(request, self.answer)
            self._check_access(request, elements)
            match elements:
                case ["upload", "storage", "v1", *_]:
                    return self._inserts.answer(request)
                case ["download", "storage", "v1", *rest] | ["storage", "v1", *rest]:
                    return self._json.answer(request, rest)
            return self._xml.answer(request)
        except Refusal as refusal:
            return refusal.as_json() if is_json else refusal.as_xml()

    def _check_access(self, request: Request, elements: list[str]) -> None:
        self._check_token(request)
        place = {"storage": 3, "upload": 4, "download": 4}.get(elements[0], 0)
        bucket = self._content.buckets.get(elements[place]) if place < len(elements) else None
        if bucket is not None and bucket.is_private and "authorization" not in request.headers:
            problem = "Anonymous caller does not have storage.objects.get access to the object."
            raise Refusal(401, "required", problem, "AuthenticationRequired")
        is_in_it = len(elements) > place + 1
        if bucket is not None and bucket.bills_who_asks and is_in_it and not _payer(request):
            problem = "Bucket is a requester pays bucket but no user project provided."
            raise Refusal(400, "required", problem, "UserProjectMissing")

    def _check_token(self, request: Request) -> None:
        if request.headers.get("authorization", f"Bearer {self._token}") != f"Bearer {self._token}":
            raise Refusal(401, "authError", "Invalid Credentials", "AuthenticationRequired")


def _payer(request: Request) -> str:
    """The project that a request bills: each call of a batch names its own."""
    return request.query.get("userProject") or request.headers.get("x-goog-user-project", "")
