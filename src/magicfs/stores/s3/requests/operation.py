"""How the requests of one S3 operation are written, as botocore's model of the service tells it.

Nothing is typed by hand but the two documents that requests carry: which argument goes into which header or
query parameter, and how it is spelled there, is read from the model, once for each operation.
"""

from __future__ import annotations

import calendar
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from email.utils import formatdate
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from magicfs.stores.port import PartBody
from magicfs.stores.s3.requests.signature import Header

KEY = "Key"
_SAFE: Final = "-._~"
_PLAIN: Final = re.compile(r"[A-Za-z0-9\-._~]*")
_PLAIN_KEY: Final = re.compile(r"[A-Za-z0-9\-._~/]*")
"""What is its own encoding."""
_NAMESPACE: Final = "http://s3.amazonaws.com/doc/2006-03-01/"
_BREAKS: Final = ("\n", "\r", "\0")


class Reading(NamedTuple):
    """How a header of an answer is read.

    Attributes:
        argument: What answers call it.
        kind: The type of its shape.
    """

    argument: str
    kind: str


@dataclass(slots=True, repr=False)
class Draft:
    """A request before it is signed; of a bucket, wherever that is. A customer's key may be in it.

    Attributes:
        key: Encoded; empty for a request about the bucket.
        query: Encoded pairs, an equals sign in each, in any order.
        headers: Those that the arguments ask for.
        body: What is sent.
    """

    key: str
    query: list[str]
    headers: list[Header]
    body: PartBody


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of S3.

    Attributes:
        name: As the service model spells it.
        method: The HTTP method.
        about_key: Whether it is about an object, and not about the bucket.
        literal: Parts of the query that it always has, as they are written.
        fields: By argument, where its value goes and how it is written there.
        streams: Whether its body is the content of an object.
        document: Writes the body where that is a document.
        payload: The argument that the body is made of.
        algorithm: The argument and the header that name the checksum of the body; empty without one.
        must_sum: Whether the store wants a checksum always.
        mode: The argument that asks for checksums in the answer; empty without one.
        readings: Of headers of the answer, by their names in lower case.
        metadata: What the names of user metadata in the answer begin with; empty if it has none.
    """

    name: str
    method: str
    about_key: bool
    literal: tuple[str, ...]
    fields: Mapping[str, _Field]
    streams: bool
    document: Callable[[Any], bytes] | None
    payload: str
    algorithm: tuple[str, str]
    must_sum: bool
    mode: str
    readings: Mapping[str, Reading]
    metadata: str
    shape: Any

    def draft(self, arguments: Mapping[str, Any]) -> Draft:
        """A request with these arguments; raises ValueError for what no header can carry."""
        key = ""
        body: PartBody = b""
        query: list[str] = []
        headers: list[Header] = []
        for name, value in arguments.items():
            if name == self.payload:
                body = self.document(value) if self.document is not None else value
                continue
            if value is None or (field := self.fields.get(name)) is None:
                continue
            match field.place:
                case "header":
                    text = field.write(value)
                    _check(name, text)
                    headers.append((field.name, text))
                case "querystring":
                    text = field.write(value)
                    query.append(
                        f"{field.name}={text if _PLAIN.fullmatch(text) else quote(text, safe=_SAFE)}"
                    )
                case "headers":
                    headers += _metadata(field.name, value)
                case _:
                    key = value if _PLAIN_KEY.fullmatch(value) else quote(value, safe="/~")
        return Draft(key, query, headers, body)


class _Field(NamedTuple):
    place: str  # as the model calls it
    name: str
    write: Callable[[Any], str]


def operation_of(model: Any) -> Operation:
    """What a botocore model of an operation says."""
    uri: str = model.http["requestUri"]
    path, _, literal = uri.partition("?")
    shape = model.input_shape
    fields = {}
    for name, member in shape.members.items():
        place = member.serialization.get("location")
        if place is not None and name != "Bucket":
            fields[name] = _Field(place, member.serialization.get("name", name), _writer(member, place))
    payload = shape.serialization.get("payload", "")
    checksum = model.http_checksum
    algorithm = checksum.get("requestAlgorithmMember", "")
    output = model.output_shape
    readings, metadata = _readings(output) if output is not None else ({}, "")
    return Operation(
        name=model.name,
        method=model.http["method"],
        about_key=path.endswith("{Key+}"),
        literal=tuple(literal.split("&")) if literal else (),
        fields=fields,
        streams=bool(model.has_streaming_input),
        document=_DOCUMENTS.get(payload),
        payload=payload,
        algorithm=(algorithm, fields[algorithm].name if algorithm in fields else ""),
        must_sum=bool(model.http_checksum_required or checksum.get("requestChecksumRequired")),
        mode=checksum.get("requestValidationModeMember", ""),
        readings=readings,
        metadata=metadata,
        shape=shape,
    )


def _readings(output: Any) -> tuple[dict[str, Reading], str]:
    readings, metadata = {}, ""
    for name, member in output.members.items():
        place, header = member.serialization.get("location"), member.serialization.get("name", name).lower()
        if place == "header":
            readings[header] = Reading(name, member.type_name)
        elif place == "headers":
            metadata = header
    return readings, metadata


def _writer(member: Any, place: str) -> Callable[[Any], str]:
    kind = member.type_name
    if kind == "boolean":
        return lambda value: str(value).lower()
    if kind == "timestamp":
        usual = "rfc822" if place == "header" else "iso8601"
        form = member.serialization.get("timestampFormat", usual)
        return lambda value: _moment(value, form)
    if kind == "list":
        return lambda value: ",".join(map(str, value))
    return str


def _moment(value: Any, form: str) -> str:
    from botocore.utils import parse_to_aware_datetime

    seconds = calendar.timegm(parse_to_aware_datetime(value).utctimetuple())
    if form == "rfc822":
        return formatdate(seconds, usegmt=True)
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def _metadata(prefix: str, given: Mapping[str, str]) -> list[Header]:
    for name, value in given.items():
        if not (name.isascii() and value.isascii()):
            raise ValueError(f"metadata allows only ASCII characters, and {name!r} has others")
        _check(name, name)
        _check(name, value)
    return [(f"{prefix}{name}", value) for name, value in given.items()]


def _check(name: str, text: str) -> None:
    if any(mark in text for mark in _BREAKS):
        raise ValueError(f"{name} has a line break or a null in it")


def _text(value: str) -> str:
    if "&" in value:
        value = value.replace("&", "&amp;")
    if "<" in value:
        value = value.replace("<", "&lt;")
    return value.replace(">", "&gt;") if ">" in value else value


def _parts(value: Mapping[str, Sequence[Mapping[str, Any]]]) -> bytes:
    parts = [
        "<Part>" + "".join([f"<{n}>{_text(str(v))}</{n}>" for n, v in part.items()]) + "</Part>"
        for part in value["Parts"]
    ]
    root = "CompleteMultipartUpload"
    return f'<{root} xmlns="{_NAMESPACE}">{"".join(parts)}</{root}>'.encode()


def _deletion(value: Mapping[str, Any]) -> bytes:
    objects = [
        "<Object>" + "".join([f"<{n}>{_text(v)}</{n}>" for n, v in one.items()]) + "</Object>"
        for one in value["Objects"]
    ]
    quiet = "<Quiet>true</Quiet>" if value.get("Quiet") else ""
    made = f'<Delete xmlns="{_NAMESPACE}">{"".join(objects)}{quiet}</Delete>'
    # Parsers make other characters of them, and so another key.
    return made.replace("\r", "&#xD;").replace("\n", "&#xA;").encode()


_DOCUMENTS: Final[Mapping[str, Callable[[Any], bytes]]] = {"MultipartUpload": _parts, "Delete": _deletion}
