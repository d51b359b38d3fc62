"""Who decided what became of jobs and data: aborted, rolled back, published a job of another, dropped or
adopted files.

::

    DEST/_magicfs/.operations/<milliseconds>-<random>.json

Each decision about a published dataset leaves one small record, ``magicfs.operation/1``, once it is carried
out. A job that ends as its driver meant leaves none. A job's id never begins with a dot, so the directory is
no job's.
"""

from __future__ import annotations

import getpass
import re
import socket
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from os import PathLike
from typing import Final, Unpack
from uuid import uuid4

from magicfs.datasets.connection import Destination, Way, open_destination
from magicfs.engine import Engine
from magicfs.errors import FormatError, UsageError
from magicfs.formats.document import parse, render, with_unknown
from magicfs.formats.fields import Fields, check_format
from magicfs.formats.limits import within
from magicfs.formats.rows import SHOWN, Row
from magicfs.manifests import chain
from magicfs.protocol import paths
from magicfs.protocol.modes import MANIFESTS
from magicfs.protocol.paths import Location
from magicfs.report import RecoverReport
from magicfs.runtime.parallel import gathered
from magicfs.stores import object_settings
from magicfs.stores.register import body_at, is_there

FORMAT: Final = "magicfs.operation/1"
OPERATION_SIZE_LIMIT: Final = 64 * 1024
SHOWN_MAX: Final = 1000
"""Most operations that are read, the newest."""
_TEXT_MAX: Final = 4000
_DIRECTORY: Final = ".operations"
_NAME: Final = re.compile(r"([0-9]{13})-[0-9a-f]{32}\.json")
_ACTIONS: Final = frozenset({"aborted", "reverted"})
"""What becomes of jobs about which somebody has decided."""
ROWS: Final[Mapping[str, tuple[Row, ...]]] = {
    "operation": (
        Row("when", "the moment in its own name", by="watch.operations.operations"),
        *(Row(name, SHOWN) for name in ("verb", "jobId", "action", "user", "host", "reason")),
    )
}
"""What each field is compared with before it is shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A decision that was carried out.

    Attributes:
        verb: ``abort``, ``recover``, ``commit``, ``accept``, ``rollback``, ``drop`` or ``adopt``.
        job_id: The job that it was about, or that carried it out.
        action: What became of the job.
        when_ms: When, by the clock of the machine on which it was done.
        user: Who, as that machine names its users.
        host: The machine.
        reason: Why; empty if nobody said.
    """

    verb: str
    job_id: str
    action: str
    when_ms: int
    user: str
    host: str
    reason: str = ""
    unknown: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def from_bytes(cls, path: str, raw: bytes) -> Operation:
        """Read a record. Raises FormatError for one that cannot be."""
        fields = Fields(path, parse(path, raw, size_limit=OPERATION_SIZE_LIMIT))
        check_format(fields, FORMAT)
        return cls(
            verb=fields.required_text("verb"),
            job_id=fields.required_job_id(),
            action=fields.required_text("action"),
            when_ms=fields.required_integer("when", minimum=0),
            user=fields.text("user"),
            host=fields.text("host"),
            reason=fields.text("reason"),
            unknown=fields.rest(),
        )

    def to_bytes(self) -> bytes:
        """The whole file, one line."""
        document: dict[str, object] = {
            "format": FORMAT,
            "verb": self.verb,
            "jobId": self.job_id,
            "action": self.action,
            "when": self.when_ms,
            "user": self.user,
            "host": self.host,
            "reason": self.reason,
        }
        raw = render(with_unknown(document, self.unknown))
        return within(raw, OPERATION_SIZE_LIMIT, f"the record of {self.verb}", "give a shorter reason")

    def to_dict(self) -> dict[str, object]:
        """Plain values, ready for JSON."""
        plain = asdict(self)
        del plain["unknown"], plain["when_ms"]
        return {
            "when": datetime.fromtimestamp(self.when_ms / 1000, UTC).isoformat(timespec="milliseconds"),
            **plain,
        }


def note(destination: Destination, verb: str, how: Mapping[str, object], result: object) -> None:
    """Write down what somebody has decided; nothing for what a job decided itself, and for a dry run."""
    if how.get("dry_run"):
        return
    named = {"user": _user(), "host": socket.gethostname(), "when_ms": time.time_ns() // 1_000_000}
    made = [
        Operation(verb=called, job_id=job, action=action, reason=reason[:_TEXT_MAX], **named)  # type: ignore[arg-type]
        for called, job, action, reason in _decided(verb, how, result)
    ]
    if made:
        destination.run(_write, made)


def _decided(verb: str, how: Mapping[str, object], result: object) -> list[tuple[str, str, str, str]]:
    """Verb, job, action and reason of each decision."""
    if isinstance(result, RecoverReport):
        return _ended(verb, how, result)
    job = getattr(result, "job_id", None)  # None where there was nothing to drop
    if job is None or getattr(result, "published_before", False):
        return []
    accepted = how.get("accept")
    return [("accept" if accepted else verb, job, "published", str(accepted or ""))]


def _ended(verb: str, how: Mapping[str, object], report: RecoverReport) -> list[tuple[str, str, str, str]]:
    if how.get("reason") is None:  # commands always give one, be it empty
        return []
    ended = [one for one in report.jobs if one.action in _ACTIONS]
    return [(verb, one.job_id, one.action, str(how.get("reason") or one.reason)) for one in ended]


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container whose user has no name
        return ""


async def _write(engine: Engine, location: Location, made: list[Operation]) -> None:
    if not await is_there(engine.store, chain.pointer_key(location.key)):
        return  # no dataset yet, and a record must not pass for one
    store, newest = engine.store, await chain.newest_job(engine.store, location.key, chain.READING)
    if newest is not None and (named := await chain.readable(store, location.key, newest, files=False)):
        store = object_settings.store_as_recorded(store, named.object_settings)
    for one in made:
        await store.put(f"{_prefix(location)}{one.when_ms:013d}-{uuid4().hex}.json", one.to_bytes())


def operations(url: str | PathLike[str], *, limit: int | None = None, **way: Unpack[Way]) -> list[Operation]:
    """The newest operations at a destination, at most 1,000, the newest first.

    Raises:
        UsageError: ``limit`` is less than 1.
        FormatError: A record is malformed.
    """
    if limit is not None and limit < 1:
        raise UsageError(f"limit={limit}; give 1 or more, or leave it out for all")
    destination = open_destination(url, for_reading=True, **way)
    return destination.run(_read, min(limit or SHOWN_MAX, SHOWN_MAX))


async def _read(engine: Engine, location: Location, limit: int) -> list[Operation]:
    prefix = _prefix(location)
    names = [info.key.removeprefix(prefix) async for info in engine.store.list(prefix)]
    newest = sorted((one for one in names if _NAME.fullmatch(one)), reverse=True)[:limit]

    async def one(name: str) -> Operation | None:
        raw = await body_at(engine.store, f"{prefix}{name}", OPERATION_SIZE_LIMIT + 1)
        if raw is None:  # removed meanwhile
            return None
        path = f"{engine.store.bucket}/{prefix}{name}"
        found = Operation.from_bytes(path, raw)
        if found.when_ms != int(name[:13]):
            raise FormatError(path, "when", "it differs from the time in the file's name; remove the file")
        return found

    return [one for one in await gathered(newest, one, engine.concurrency) if one is not None]


def _prefix(location: Location) -> str:
    return paths.prefix_of(paths.join(location.key, MANIFESTS, _DIRECTORY))
