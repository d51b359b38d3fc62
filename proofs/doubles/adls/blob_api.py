"""The API of the Blob service: containers and blobs. Directories are blobs that say so in their metadata."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import quote, unquote, urlsplit
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

from proofs.doubles.adls import policies
from proofs.doubles.adls.content import Container, Content, Node, check_conditions
from proofs.doubles.adls.wire import Refusal, Request, xml_answer
from proofs.doubles.double_server import Answer

__all__ = ["BlobApi", "described"]

_PAGE_MAX: Final = 5000
_DIRECTORY: Final = {"hdi_isfolder": "true"}
_SETTINGS: Final = {
    "content-type": "Content-Type",
    "content-encoding": "Content-Encoding",
    "content-language": "Content-Language",
    "content-disposition": "Content-Disposition",
    "cache-control": "Cache-Control",
    "content-md5": "Content-MD5",
}
_RANGE: Final = re.compile(r"bytes=(\d+)-(\d*)")
_NOT_IN_XML: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


class BlobApi:
    """Requests of the endpoint ``blob``."""

    def __init__(self, content: Content) -> None:
        self._content = content

    def answer(self, request: Request) -> Answer:
        """Answer a request."""
        query = request.query
        if not request.container:
            return self._account(request)
        if not request.name:
            return self._of_container(request)
        container = self._content.container(request.container)
        if query.get("comp") in policies.KEEPING:
            return policies.of_blob(container, request)
        match request.method, query.get("comp", ""):
            case "PUT", "block":
                return self._put_block(container, request)
            case "PUT", "blocklist":
                return self._put_block_list(container, request)
            case "GET", "blocklist":
                return _block_list(container, request)
            case "PUT", "metadata":
                node = _node(container, request.name)
                check_conditions(request.headers, node)
                container.check_may_go(node)
                node.metadata, node.etag = request.metadata, self._content.etag()
                return Answer(200, headers=node.headers)
            case "PUT", "":
                copies = "x-ms-copy-source" in request.headers
                return self._copy(container, request) if copies else self._put_blob(container, request)
            case "GET" | "HEAD", "":
                return _read(container, request)
            case "DELETE", "":
                return self._delete(container, request)
        raise Refusal(400, "UnsupportedQueryParameter", f"{request.method} {request.query}")

    def _account(self, request: Request) -> Answer:
        if request.query.get("restype") == "account":
            if request.headers.get("authorization", "").startswith("Bearer "):  # the usual roles may not
                raise Refusal(403, "AuthorizationPermissionMismatch", "This request is not authorized.")
            kind = {
                "x-ms-sku-name": "Standard_LRS",
                "x-ms-account-kind": "StorageV2",
                "x-ms-is-hns-enabled": "true",
            }
            return Answer(200, headers=kind)
        if request.query.get("comp") == "properties":
            return policies.of_account(self._content, request)
        if request.query.get("comp") == "list":
            prefix = request.query.get("prefix", "")
            named = (name for name in sorted(self._content.containers) if name.startswith(prefix))
            entries = "".join(
                f"<Container><Name>{name}</Name><Properties>"
                f"{_tags(self._content.containers[name].made.headers, 'Last-Modified', 'Etag')}"
                "</Properties></Container>"
                for name in named
            )
            return xml_answer(
                f"<EnumerationResults><Containers>{entries}</Containers><NextMarker/></EnumerationResults>"
            )
        raise Refusal(400, "UnsupportedQueryParameter", str(request.query))

    def _of_container(self, request: Request) -> Answer:
        match request.method, request.query.get("comp", ""):
            case "PUT", "":
                return Answer(201, headers=self._content.add(request.container).made.headers)
            case "DELETE", "":
                del self._content.containers[self._content.container(request.container).name]
                return Answer(202)
            case "GET" | "HEAD", "":
                return Answer(200, headers=self._content.container(request.container).made.headers)
            case "PUT", "double":
                return policies.of_container(self._content.container(request.container), request)
            case "GET", "list":
                return _listing(self._content.container(request.container), request)
        raise Refusal(400, "UnsupportedQueryParameter", str(request.query))

    def _put_blob(self, container: Container, request: Request) -> Answer:
        if request.headers.get("x-ms-blob-type") != "BlockBlob":
            raise Refusal(400, "InvalidHeaderValue", "Only block blobs are known here.")
        check_conditions(request.headers, container.there(request.name))
        _check_md5(request)
        made = container.write(request.name, request.body, request.metadata, _settings(request))
        return Answer(201, headers=made.headers | {"x-ms-request-server-encrypted": "true"})

    def _put_block(self, container: Container, request: Request) -> Answer:
        _check_md5(request)
        block_id = request.query.get("blockid", "")
        try:
            decoded = base64.b64decode(block_id, validate=True)
        except binascii.Error:
            raise Refusal(400, "InvalidQueryParameterValue", "The block id is not base64.") from None
        if not 1 <= len(decoded) <= 64:
            raise Refusal(400, "OutOfRangeInput", "One of the request inputs is out of range.")
        container.stage(request.name, block_id, request.body)
        return Answer(201, headers={"x-ms-request-server-encrypted": "true"})

    def _put_block_list(self, container: Container, request: Request) -> Answer:
        check_conditions(request.headers, container.there(request.name))
        try:
            listed = [(one.tag, one.text or "") for one in ET.fromstring(request.body)]  # noqa: S314 - a test's own
        except ET.ParseError:
            raise Refusal(400, "InvalidXmlDocument", "XML specified is not syntactically valid.") from None
        if any(tag not in {"Uncommitted", "Latest"} for tag, _ in listed):
            raise Refusal(400, "InvalidBlockList", "Committed blocks cannot be named again here.")
        names = [name for _, name in listed]
        made = container.commit(request.name, names, request.metadata, _settings(request))
        return Answer(201, headers=made.headers)

    def _delete(self, container: Container, request: Request) -> Answer:
        check_conditions(request.headers, container.there(request.name))
        _node(container, request.name)
        container.delete(request.name, recursive=False)
        is_gone = str(not self._content.kept_days).lower()
        return Answer(202, headers={"x-ms-delete-type-permanent": is_gone})

    def _copy(self, container: Container, request: Request) -> Answer:
        check_conditions(request.headers, container.there(request.name))
        path = urlsplit(request.headers["x-ms-copy-source"]).path
        _, _, source_container, source = path.split("/", 3)
        held = self._content.container(unquote(source_container)).file(unquote(source))
        check_conditions(request.headers, held, "x-ms-source-")
        metadata = request.metadata or held.metadata
        made = container.write(request.name, held.body, metadata, held.settings)
        told = {"x-ms-copy-id": made.etag.strip('"'), "x-ms-copy-status": "success"}
        return Answer(202, headers=made.headers | told)


def described(node: Node) -> dict[str, str]:
    """The headers of a blob, or of a directory as the Blob service shows it."""
    metadata = _DIRECTORY if node.is_directory else node.metadata
    named = {f"x-ms-meta-{name}": value for name, value in metadata.items()}
    kind = {
        "x-ms-blob-type": "BlockBlob",
        "x-ms-resource-type": "directory" if node.is_directory else "file",
        "x-ms-lease-status": "unlocked",
        "Accept-Ranges": "bytes",
    }
    return node.headers | kind | {"Content-Type": "application/octet-stream"} | node.settings | named


def _node(container: Container, path: str) -> Node:
    node = container.there(path)
    if node is None:
        raise Refusal(404, "BlobNotFound", "The specified blob does not exist.")
    return node


def _read(container: Container, request: Request) -> Answer:
    node = _node(container, request.name)
    check_conditions(request.headers, node)
    headers = described(node)
    asked = _RANGE.fullmatch(request.headers.get("x-ms-range") or request.headers.get("range", ""))
    if asked is None or request.method == "HEAD":
        return Answer(200, node.body, headers)
    start, size = int(asked[1]), len(node.body)
    end = min(int(asked[2]) + 1, size) if asked[2] else size
    if start >= size:
        raise Refusal(
            416, "InvalidRange", "The range specified is invalid for the current size of the resource."
        )
    headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
    headers.pop("Content-MD5", None)
    return Answer(206, node.body[start:end], headers)


def _block_list(container: Container, request: Request) -> Answer:
    node = container.nodes.get(request.name)
    if node is None or node.is_directory:
        raise Refusal(404, "BlobNotFound", "The specified blob does not exist.")
    wanted = request.query.get("blocklisttype", "committed")
    blocks = node.blocks if wanted in {"uncommitted", "all"} else {}
    named = "".join(
        f"<Block><Name>{name}</Name><Size>{len(body)}</Size></Block>" for name, body in blocks.items()
    )
    kinds = "<CommittedBlocks/>" if wanted in {"committed", "all"} else ""
    return xml_answer(
        f"<BlockList>{kinds}<UncommittedBlocks>{named}</UncommittedBlocks></BlockList>",
        headers=node.headers if node.is_committed else {},
    )


def _listing(container: Container, request: Request) -> Answer:
    """Names in the order of their bytes, page by page; the marker is the last name of the page before."""
    size = min(request.number("maxresults", _PAGE_MAX), _PAGE_MAX)
    marker = base64.urlsafe_b64decode(request.query.get("marker", "")).decode()
    entries: list[str] = []
    last = following = ""
    for mark, name in _marks(container, request):
        if marker and mark.encode() <= marker.encode():
            continue
        if len(entries) == size:
            following = base64.urlsafe_b64encode(last.encode()).decode()
            break
        last = mark
        metadata = "metadata" in request.query.get("include", "")
        entries.append(
            f"<BlobPrefix>{_name(mark)}</BlobPrefix>"
            if name is None
            else _entry(name, container.nodes[name], metadata=metadata)
        )
    if "deleted" in request.query.get("include", "") and not following:
        entries.append(policies.shown_deleted(container, request.query.get("prefix", "")))
    account = escape(f"{request.base_url}/{request.elements[0]}/", {'"': "&quot;"})
    return xml_answer(
        f'<EnumerationResults ServiceEndpoint="{account}" ContainerName="{container.name}">'
        f"<MaxResults>{size}</MaxResults><Blobs>{''.join(entries)}</Blobs><NextMarker>{following}</NextMarker>"
        "</EnumerationResults>"
    )


def _marks(container: Container, request: Request) -> Iterator[tuple[str, str | None]]:
    """What is listed, in order: the place of an entry, and its path unless it is a prefix."""
    prefix, delimiter = request.query.get("prefix", ""), request.query.get("delimiter", "")
    hidden = "uncommittedblobs" in request.query.get("include", "")
    found: dict[str, str | None] = {}
    for path, node in container.nodes.items():
        if not node.is_committed and not hidden:
            continue
        # With a delimiter a directory is a prefix, and no blob beside it.
        shown = f"{path}/" if node.is_directory and delimiter else path
        if not shown.startswith(prefix) or (shown == prefix and shown.endswith("/")):
            continue
        cut = shown.find(delimiter, len(prefix)) if delimiter else -1
        if cut < 0:
            found[shown] = path
        else:
            found.setdefault(shown[: cut + len(delimiter)], None)
    return iter(sorted(found.items(), key=lambda entry: entry[0].encode()))


def _entry(path: str, node: Node, *, metadata: bool) -> str:
    said = _DIRECTORY if node.is_directory else node.metadata
    shown = node.headers if node.is_committed else {"Last-Modified": node.headers["Last-Modified"]}
    kind = node.settings.get("Content-Type", "application/octet-stream") if node.is_committed else ""
    properties = (
        f"<Creation-Time>{node.headers['x-ms-creation-time']}</Creation-Time>"
        f"{_tags(shown, 'Last-Modified', 'Etag')}"
        f"<ResourceType>{'directory' if node.is_directory else 'file'}</ResourceType>"
        f"<Content-Length>{len(node.body)}</Content-Length><Content-Type>{escape(kind)}</Content-Type>"
        "<BlobType>BlockBlob</BlobType>"
    )
    named = "".join(f"<{name}>{escape(value)}</{name}>" for name, value in said.items()) if metadata else ""
    return f"<Blob>{_name(path)}<Properties>{properties}</Properties><Metadata>{named}</Metadata></Blob>"


def _tags(headers: dict[str, str], *names: str) -> str:
    lower = {name.lower(): value for name, value in headers.items()}
    return "".join(
        f"<{name}>{escape(lower[name.lower()].strip(chr(34)))}</{name}>"
        for name in names
        if name.lower() in lower
    )


def _name(path: str) -> str:
    if _NOT_IN_XML.search(path):
        return f'<Name Encoded="true">{quote(path)}</Name>'
    return f"<Name>{escape(path)}</Name>".replace("\r", "&#13;")


def _settings(request: Request) -> dict[str, str]:
    given = {
        theirs: request.headers[f"x-ms-blob-{name}"]
        for name, theirs in _SETTINGS.items()
        if request.headers.get(f"x-ms-blob-{name}")
    }
    return {"Content-Type": "application/octet-stream"} | given


def _check_md5(request: Request) -> None:
    wanted = request.headers.get("content-md5")
    found = base64.b64encode(hashlib.md5(request.body, usedforsecurity=False).digest()).decode()
    if wanted and wanted != found:
        problem = "The MD5 value specified in the request is not that of its body."
        raise Refusal(400, "Md5Mismatch", problem)
