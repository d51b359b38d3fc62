"""Deleting up to a hundred objects in one request: Google's batch endpoint, which answers each of them."""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from email import message_from_bytes
from urllib.parse import urlencode

from magicfs.errors import Unavailable
from magicfs.stores.gcs.client import GcsBucket
from magicfs.stores.gcs.errors import Answer

__all__ = ["CALLS_MAX", "delete"]

_ANSWER_BYTES_MAX = 2**20
_NUMBER = re.compile(r"[0-9]{1,3}")
_STATUS = re.compile(rb"[2-5][0-9]{2}")
CALLS_MAX = 100
"""Calls that one request takes (Google's reference, "Batch requests")."""


async def delete(client: GcsBucket, operation: str, objects: Sequence[tuple[str, str]]) -> list[Answer]:
    """The answer for each object: key and generation, which is empty for whatever is there."""
    boundary = f"magicfs-{secrets.token_hex(16)}"
    calls = "".join(
        f"--{boundary}\r\nContent-Type: application/http\r\nContent-ID: <{number}>\r\n\r\n"
        f"DELETE {_target(client, *one)} HTTP/1.1\r\n\r\n\r\n"
        for number, one in enumerate(objects)
    )
    first, _ = objects[0]
    headers = {"Content-Type": f"multipart/mixed; boundary={boundary}"}
    body = f"{calls}--{boundary}--\r\n".encode()
    how = {"headers": headers, "body": body, "size_max": _ANSWER_BYTES_MAX}
    answer = await client.about(operation, first, "POST", "/batch/storage/v1", **how)
    with client.reading(operation, first):
        found = _answers(answer)
    if sorted(found) != list(range(len(objects))):
        problem = f"{len(found)} of {len(objects)} calls of a batch were answered"
        raise Unavailable(operation, client.path(first), problem)
    return [found[number] for number in range(len(objects))]


def _target(client: GcsBucket, key: str, generation: str) -> str:
    # Each call is billed by itself; what the batch says of it does not count.
    asked = {"ifGenerationMatch": generation, "userProject": client.payer}
    query = urlencode({name: value for name, value in asked.items() if value})
    return f"{client.object(key)}{'?' if query else ''}{query}"


def _answers(answer: Answer) -> dict[int, Answer]:
    """By the number of their call."""
    kind = answer.headers.get("Content-Type", "")
    message = message_from_bytes(f"Content-Type: {kind}\r\n\r\n".encode() + answer.content)
    found = {}
    for part in message.get_payload() if message.is_multipart() else ():
        number = str(part.get("Content-ID", "")).strip("<>").removeprefix("response-")  # type: ignore[union-attr]
        body = part.get_payload(decode=True)  # type: ignore[union-attr]
        if not _NUMBER.fullmatch(number) or not isinstance(body, bytes):
            continue
        line, _, rest = body.replace(b"\r\n", b"\n").partition(b"\n")
        status = line.split(b" ")[1] if line.startswith(b"HTTP/") else b""
        if _STATUS.fullmatch(status):
            found[int(number)] = Answer(int(status), {}, rest.partition(b"\n\n")[2])
    return found
