"""Ways in which an endpoint changes a right answer, or sends something else."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from proofs.hostile.endpoint_server import Asked, Reply, Sending, written

__all__ = [
    "KERNEL_BYTES_MAX",
    "bombed",
    "cut",
    "drip",
    "drip_of_headers",
    "endless",
    "endless_pages",
    "error",
    "garbled_chunks",
    "more",
    "plain",
    "redirect",
    "replaced",
    "too_short",
    "with_body",
    "with_headers",
]

KERNEL_BYTES_MAX: Final = sum(
    int(Path(f"/proc/sys/net/ipv4/tcp_{side}mem").read_text().split()[2]) for side in "rw"
)
"""What the kernel may hold of a connection: sent, and read by nobody."""

_ENDLESS: Final = 96 * 2**20 + KERNEL_BYTES_MAX


def plain(status: int, body: bytes, **headers: str) -> Callable[[Asked, Reply], Sending]:
    """Something else."""
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return lambda asked, _: iter([written(Reply(status, named, body), asked)])


def with_body(change: Callable[[bytes], bytes | None]) -> Callable[[Asked, Reply], Sending | None]:
    """The right answer with another body; None where that is the same."""

    def send(asked: Asked, reply: Reply) -> Sending | None:
        body = change(reply.body)
        if body is None or body == reply.body or asked.method == "HEAD":
            return None
        return iter([written(Reply(reply.status, _without_length(reply.headers), body), asked)])

    return send


def with_headers(
    change: Callable[[dict[str, str]], dict[str, str]],
) -> Callable[[Asked, Reply], Sending | None]:
    """The right answer with other headers; None where they are the same."""

    def send(asked: Asked, reply: Reply) -> Sending | None:
        headers = change(dict(reply.headers))
        return (
            None
            if headers == reply.headers
            else iter([written(Reply(reply.status, headers, reply.body), asked)])
        )

    return send


def _without_length(headers: Mapping[str, str]) -> dict[str, str]:
    """Headers without a length."""
    return {name: text for name, text in headers.items() if name.lower() != "content-length"}


def replaced(pattern: str, text: str) -> Callable[[bytes], bytes]:
    """A body in which the text between two groups of a pattern is another."""
    made = re.compile(pattern.encode())
    return lambda body: made.sub(lambda found: found[1] + text.encode() + found[2], body)


def cut(asked: Asked, reply: Reply) -> Sending | None:
    """Half of a document, with its right length."""
    if len(reply.body) < 20 or asked.method == "HEAD" or not _is_document(reply):
        return None
    half = reply.body[: len(reply.body) // 2]
    return iter([written(Reply(reply.status, _without_length(reply.headers), half), asked)])


def _is_document(reply: Reply) -> bool:
    """Whether an answer is one."""
    return reply.body.lstrip()[:1] in {b"<", b"{"}


def too_short(asked: Asked, reply: Reply) -> Sending | None:
    """Less of a body than its length tells."""
    if not reply.body or asked.method == "HEAD":
        return None
    headers = _without_length(reply.headers) | {"Content-Length": str(len(reply.body) + 10)}
    return iter([written(Reply(reply.status, headers, reply.body), asked)])


def garbled_chunks(asked: Asked, reply: Reply) -> Sending | None:
    """Chunks of which one has no size."""
    if asked.method == "HEAD" or reply.status == 204:
        return None
    headers = _without_length(reply.headers) | {"Transfer-Encoding": "chunked"}
    return iter([written(Reply(200, headers, b"5\r\nhello\r\nZZZ\r\n\r\n"), asked)])


def endless(
    status: int, first: bytes, piece: bytes, keeps: bool = False
) -> Callable[[Asked, Reply], Sending | None]:
    """A body that has no end."""

    def send(asked: Asked, reply: Reply) -> Sending | None:
        if asked.method == "HEAD" and status < 300:
            return None
        block = piece * (2**20 // len(piece))
        headers = _without_length(reply.headers) if keeps else {}
        head = written(
            Reply(reply.status if keeps else status, headers | {"Transfer-Encoding": "chunked"}, b""), asked
        )

        def pieces() -> Iterator[bytes | float]:
            yield head + b"%x\r\n%b\r\n" % (len(first), first)
            for _ in range(_ENDLESS // len(block)):
                yield b"%x\r\n%b\r\n" % (len(block), block)

        return pieces()

    return send


def drip(first: bytes) -> Callable[[Asked, Reply], Sending | None]:
    """A body of which a byte comes now and then."""

    def send(asked: Asked, _: Reply) -> Sending | None:
        def pieces() -> Iterator[bytes | float]:
            yield written(
                Reply(200, {"Transfer-Encoding": "chunked", "ETag": '"a"'}, b"1\r\n%b\r\n" % first), asked
            )
            for _ in range(400):
                yield 0.06
                yield b"1\r\n \r\n"

        return None if asked.method == "HEAD" else pieces()

    return send


def drip_of_headers(_: Asked, __: Reply) -> Sending:
    """Headers of which one comes now and then."""
    yield b"HTTP/1.1 200 OK\r\n"
    for number in range(400):
        yield 0.06
        yield b"a%d: b\r\n" % number


def more(token: str) -> Callable[[bytes], bytes]:
    """A listing that goes on at a token."""

    def change(body: bytes) -> bytes:
        text = token.encode()
        if body.lstrip().startswith(b"{"):
            return body.replace(b"{", b'{"nextPageToken": "%b", ' % text, 1)
        marks = b"<IsTruncated>true</IsTruncated><NextContinuationToken>%b</NextContinuationToken>" % text
        marks += b"<NextKeyMarker>%b</NextKeyMarker><NextUploadIdMarker>u</NextUploadIdMarker>" % text
        body = re.sub(rb"<IsTruncated>.*?</IsTruncated>", b"", body)
        if b"EnumerationResults" in body:
            body = re.sub(rb"<NextMarker ?/>|<NextMarker>.*?</NextMarker>", b"", body)
            return body.replace(
                b"</EnumerationResults>", b"<NextMarker>%b</NextMarker></EnumerationResults>" % text
            )
        return re.sub(rb"</(List\w+Result)>", lambda found: marks + found[0], body)

    return change


def _emptied(body: bytes) -> bytes:
    """A listing without its entries."""
    if body.lstrip().startswith(b"{"):
        return b'{"kind": "storage#objects"}'
    for name in (b"Contents", b"CommonPrefixes", b"Upload"):
        body = re.sub(rb"<%b>.*?</%b>" % (name, name), b"", body, flags=re.DOTALL)
    return re.sub(rb"<Blobs>.*</Blobs>", b"<Blobs></Blobs>", body, flags=re.DOTALL)


def endless_pages(asked: Asked, reply: Reply) -> Sending | None:
    """A page without entries, and another place where the next one begins."""
    if asked.method == "HEAD" or not _is_document(reply):
        return None
    body = more(f"t{random.random()}")(_emptied(reply.body))  # noqa: S311 - each is another
    return iter([written(Reply(200, _without_length(reply.headers), body), asked)])


def bombed(body: bytes) -> bytes | None:
    """A document that defines entities."""
    if not body.lstrip().startswith(b"<"):
        return None
    head, _, rest = body.partition(b"?>") if body.startswith(b"<?") else (b"", b"", body)
    bomb = b'<!DOCTYPE a [<!ENTITY b "c"><!ENTITY d "&b;&b;&b;&b;">]>'
    return (head + b"?>" if head else b"") + bomb + rest


def error(text: str) -> Callable[[Asked, Reply], Sending]:
    """An error with some text, in the document of each cloud."""

    def send(asked: Asked, _: Reply) -> Sending:
        if asked.target.startswith("/storage"):
            body = json.dumps({"error": {"message": text}}).encode()
        else:
            body = f"<Error><Code>Odd{text[:60]}</Code><Message>{text}</Message></Error>".encode()
        return iter(
            [written(Reply(400, {"Content-Type": "application/xml", "x-ms-error-code": "Odd"}, body), asked)]
        )

    return send


def redirect(status: int) -> Callable[[Asked, Reply], Sending]:
    """The way to another host."""

    def send(asked: Asked, _: Reply) -> Sending:
        place = f"http://127.0.0.1:{asked.headers['x-elsewhere']}/evil"
        headers = {"Location": place, "x-amz-bucket-region": "eu-west-1"}
        body = b"<Error><Code>PermanentRedirect</Code><Endpoint>127.0.0.1</Endpoint></Error>"
        return iter([written(Reply(status, headers, body), asked)])

    return send
