"""Ids of blocks on Azure: they say to which upload of a blob a block belongs, and what is known of it.

A blob has one list of blocks that are not committed, whoever sent them, and no uploads. So an upload is what
its blocks' ids say: one block opens it, further ones hold what its object is to bear, one ends it, and the
others are parts. All ids have 60 characters, for those of one blob must have one length, at most 64.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import secrets
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from magicfs.protocol.readback import WRITE_ID

EMPTY: Final = '"d41d8cd98f00b204e9800998ecf8427e"'
"""The ETag of a part without bytes: there is no such block."""

_PART, _OPENED, _MORE, _ENDED = "p", "o", "m", "e"
_TIME_BYTES, _RANDOM_BYTES = 5, 11
_PAYLOAD = 32
_FILLER = "."
_NONE = _FILLER * _PAYLOAD
_UPLOAD_ID = re.compile(r"[A-Za-z0-9_-]{22}")
_BLOCK_ID = re.compile(r"([A-Za-z0-9_-]{22})([pome])(\d{5})([A-Za-z0-9_=.-]{32})")
_HEX = re.compile(r"[0-9a-f]{32}")
_ETAG = re.compile(r'"([0-9a-f]{32})"')


@dataclass(frozen=True, slots=True)
class OpenUpload:
    """An upload that was neither committed nor ended."""

    metadata: Mapping[str, str]
    options: Mapping[str, Any]


@dataclass(slots=True)
class _Said:
    """What the blocks of one upload say."""

    pieces: dict[int, str] = field(default_factory=dict)
    opened: tuple[int, str] | None = None  # the number of pieces, and the write id
    ended: bool = False


def new_upload_id(now_s: float) -> str:
    """22 characters: when it was opened, and 88 random bits."""
    raw = int(now_s).to_bytes(_TIME_BYTES, "big") + secrets.token_bytes(_RANDOM_BYTES)
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def is_upload_id(text: str) -> bool:
    """Whether it may be one that was made here."""
    return _UPLOAD_ID.fullmatch(text) is not None


def opened_s(upload_id: str) -> float:
    """When an upload was opened, in seconds since the epoch."""
    return float(int.from_bytes(base64.urlsafe_b64decode(f"{upload_id}==")[:_TIME_BYTES], "big"))


def opening(upload_id: str, metadata: Mapping[str, str], options: Mapping[str, Any]) -> tuple[list[str], str]:
    """The ids of the blocks that open an upload; the last one counts once the others are there."""
    write_id = metadata.get(WRITE_ID, "")
    known = _HEX.fullmatch(write_id) is not None
    rest = {name: value for name, value in metadata.items() if not known or name != WRITE_ID}
    told = {"metadata": rest, "options": dict(options)} if rest or options else {}
    text = base64.urlsafe_b64encode(zlib.compress(json.dumps(told).encode(), 9)).decode() if told else ""
    pieces = [text[start : start + _PAYLOAD] for start in range(0, len(text), _PAYLOAD)]
    more = [_id(upload_id, _MORE, number, piece) for number, piece in enumerate(pieces)]
    return more, _id(upload_id, _OPENED, len(pieces), write_id if known else _NONE)


def end(upload_id: str) -> str:
    """The id of the block that ends an upload: whoever sees it completes the upload no more."""
    return _id(upload_id, _ENDED, 0, _NONE)


def etag_of(md5: bytes) -> str:
    """The ETag of a part, as S3 gives it."""
    return f'"{md5.hex()}"'


def part(upload_id: str, number: int, etag: str) -> str | None:
    """The id of the block of a part; None if its ETag cannot be that of one."""
    found = _ETAG.fullmatch(etag)
    return _id(upload_id, _PART, number, found[1]) if found else None


def uploads_of(block_ids: Iterable[str]) -> dict[str, OpenUpload]:
    """The uploads of a blob by their ids, given the ids of all its blocks that are not committed."""
    said: dict[str, _Said] = {}
    for block_id in block_ids:
        if match := _BLOCK_ID.fullmatch(block_id):
            upload_id, kind, number, payload = match.groups()
            one = said.setdefault(upload_id, _Said())
            if kind == _MORE:
                one.pieces[int(number)] = payload
            elif kind == _OPENED:
                one.opened = (int(number), payload)
            elif kind == _ENDED:
                one.ended = True
    found = {upload_id: _read(one) for upload_id, one in said.items()}
    return {upload_id: one for upload_id, one in found.items() if one is not None}


def _read(said: _Said) -> OpenUpload | None:
    if said.opened is None or said.ended:
        return None
    count, write_id = said.opened
    if not said.pieces.keys() >= set(range(count)):
        return None
    metadata = {} if write_id == _NONE else {WRITE_ID: write_id}
    if not count:
        return OpenUpload(metadata, {})
    text = "".join(said.pieces[number] for number in range(count)).rstrip(_FILLER)
    try:
        told = json.loads(zlib.decompress(base64.urlsafe_b64decode(text)))
        return OpenUpload({**told["metadata"], **metadata}, told["options"])
    except (binascii.Error, zlib.error, ValueError, KeyError, TypeError):
        return None  # of somebody else


def _id(upload_id: str, kind: str, number: int, payload: str) -> str:
    return f"{upload_id}{kind}{number:05d}{payload:{_FILLER}<{_PAYLOAD}}"
