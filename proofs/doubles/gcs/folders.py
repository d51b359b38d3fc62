"""Folders of buckets with a hierarchical namespace."""

from __future__ import annotations

import secrets
from typing import Any

from proofs.doubles.gcs.content import Bucket, Content, timestamp
from proofs.doubles.gcs.wire import Answer, Refusal, Request, json_answer

__all__ = ["answer"]

_PAGE_MAX = 1000


def answer(content: Content, bucket: Bucket, rest: list[str], request: Request) -> Answer:
    """Answer a request below ``/b/BUCKET/folders``."""
    if not bucket.is_hierarchical:
        problem = "The bucket does not support hierarchical namespace."
        raise Refusal(409, "mode", problem)
    match request.method, rest:
        case "GET", []:
            return json_answer(_page(bucket, request))
        case "POST", []:
            name = _folder(str(request.document().get("name", "")))
            return json_answer(_insert(content, bucket, name, request))
        case "GET", [name]:
            return json_answer(_described(bucket, _there(bucket, name)))
        case "DELETE", [name]:
            _remove(bucket, _there(bucket, name))
            return Answer(204)
        case "POST", [source, "renameTo", "folders", destination]:
            return json_answer(_rename(content, bucket, _there(bucket, source), _folder(destination)))
    raise Refusal(404, "notFound", "Not Found")


def _insert(content: Content, bucket: Bucket, name: str, request: Request) -> dict[str, Any]:
    if name in bucket.folders:
        raise Refusal(409, "mode", "The folder already exists.")
    if request.query.get("recursive") != "true":
        _check_parent(bucket, name)
    bucket.add_parents(name, content.now())
    return _described(bucket, name)


def _remove(bucket: Bucket, name: str) -> None:
    below = [one for one in (*bucket.objects, *bucket.folders) if one.startswith(name) and one != name]
    if below:
        raise Refusal(409, "mode", "The folder you tried to delete is not empty.")
    del bucket.folders[name]


def _rename(content: Content, bucket: Bucket, source: str, destination: str) -> dict[str, Any]:
    """In one step: all objects and folders below get other names, and no object gets another generation."""
    if destination.startswith(source):
        raise Refusal(400, "invalid", "A folder cannot be renamed into itself.")
    if destination in bucket.folders:
        raise Refusal(409, "mode", "The destination folder already exists.")
    _check_parent(bucket, destination)
    below = [name for name in bucket.objects if name.startswith(source)]
    for name in below:
        content.check_may_go(bucket, bucket.objects[name])
    for name in below:
        held = bucket.objects.pop(name)
        held.name = destination + name[len(source) :]
        bucket.objects[held.name] = held
    for name in [name for name in bucket.folders if name.startswith(source)]:
        bucket.folders[destination + name[len(source) :]] = bucket.folders.pop(name)
    number = secrets.token_hex(8)
    operation = {"kind": "storage#operation", "name": f"projects/_/buckets/{bucket.name}/operations/{number}"}
    bucket.operations[number] = operation | {"done": True, "response": _described(bucket, destination)}
    return operation | {"done": False}  # as for many objects


def _page(bucket: Bucket, request: Request) -> dict[str, Any]:
    prefix, after = request.query.get("prefix", ""), request.query.get("pageToken", "")
    size = min(request.number("pageSize", _PAGE_MAX), _PAGE_MAX)
    names = sorted(name for name in bucket.folders if name.startswith(prefix) and name > after)
    page: dict[str, Any] = {"kind": "storage#folders"}
    if names:
        page["items"] = [_described(bucket, name) for name in names[:size]]
    return page | ({"nextPageToken": names[size - 1]} if len(names) > size else {})


def _described(bucket: Bucket, name: str) -> dict[str, Any]:
    created = timestamp(bucket.folders[name])
    return {
        "kind": "storage#folder",
        "id": f"{bucket.name}/{name}",
        "bucket": bucket.name,
        "name": name,
        "metageneration": "1",
        "createTime": created,
        "updateTime": created,
    }


def _folder(name: str) -> str:
    if not name.strip("/"):
        raise Refusal(400, "invalid", "Invalid folder name")
    return name if name.endswith("/") else f"{name}/"


def _there(bucket: Bucket, name: str) -> str:
    folder = _folder(name)
    if folder not in bucket.folders:
        raise Refusal(404, "notFound", "The folder does not exist.")
    return folder


def _check_parent(bucket: Bucket, name: str) -> None:
    parent = name[: name.rstrip("/").rfind("/") + 1]
    if parent and parent not in bucket.folders:
        raise Refusal(409, "mode", "The parent folder does not exist.")
