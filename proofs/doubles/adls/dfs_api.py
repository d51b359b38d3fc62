"""The API of Azure Data Lake Storage: filesystems, directories and files, and their renames."""

from __future__ import annotations

import base64
import datetime as dt
from typing import Final
from urllib.parse import unquote

from proofs.doubles.adls.blob_api import described
from proofs.doubles.adls.content import Container, Content, Node, check_conditions
from proofs.doubles.adls.wire import Refusal, Request, json_answer
from proofs.doubles.double_server import Answer

__all__ = ["DfsApi"]

_PAGE_MAX: Final = 5000
_PERMISSIONS: Final = {
    "x-ms-owner": "$superuser",
    "x-ms-group": "$superuser",
    "x-ms-permissions": "rwxr-x---",
}


class DfsApi:
    """Requests of the endpoint ``dfs``."""

    def __init__(self, content: Content) -> None:
        self._content = content

    def answer(self, request: Request) -> Answer:
        """Answer a request."""
        container = self._container(request.container)
        match request.method, request.query.get("resource", ""), request.query.get("action", ""):
            case "GET", "filesystem", "":
                return _paths(container, request)
            case "PUT", _, "":
                return self._create(container, request)
            case "PATCH", "", "append":
                return _append(container, request)
            case "PATCH", "", "flush":
                return self._flush(container, request)
            case "HEAD", "", action:
                node = _node(container, request.name) if request.name else container.made
                return Answer(200, headers=described(node) | (_PERMISSIONS if action else {}))
            case "DELETE", "", "":
                _node(container, request.name)
                check_conditions(request.headers, container.there(request.name))
                container.delete(request.name, recursive=request.query.get("recursive") == "true")
                return Answer(200)
        raise Refusal(400, "InvalidQueryParameterValue", f"{request.method} {request.query}")

    def _container(self, name: str) -> Container:
        if name not in self._content.containers:
            raise Refusal(404, "FilesystemNotFound", "The specified filesystem does not exist.")
        return self._content.containers[name]

    def _create(self, container: Container, request: Request) -> Answer:
        if (source := request.headers.get("x-ms-rename-source")) is not None:
            return self._rename(container, request, source.partition("?")[0])
        held = container.there(request.name)
        if held is not None and request.headers.get("if-none-match") == "*":
            raise Refusal(409, "PathAlreadyExists", "The specified path already exists.")
        check_conditions(request.headers, held)
        if request.query.get("resource") == "directory":
            return Answer(201, headers=container.make_directory(request.name).headers)
        made = container.write(request.name, b"", {}, {"Content-Type": "application/octet-stream"})
        return Answer(201, headers=made.headers)

    def _rename(self, container: Container, request: Request, source: str) -> Answer:
        _, of, path = unquote(source).split("/", 2)
        if of != container.name:
            raise Refusal(400, "InvalidRenameSourcePath", "Another filesystem is not known here.")
        held = container.there(path)
        check_conditions(request.headers, held, "x-ms-source-")
        if request.headers.get("if-match"):
            check_conditions({"if-match": request.headers["if-match"]}, container.there(request.name))
        if_absent = request.headers.get("if-none-match") == "*"
        return Answer(201, headers=container.rename(path, request.name, if_absent=if_absent).headers)

    def _flush(self, container: Container, request: Request) -> Answer:
        node = _node(container, request.name)
        container.check_may_go(node)
        if request.number("position", 0) != len(node.body) + len(node.tail):
            problem = "The position is not equal to the length of the file after appending data."
            raise Refusal(400, "InvalidFlushPosition", problem)
        node.body, node.tail, node.etag = node.body + node.tail, b"", self._content.etag()
        return Answer(200, headers=node.headers)


def _append(container: Container, request: Request) -> Answer:
    node = _node(container, request.name)
    if request.number("position", 0) != len(node.body) + len(node.tail):
        raise Refusal(400, "InvalidQueryParameterValue", "Data is taken here in the order of its positions.")
    node.tail += request.body
    return Answer(202)


def _node(container: Container, path: str) -> Node:
    node = container.there(path)
    if node is None:
        raise Refusal(404, "PathNotFound", "The specified path does not exist.")
    return node


def _paths(container: Container, request: Request) -> Answer:
    directory = request.query.get("directory", "").strip("/")
    if directory and not _node(container, directory).is_directory:
        raise Refusal(404, "PathNotFound", "The specified path is no directory.")
    found = (
        container.below(directory)
        if request.query.get("recursive") == "true"
        else container.children(directory)
    )
    names = sorted(name for name in found if container.there(name) is not None)
    after = base64.urlsafe_b64decode(request.query.get("continuation", "")).decode()
    size = min(request.number("maxResults", _PAGE_MAX), _PAGE_MAX)
    left = [name for name in names if name > after]
    headers = {}
    if len(left) > size:
        headers["x-ms-continuation"] = base64.urlsafe_b64encode(left[size - 1].encode()).decode()
    return json_answer(
        {"paths": [_path(name, container.nodes[name]) for name in left[:size]]}, headers=headers
    )


def _path(name: str, node: Node) -> dict[str, str]:
    moment = dt.datetime.fromtimestamp(node.modified, dt.UTC)
    found = {
        "name": name,
        "contentLength": str(len(node.body)),
        "etag": node.etag.strip('"'),
        "lastModified": moment.strftime("%a, %d %b %Y %H:%M:%S GMT"),
        "owner": "$superuser",
        "group": "$superuser",
        "permissions": "rwxr-x---",
    }
    return found | ({"isDirectory": "true"} if node.is_directory else {})
