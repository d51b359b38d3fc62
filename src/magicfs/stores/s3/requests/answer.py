"""Answers of S3, read into what botocore's clients return of them, as far as ``S3Store`` looks at it."""

from __future__ import annotations

import datetime as dt
import http.client
import re
from collections.abc import Callable, Iterable, Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Final
from urllib.parse import unquote_plus
from xml.etree import ElementTree as ET

from magicfs.stores.answer_rules import Malformed, number, root_of, words
from magicfs.stores.s3.requests.operation import Operation, Reading

_KEPT: Final = frozenset({"Code", "Message", "Region"})
"""Of an error. The rest may quote the request, and who signed it."""


_Read = dict[str, Any]
_SPACE: Final = rb"[ \t\r\n]*+"
_TEXT: Final = rb"[ -%'-;=?-~]*+(?:&(?:#34|quot);[ -%'-;=?-~]*+)*+"
_USUAL: Final = re.compile(
    rb'<\?xml version="1\.0" encoding="UTF-8"\?>%b'
    rb'<(CompleteMultipartUploadResult|InitiateMultipartUploadResult)(?: xmlns="[ !#-%%\'-;=?-~]*")?>'
    rb"(?:%b<([A-Za-z]\w*)>%b</\2>)*+%b</\1>%b" % (_SPACE, _SPACE, _TEXT, _SPACE, _SPACE),
    re.ASCII,
)
"""Whole documents of which each member is told by its text: ASCII, with the quotes of an ETag."""
_MEMBER: Final = re.compile(rb"<(\w+)>([^<]*)<", re.ASCII)


class Refused(Exception):
    """The store answered that it did not do it.

    Attributes:
        response: As that of botocore's ``ClientError``.
    """

    def __init__(self, status: int, error: Mapping[str, str]) -> None:
        super().__init__(f"{status} {words(error.get('Code', ''))}".strip())
        self.response: dict[str, Any] = {"Error": error, "ResponseMetadata": {"HTTPStatusCode": status}}


def error_of(status: int, body: bytes) -> Refused:
    """The error of an answer; without a document that tells more, of its status alone."""
    try:
        root = root_of(body)
    except Malformed:
        root = ET.Element("")
    found = next((one for one in (root, *root) if _name(one) == "Error"), root)
    error: dict[str, str] = {name: text for name, text in _texts(found).items() if name in _KEPT}
    if not error.get("Code"):
        error = {"Message": http.client.responses.get(status, ""), **error, "Code": str(status)}
    return Refused(status, error)


def headers_of(operation: Operation, headers: Mapping[str, str]) -> dict[str, Any]:
    """What the headers of an answer say, by the names of the service model."""
    made: dict[str, Any] = {}
    readings, prefix = operation.readings, operation.metadata
    for name, value in headers.items():
        if (reading := readings.get(name)) is not None:
            _read(made, reading, value)
        elif prefix and name.startswith(prefix):
            made.setdefault("Metadata", {})[name[len(prefix) :]] = value
    return made


def document_of(operation: Operation, body: bytes) -> dict[str, Any]:
    """What the document of an answer of 200 says.

    Raises ``Refused`` if it is that of an error, ``Malformed`` if it is not that of the operation.
    """
    if not body and operation.name not in _READERS:
        return {}
    if (plain := _PLAIN.get(operation.name)) and (usual := _USUAL.fullmatch(body)) and usual[1] == plain:
        return {member.decode(): _plain(text) for member, text in _MEMBER.findall(body)}
    root = root_of(body)
    if _name(root) == "Error":
        raise error_of(500, body)
    if _name(root) not in (names := root_names(operation.name)):
        expected = f"a document {names[0]}" if names else "empty"
        raise Malformed(f"the answer must be {expected}, and it is {words(_name(root))}")
    return _READERS[operation.name][1](root)


def root_names(operation: str) -> tuple[str, ...]:
    """What the document of an answer may be called; empty if an answer has none."""
    if operation not in _READERS:
        return ()
    name = _READERS[operation][0]
    return (name, *_BY_OTHERS.get(name, ()))


def check_has(answer: Mapping[str, Any], method: str) -> None:
    """Raise ``Malformed`` for an answer, whoever read it, that lacks what each one to a method has."""
    for name in ALWAYS.get(method, ()):
        if answer.get(name, "") == "":
            raise Malformed(f"the answer has no {name}")


def _read(made: dict[str, Any], reading: Reading, value: str) -> None:
    name, kind = reading
    if kind in {"string", "blob"}:
        made[name] = value
    elif kind in {"long", "integer"}:
        made[name] = number(value, name)
    elif kind == "boolean":
        made[name] = value.lower() == "true"
    elif kind == "timestamp":
        if (found := moment(value)) is not None:
            made[name] = found
        elif name != "Expires":  # of which users write anything
            raise Malformed(f"the answer's {name} is {value[:40]!r}")


def moment(text: str) -> dt.datetime | None:
    """A time as answers write it; None for what is none."""
    try:
        found = dt.datetime.fromisoformat(text) if text[:4].isdigit() else parsedate_to_datetime(text)
        return found if found.tzinfo is not None else found.replace(tzinfo=dt.UTC)
    except (ValueError, ArithmeticError, LookupError, TypeError):
        return None


def _plain(text: bytes) -> str:
    """The text of a member of a usual document."""
    return text.replace(b"&#34;", b'"').replace(b"&quot;", b'"').decode()


def _name(element: ET.Element) -> str:
    return element.tag.rpartition("}")[2]


