"""The manifest pointer of a destination: the newest published job. Format ``magicfs.pointer/1``.

While replaced files are kept it requires ``keeping`` of its readers, whose jobs would delete them. Once a log
has the older runs it requires ``log``: a reader without it would publish them again.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from magicfs.formats.document import parse, render, with_unknown
from magicfs.formats.fields import Fields, check_format, heading
from magicfs.formats.limits import POINTER_SIZE_LIMIT, within
from magicfs.formats.log import LogFile

__all__ = [
    "POINTER_FORMAT",
    "POINTER_SIZE_LIMIT",
    "RUNS_KEPT",
    "Keeping",
    "Pointer",
]

POINTER_FORMAT: Final = "magicfs.pointer/1"

RUNS_KEPT: Final = 1000
"""How many of the last published runs are written down."""

_RUNS_SIZE_MAX: Final = 8 * 1024**2
_FORGOTTEN_MAX: Final = 500_000
_DIGEST_SIZE: Final = 4
_UNKNOWN: Final = "?"
_LISTS_OF_ONE_MAX: Final = 16
_LISTS_MAX: Final = 20_000
"""Most lists of kept files that a pointer names, for it is read often. Of others the manifests name them."""
_SHA256: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeping:
    """A job whose replaced files are still there; its manifest names the lists of them."""

    job_id: str
    until_ms: int  # when its promise ends
    expires: bool = False
    """Whether they are being deleted, or may be: nobody counts on them any more."""
    lists: tuple[str, ...] = ()
    """The SHA-256 of each of its lists, in order, so that nobody has to read the manifest for them; empty if
    only that knows them.
    """
    unknown: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pointer:
    """The head of a destination's chain of manifests. A value: every move makes a new one."""

    job_id: str  # the newest published job
    nonce: str  # another one in every version, so that a writer recognises its own
    changed_ms: int  # when it was moved
    runs: tuple[tuple[str, str], ...] = ()
    """Run id and job id of the last published jobs that had a run id, the newest last; no run twice."""
    forgotten: str = ""
    """The runs before those: of each the first four bytes of the SHA-256 of its id, in base64; ``?`` if they
    are not known.
    """
    keeping: tuple[Keeping, ...] = ()
    """The jobs whose replaced files are still there, in the order in which they were published."""
    log: LogFile | None = None
    """Where the log is that tells of all jobs before those that ``runs`` and ``forgotten`` are about."""
    unknown: Mapping[str, object] = field(default_factory=dict)

    @property
    def expiring(self) -> set[str]:
        """The jobs whose replaced files are being deleted, or may be."""
        return {one.job_id for one in self.keeping if one.expires}

    def moved(self, job_id: str, run_id: str | None, nonce: str, now_ms: int) -> Pointer:
        """The pointer after another job was published, with a fresh nonce."""
        runs = self.runs
        if run_id is not None:
            runs = (*((run, job) for run, job in runs if run != run_id), (run_id, job_id))
        kept = runs[len(runs) - _kept_of(runs) :]
        forgotten = _with(self.forgotten, (run for run, _ in runs[: len(runs) - len(kept)]))
        return replace(self, job_id=job_id, nonce=nonce, changed_ms=now_ms, runs=kept, forgotten=forgotten)

    def keeping_also(self, job_id: str, until_ms: int, lists: Sequence[str]) -> Pointer:
        """The same, and the job's replaced files are kept, which lists of these SHA-256 name."""
        others = tuple(one for one in self.keeping if one.job_id != job_id)
        own = Keeping(job_id=job_id, until_ms=until_ms, lists=tuple(lists))
        return replace(self, keeping=(*others, own))

    def knowing(self, runs: Iterable[str]) -> Pointer:
        """The same if these, and those that it names, are all runs that there are."""
        named = {run for run, _ in self.runs}
        return replace(self, forgotten=_with("", (run for run in runs if run not in named)))

    def logged(self, log: LogFile) -> Pointer:
        """The same if a log tells of all jobs that there are, and of every run that it names."""
        return replace(self, runs=(), forgotten="", log=log)

    def unsure(self) -> Pointer:
        """The same if there may be runs that nobody has told it of."""
        return replace(self, forgotten=_UNKNOWN)

    def job_of_run(self, run_id: str) -> str | None:
        """The job that published a run; None if it is not among the last ones."""
        return dict(self.runs).get(run_id)

    def may_have_forgotten(self, run_id: str) -> bool:
        """Whether a run that it does not name may have been published all the same."""
        if self.forgotten in ("", _UNKNOWN):
            return bool(self.forgotten)
        digests, wanted = base64.b64decode(self.forgotten), _digest(run_id)
        place = digests.find(wanted)
        while place % _DIGEST_SIZE and place != -1:
            place = digests.find(wanted, place + 1)
        return place != -1

    @classmethod
    def from_bytes(cls, path: str, raw: bytes, *, size_limit: int = POINTER_SIZE_LIMIT) -> Pointer:
        return cls.from_fields(Fields(path, parse(path, raw, size_limit=size_limit)))

    @classmethod
    def from_fields(cls, fields: Fields) -> Pointer:
        check_format(fields, POINTER_FORMAT, {"keeping", "log"})
        runs = tuple(_run(fields, place, one) for place, one in enumerate(fields.elements("runs")))
        seen: set[str] = set()
        for place, (run, _) in enumerate(runs):
            if run in seen:
                raise fields.error(f"runs[{place}]", "a run that is named before")
            seen.add(run)
        return cls(
            job_id=fields.required_job_id(),
            nonce=fields.required_text("nonce"),
            changed_ms=fields.required_integer("changed", minimum=0),
            runs=runs,
            forgotten=_forgotten(fields),
            keeping=tuple(map(_keeping, fields.optional_objects("keeping"))),
            log=fields.optional("log", LogFile.from_fields),
            unknown=fields.rest(),
        )

    def to_bytes(self) -> bytes:
        """The whole file, one line."""
        needs = [name for name, used in (("keeping", self.keeping), ("log", self.log)) if used]
        document: dict[str, object] = {
            **heading(POINTER_FORMAT, needs),
            "jobId": self.job_id,
            "nonce": self.nonce,
            "changed": self.changed_ms,
            "runs": self.runs,
        }
        if self.forgotten:
            document["forgottenRuns"] = self.forgotten
        if self.keeping:
            document["keeping"] = _keeping_documents(self.keeping)
        if self.log is not None:
            document["log"] = self.log.to_document()
        raw = render(with_unknown(document, self.unknown))
        return within(raw, POINTER_SIZE_LIMIT, "the pointer of the manifests", "choose shorter names of runs")


