"""The JSON API: buckets and objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from proofs.doubles.gcs import folders, soft_delete
from proofs.doubles.gcs.content import (
    DESCRIBING,
    Bucket,
    Content,
    StoredObject,
    check_conditions,
    timestamp,
)
from proofs.doubles.gcs.download import media
from proofs.doubles.gcs.listing import objects_page
from proofs.doubles.gcs.wire import Answer, Refusal, Request, json_answer

__all__ = ["JsonApi"]

_SOURCES_MAX = 32
_CHANGEABLE = (*DESCRIBING, "temporaryHold", "eventBasedHold")


class JsonApi:
    """Everything below ``/storage/v1``."""

    def __init__(self, content: Content) -> None:
        self._content = content

    def answer(self, request: Request, elements: list[str]) -> Answer:
        """Answer a request; ``elements`` follow ``/storage/v1/``."""
        match request.method, elements:
            case "POST", ["b"]:
                document = request.document()
                bucket = self._content.add_bucket(str(document.pop("name", "")), document)
                return json_answer(_bucket(bucket))
            case "GET", ["b"]:
                return json_answer({"kind": "storage#buckets", "items": self._buckets()})
            case method, ["b", name]:
                return self._bucket(method, self._content.bucket(name), request)
            case "GET", ["b", name, "storageLayout"]:
                return json_answer(_layout(self._content.bucket(name)))
            case _, ["b", name, "folders", *rest]:
                return folders.answer(self._content, self._content.bucket(name), rest, request)
            case "GET", ["b", name, "operations", number]:
                return json_answer(self._content.bucket(name).operation(number))
            case "GET", ["b", name, "o", *rest] if soft_delete.is_asked_for(request):
                return json_answer(
                    soft_delete.answer(self._content, self._content.bucket(name), rest, request)
                )
            case "POST", ["b", name, "o", *rest, "restore"]:
                return json_answer(
                    soft_delete.answer(self._content, self._content.bucket(name), [*rest, "restore"], request)
                )
            case "GET", ["b", name, "o"]:
                return json_answer(objects_page(self._content.bucket(name), request))
            case method, ["b", name, "o", key]:
                return self._object(method, self._content.bucket(name), key, request)
            case "POST", ["b", name, "o", key, "compose"]:
                return self._compose(self._content.bucket(name), key, request)
            case "POST", ["b", name, "o", key, "moveTo", "o", other]:
                bucket = self._content.bucket(name)
                made = self._content.move(bucket, key, other, request.query)
                return json_answer(made.described(name, request.base_url))
            case "POST", ["b", name, "o", key, "rewriteTo" | "copyTo" as how, "b", to, "o", other]:
                made = self._copy(self._content.bucket(name), key, self._content.bucket(to), other, request)
                resource = made.described(to, request.base_url)
                return json_answer(resource if how == "copyTo" else _rewritten(made, resource))
        raise Refusal(404, "notFound", "Not Found")

    def _buckets(self) -> list[dict[str, Any]]:
        return [_bucket(self._content.buckets[name]) for name in sorted(self._content.buckets)]

    def _bucket(self, method: str, bucket: Bucket, request: Request) -> Answer:
        match method:
            case "GET":
                return json_answer(_bucket(bucket))
            case "PATCH":
                bucket.resource |= request.document()
                return json_answer(_bucket(bucket))
            case "DELETE":
                self._content.remove_bucket(bucket.name)
                return Answer(204)
        raise Refusal(405, "methodNotAllowed", "Method not allowed")

    def _object(self, method: str, bucket: Bucket, key: str, request: Request) -> Answer:
        if method == "DELETE":
            self._content.remove(bucket, key, request.query)
            return Answer(204)
        held = bucket.found(key, request.query.get("generation"))
        check_conditions(request.query, held)
        if method in {"PATCH", "PUT"}:
            self._change(held, request.document(), whole=method == "PUT")
        elif method != "GET":
            raise Refusal(405, "methodNotAllowed", "Method not allowed")
        elif request.query.get("alt") == "media":
            return media(held, request)
        return json_answer(held.described(bucket.name, request.base_url))

    def _change(self, held: StoredObject, document: Mapping[str, Any], *, whole: bool) -> None:
        metadata = {} if whole else dict(held.resource.get("metadata", {}))
        metadata |= document.get("metadata") or {}
        changes = {name: document[name] for name in _CHANGEABLE if name in document}
        kept = {name: value for name, value in (held.resource | changes).items() if value is not None}
        kept["metadata"] = {name: value for name, value in metadata.items() if value is not None}
        held.resource = kept
        held.metageneration += 1
        held.updated = self._content.now()

    def _compose(self, bucket: Bucket, key: str, request: Request) -> Answer:
        document = request.document()
        sources = document.get("sourceObjects", [])
        if not 1 <= len(sources) <= _SOURCES_MAX:
            raise Refusal(400, "invalid", "The number of source components must be between 1 and 32.")
        found = []
        for source in sources:
            generation = source.get("generation")
            held = bucket.found(source["name"], None if generation is None else str(generation))
            wanted = source.get("objectPreconditions", {}).get("ifGenerationMatch")
            check_conditions({} if wanted is None else {"ifGenerationMatch": str(wanted)}, held)
            found.append(held)
        made = self._content.write(
            bucket,
            key,
            b"".join(held.body for held in found),
            document.get("destination", {}),
            request.query,
            has_md5=False,
            components=sum(held.components or 1 for held in found),
        )
        return json_answer(made.described(bucket.name, request.base_url))

    def _copy(self, source: Bucket, key: str, to: Bucket, other: str, request: Request) -> StoredObject:
        held = source.found(key, request.query.get("sourceGeneration"))
        check_conditions(request.query, held, "ifSource")
        document = request.document()
        resource = held.resource | document if document else held.resource
        resource = {name: value for name, value in resource.items() if not name.endswith("Hold")}
        return self._content.write(
            to, other, held.body, resource, request.query, has_md5=bool(held.md5), components=held.components
        )


def _rewritten(made: StoredObject, resource: Mapping[str, Any]) -> dict[str, Any]:
    size = str(len(made.body))
    return {
        "kind": "storage#rewriteResponse",
        "totalBytesRewritten": size,
        "objectSize": size,
        "done": True,
        "resource": resource,
    }


def _bucket(bucket: Bucket) -> dict[str, Any]:
    created = timestamp(bucket.created)
    return {
        "kind": "storage#bucket",
        "id": bucket.name,
        "name": bucket.name,
        "metageneration": "1",
        "timeCreated": created,
        "updated": created,
    } | bucket.resource


def _layout(bucket: Bucket) -> dict[str, Any]:
    return {
        "kind": "storage#storageLayout",
        "bucket": bucket.name,
        "location": bucket.resource["location"],
        "locationType": bucket.resource["locationType"],
        "hierarchicalNamespace": {"enabled": bucket.is_hierarchical},
    }