def _texts(element: ET.Element) -> _Read:
    return {child.tag.rpartition("}")[2]: child.text or "" for child in element}


def _copied(member: str) -> Callable[[ET.Element], _Read]:
    return lambda root: {member: _texts(root)}


def _objects(root: ET.Element) -> _Read:
    made: dict[str, Any] = {}
    contents, prefixes = [], []
    for child in root:
        match _name(child):
            case "Contents":
                contents.append(_texts(child))
            case "CommonPrefixes":
                prefixes.append(_texts(child))
            case name:
                made[name] = child.text or ""
    if made.get("EncodingType") == "url":
        _decode(contents, "Key")
        _decode(prefixes, "Prefix")
    for entry in contents:
        entry["Size"] = number(entry.get("Size"), "size")
        _date(entry, "LastModified")
    return {
        "Contents": contents,
        "CommonPrefixes": prefixes,
        **_going_on(made, "NextContinuationToken"),
    }


def _going_on(made: Mapping[str, str], *names: str) -> _Read:
    """Whether a listing has another page, and what it is asked for by."""
    following = {name: made[name] for name in names if made.get(name)}
    return {"IsTruncated": made.get("IsTruncated") == "true", **following}


def _uploads(root: ET.Element) -> _Read:
    uploads = [_texts(child) for child in root if _name(child) == "Upload"]
    for upload, child in zip(uploads, root.iterfind("{*}Upload"), strict=True):
        _date(upload, "Initiated")
        upload["Initiator"] = _texts(found) if (found := child.find("{*}Initiator")) is not None else {}
    return {"Uploads": uploads, **_going_on(_texts(root), "NextKeyMarker", "NextUploadIdMarker")}


def _parts(root: ET.Element) -> _Read:
    parts = [_texts(child) for child in root.iterfind("{*}Part")]
    for part in parts:
        part["Size"] = number(part.get("Size"), "size")
        _date(part, "LastModified")
    return {"Parts": parts, **_going_on(_texts(root), "NextPartNumberMarker")}


def _rules(root: ET.Element) -> _Read:
    return {"Rules": [_nested(child) for child in root.iterfind("{*}Rule")]}


def _nested(element: ET.Element) -> _Read:
    return {_name(child): _nested(child) if len(child) else child.text or "" for child in element}


def _versions(root: ET.Element) -> _Read:
    found: dict[str, list[dict[str, Any]]] = {"Version": [], "DeleteMarker": []}
    made: dict[str, Any] = {}
    for child in root:
        name = _name(child)
        if name not in found:
            made[name] = child.text or ""
            continue
        entry = _texts(child)
        if name == "Version":
            entry["Size"] = number(entry.get("Size"), "size")
        entry["IsLatest"] = entry.get("IsLatest") == "true"
        _date(entry, "LastModified")
        found[name].append(entry)
    if made.get("EncodingType") == "url":
        _decode([entry for entries in found.values() for entry in entries], "Key")
        _decode([made], "NextKeyMarker")
    return {
        "Versions": found["Version"],
        "DeleteMarkers": found["DeleteMarker"],
        **_going_on(made, "NextKeyMarker", "NextVersionIdMarker"),
    }


def _deleted(root: ET.Element) -> _Read:
    return {"Errors": [_texts(child) for child in root if _name(child) == "Error"]}


def _decode(entries: Iterable[dict[str, Any]], name: str) -> None:
    for entry in entries:
        if name in entry:
            entry[name] = unquote_plus(entry[name])


def _date(entry: dict[str, Any], name: str) -> None:
    if (text := entry.get(name)) is not None:
        entry[name] = moment(text)
        if entry[name] is None:
            raise Malformed(f"the answer's {name} is {text[:40]!r}")


_PLAIN: Final[Mapping[str, bytes]] = {
    "CreateMultipartUpload": b"InitiateMultipartUploadResult",
    "CompleteMultipartUpload": b"CompleteMultipartUploadResult",
}
"""Operations that are asked for every file, and whose answers are flat."""

_READERS: Final[Mapping[str, tuple[str, Callable[[ET.Element], _Read]]]] = {
    "CreateMultipartUpload": ("InitiateMultipartUploadResult", _texts),
    "CompleteMultipartUpload": ("CompleteMultipartUploadResult", _texts),
    "CopyObject": ("CopyObjectResult", _copied("CopyObjectResult")),
    "UploadPartCopy": ("CopyPartResult", _copied("CopyPartResult")),
    "ListObjectsV2": ("ListBucketResult", _objects),
    "ListMultipartUploads": ("ListMultipartUploadsResult", _uploads),
    "ListParts": ("ListPartsResult", _parts),
    "GetBucketLifecycleConfiguration": ("LifecycleConfiguration", _rules),
    "DeleteObjects": ("DeleteResult", _deleted),
    "GetBucketVersioning": ("VersioningConfiguration", _texts),
    "ListObjectVersions": ("ListVersionsResult", _versions),
}
"""The root that the document of an answer has, and how it is read; answers to others have no document."""

_BY_OTHERS: Final[Mapping[str, tuple[str, ...]]] = {
    # Of moto.
    "VersioningConfiguration": ("GetBucketVersioningResponse",),
    "ListPartsResult": ("ListPartsResponse",),
}

ALWAYS: Final[Mapping[str, tuple[str, ...]]] = {
    "create_multipart_upload": ("UploadId",),
    "upload_part": ("ETag",),
    "put_object": ("ETag",),
    "get_object": ("ETag",),
    "head_object": ("ContentLength", "ETag"),
}
"""What S3 answers always, by the names of clients' methods."""