def _keeping(fields: Fields) -> Keeping:
    return Keeping(
        job_id=fields.required_job_id(),
        until_ms=fields.required_integer("until", minimum=0),
        expires=fields.flag("expires", default=False),
        lists=_lists(fields),
        unknown=fields.rest(),
    )


def _lists(fields: Fields) -> tuple[str, ...]:
    found = fields.texts("lists")
    for place, one in enumerate(found):
        if _SHA256.fullmatch(one) is None:
            raise fields.error(f"lists[{place}]", "no SHA-256 in hexadecimal digits")
    return found


def _keeping_documents(keeping: Sequence[Keeping]) -> list[dict[str, object]]:
    documents, named = [], 0
    for one in keeping:
        document: dict[str, object] = {"jobId": one.job_id, "until": one.until_ms, "expires": one.expires}
        if one.lists and len(one.lists) <= min(_LISTS_OF_ONE_MAX, _LISTS_MAX - named):
            document["lists"] = one.lists
            named += len(one.lists)
        documents.append(with_unknown(document, one.unknown))
    return documents


def _forgotten(fields: Fields) -> str:
    found = fields.text("forgottenRuns")
    try:
        whole = found == _UNKNOWN or len(base64.b64decode(found, validate=True)) % _DIGEST_SIZE == 0
    except (binascii.Error, ValueError):
        whole = False
    if not whole:
        raise fields.error("forgottenRuns", "no digests of runs in base64")
    return found


def _kept_of(runs: tuple[tuple[str, str], ...]) -> int:
    """How many runs, the newest, are written down: long names must not make the pointer too large to read."""
    size = 0
    for number, (run, job) in enumerate(reversed(runs[-RUNS_KEPT:])):
        size += len(render({run: job}))
        if size > _RUNS_SIZE_MAX:
            return number
    return min(len(runs), RUNS_KEPT)


def _with(forgotten: str, runs: Iterable[str]) -> str:
    more = b"".join(map(_digest, runs))
    if not more or forgotten == _UNKNOWN:
        return forgotten
    digests = base64.b64decode(forgotten) + more
    return base64.b64encode(digests).decode() if len(digests) <= _FORGOTTEN_MAX * _DIGEST_SIZE else _UNKNOWN


def _digest(run: str) -> bytes:
    return hashlib.sha256(run.encode()).digest()[:_DIGEST_SIZE]


def _run(fields: Fields, place: int, value: Any) -> tuple[str, str]:
    name = f"runs[{place}]"
    if not isinstance(value, list) or [type(one) for one in value] != [str, str]:
        raise fields.error(name, "expected a list of a run id and a job id")
    run, job = value
    return run, fields.job_id_at(name, job)
