"""Pending sets as magicfs writes them, read many times as fast as by ``PendingSet``, and put together.

One pattern knows all members of a commit, in their order, and takes what a job needs. The text of each commit
is kept as well: facts are made of it, and nothing is written anew. Whatever is unusual is left to
``PendingSet``, which also tells what is wrong with it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from magicfs.errors import FormatError
from magicfs.formats.document import check_limits, parse, render
from magicfs.formats.fields import Fields
from magicfs.formats.limits import PENDINGSET_SIZE_LIMIT, VALUE_LIMIT, within
from magicfs.formats.pending import Pending, parts_of
from magicfs.formats.pendingset import PENDINGSET_VERSION
from magicfs.formats.plain_pending import PENDING_VERSION, Body
from magicfs.formats.statistics import Statistics

_TEXT: Final = r'[^"\\\x00-\x1f]'
"""One character of a text without escapes, which says itself."""
_ESCAPED: Final = rf'"(?:{_TEXT}++|\\["\\/bfnrt])*+"'
"""A text that may have escapes, such as a footer, without those that may be halves of a character."""
_EXTRAS: Final = rf"\{{(?:{_ESCAPED}:{_ESCAPED}[,}}])++|\{{\}}"
_NUMBER: Final = r"(?:0|[1-9][0-9]{0,17})"
_STATISTICS: Final = re.escape(render(Statistics().to_document()).decode())
_HEAD: Final = re.compile(rf'\{{"version":{PENDINGSET_VERSION},"jobId":"({_TEXT}*)","commits":\[')
_NO_COMMITS: Final = re.compile(r"\](?=,)")
_COMMIT: Final = re.compile(
    rf'\{{"version":{PENDING_VERSION},"filename":(?:null|"{_TEXT}*"),"uri":"{_TEXT}*",'
    rf'(?:"uploadId":"({_TEXT}+)",)?"bucket":"({_TEXT}*)","destinationKey":"((?!/){_TEXT}+)",'
    rf'"created":({_NUMBER}),"saved":{_NUMBER},"date":"{_TEXT}*","jobId":"({_TEXT}*)","taskId":"({_TEXT}*)",'
    rf'"text":"{_TEXT}*",(?:"etags":(\[[^\[\]]+\])|"body":\{{"bundle":"({_TEXT}+)","offset":({_NUMBER}),'
    rf'"sha256":"([0-9a-f]{{64}})"\}}),"extraData":({_EXTRAS}),"length":({_NUMBER}),'
    rf'"iostatistics":{_STATISTICS},"partCount":{_NUMBER}\}}(?:,(?=\{{)|\](?=,))'
)
_ONE_PART: Final = re.compile(
    rf'\[(\{{"etag":)?"(?:\\"({_TEXT}+)\\"|({_TEXT}+))"(?(1),"checksumAlgorithm":null,"checksum":null\}})\]'
)
_ETAG: Final = rf'"((?:{_TEXT}++|\\")++)"'
_PART: Final = re.compile(
    rf'(?:{_ETAG}|\{{"etag":{_ETAG},"checksumAlgorithm":(?:null|"({_TEXT}+)"),'
    rf'"checksum":(?:null|"({_TEXT}+)")\}})[,\]]'
)
_EXTRA: Final = re.compile(rf'\{{"({_TEXT}+)":"({_TEXT}*)"\}}')
_TAIL: Final = frozenset(("iostatistics", "extraData"))
_Checksums = tuple[tuple[str | None, str | None], ...]


class PlainFile(NamedTuple):
    """What a job needs of a commit."""

    bucket: str
    key: str  # the final one
    length: int
    created_ms: int
    job_id: str
    task_id: str
    extra_data: Mapping[str, str]
    upload_id: str  # empty for a file with a body
    etags: tuple[str, ...]
    checksums: _Checksums  # algorithm and value of each part; empty without any
    body: Body | None


class PlainSet(NamedTuple):
    """What a pending set says."""

    job_id: str
    commits: list[PlainFile]
    texts: list[str]  # the JSON of each commit, in one line
    statistics: Statistics


def read_plain(path: str, raw: bytes) -> PlainSet | None:
    """Read a set; None if anything about it is unusual, such as an error. FormatError if it is too large."""
    check_limits(path, raw, PENDINGSET_SIZE_LIMIT, VALUE_LIMIT)
    try:
        text = raw.decode()
        if (head := _HEAD.match(text)) is None or "\n" in text:
            return None
        found = _commits(path, text, head.end())
        if found is None:
            return None
        files, texts, end = found
        tail = parse(path, b"{" + text[end + 1 :].encode(), size_limit=PENDINGSET_SIZE_LIMIT)
        if not tail.keys() <= _TAIL or len({one.key for one in files}) < len(files):
            return None
        fields = Fields(path, tail)
        fields.text_map("extraData")
        return PlainSet(head[1], files, texts, Statistics.at(fields, "iostatistics"))
    except (UnicodeDecodeError, FormatError):
        return None


def joined(job_id: str, texts: Iterable[str], statistics: Statistics) -> bytes:
    """A pending set of commits that are given as they stand in others."""
    commits = list(texts)
    head = render({"version": PENDINGSET_VERSION, "jobId": job_id, "commits": []})[:-2]
    tail = b"]," + render({"iostatistics": statistics.to_document()})[1:]
    return within(
        b"%b%b%b" % (head, ",".join(commits).encode(), tail),
        PENDINGSET_SIZE_LIMIT,
        f"a list of {len(commits):,} files of job {job_id}",
        "write files in fewer, larger parts",
    )


def text_of(commit: Pending) -> str:
    """A commit as it stands in a set that magicfs alone reads."""
    return render(commit.to_document("object")).decode()


def pending_of(text: str) -> Pending:
    """The commit that a text says, which was checked before."""
    return Pending.from_fields(Fields("", json.loads(text)))


def extra_data_of(text: str) -> Mapping[str, str]:
    """The extra data of the commit that a text says, which was checked before."""
    found: Mapping[str, str] = json.loads(text).get("extraData") or {}
    return found


def _commits(path: str, text: str, at: int) -> tuple[list[PlainFile], list[str], int] | None:
    """The commits that begin there, the text of each, and where the comma after all of them is."""
    files, texts, match = list[PlainFile](), list[str](), _COMMIT.match
    if (end := _NO_COMMITS.match(text, at)) is not None:
        return files, texts, end.end()
    while True:
        found = match(text, at)
        if found is None:
            return None
        stop = found.end()
        files.append(_file(path, *found.groups()))
        texts.append(text[at : stop - 1])
        if text[stop] == ",":
            return files, texts, stop
        at = stop


def _file(
    path: str,
    upload_id: str | None,
    bucket: str,
    key: str,
    created: str,
    job: str,
    attempt: str,
    parts: str | None,
    bundle: str,
    offset: str,
    sha256: str,
    extra: str,
    length: str,
) -> PlainFile:
    if (upload_id is None) is not (parts is None):
        raise FormatError(path, "", "neither an upload nor a body")
    body = Body(bundle, int(offset), sha256) if parts is None else None
    etags, checksums = ((), ()) if parts is None else _parts(path, parts)
    told = _EXTRA.fullmatch(extra)
    if told is not None:
        named = {told[1]: told[2]}
    else:
        document = parse(path, f'{{"extraData":{extra}}}'.encode(), size_limit=PENDINGSET_SIZE_LIMIT)
        named = Fields(path, document).text_map("extraData")
    return PlainFile(
        bucket, key, int(length), int(created), job, attempt, named, upload_id or "", etags, checksums, body
    )


def _parts(path: str, parts: str) -> tuple[tuple[str, ...], _Checksums]:
    """The ETags and checksums in a list of parts."""
    if (one := _ONE_PART.fullmatch(parts)) is not None:
        return (f'"{one[2]}"' if one[2] else one[3],), ()
    etags, checksums, at = list[str](), list[tuple[str | None, str | None]](), 1
    while (found := _PART.match(parts, at)) is not None:
        plain, etag, algorithm, checksum = found.groups()
        etags.append((plain or etag).replace('\\"', '"'))
        checksums.append((algorithm, checksum))
        at = found.end()
    if at == len(parts):
        return tuple(etags), tuple(checksums) if any(map(any, checksums)) else ()
    document = parse(path, f'{{"etags":{parts}}}'.encode(), size_limit=PENDINGSET_SIZE_LIMIT)
    read = parts_of(Fields(path, document))
    return tuple([one.etag for one in read]), tuple([(one.checksum_algorithm, one.checksum) for one in read])
