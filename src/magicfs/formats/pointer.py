"""The manifest pointer of a destination: the newest published job. Format ``magicfs.pointer/1``.

While replaced files are kept it requires ``keeping`` of its readers, whose jobs would delete them. Once a log
has the older runs it requires ``log``: a reader without it would publish them again.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import ClassVar, Final

from magicfs.formats.document import parse, render
from magicfs.formats.fields import Fields
from magicfs.formats.limits import POINTER_SIZE_LIMIT, within
from magicfs.formats.log import LogFile
from magicfs.formats.record import COUNT, FLAG, JOB, TEXT, Record, child, each, member, record

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


def _lists(fields: Fields, key: str) -> tuple[str, ...]:
    found = fields.texts(key)
    for place, one in enumerate(found):
        if _SHA256.fullmatch(one) is None:
            raise fields.error(f"{key}[{place}]", "no SHA-256 in hexadecimal digits")
    return found


@record
class Keeping(Record):
    """A job whose replaced files are still there; its manifest names the lists of them."""

    job_id: str = member(JOB)
    until_ms: int = member(COUNT)  # when its promise ends
    expires: bool = member(FLAG, default=False)
    """Whether they are being deleted, or may be: nobody counts on them any more."""
    lists: tuple[str, ...] = member(_lists, default=(), rare=True)
    """The SHA-256 of each of its lists, in order, so that nobody has to read the manifest for them; empty if
    only that knows them.
    """


def _runs(fields: Fields, key: str) -> tuple[tuple[str, str], ...]:
    runs: dict[str, str] = {}
    for place, value in enumerate(fields.elements(key)):
        name = f"{key}[{place}]"
        if not isinstance(value, list) or [type(one) for one in value] != [str, str]:
            raise fields.error(name, "expected a list of a run id and a job id")
        run, job = value
        if run in runs:
            raise fields.error(name, "a run that is named before")
        runs[run] = fields.job_id_at(name, job)
    return tuple(runs.items())


def _forgotten(fields: Fields, key: str) -> str:
    found = fields.text(key)
    try:
        whole = found == _UNKNOWN or len(base64.b64decode(found, validate=True)) % _DIGEST_SIZE == 0
    except (binascii.Error, ValueError):
        whole = False
    if not whole:
        raise fields.error(key, "no digests of runs in base64")
    return found


@record
class Pointer(Record):
    """The head of a destination's chain of manifests. A value: every move makes a new one."""

    FORMAT: ClassVar = "magicfs.pointer/1"
    KNOWN: ClassVar = frozenset({"keeping", "log"})

    job_id: str = member(JOB)  # the newest published job
    nonce: str = member(TEXT)  # another one in every version, so that a writer recognises its own
    changed_ms: int = member(COUNT)  # when it was moved
    runs: tuple[tuple[str, str], ...] = member(_runs, default=(), required=True)
    """Run id and job id of the last published jobs that had a run id, the newest last; no run twice."""
    forgotten: str = member(_forgotten, default="", key="forgottenRuns", rare=True)
    """The runs before those: of each the first four bytes of the SHA-256 of its id, in base64; ``?`` if they
    are not known.
    """
    keeping: tuple[Keeping, ...] = member(each(Keeping), default=(), rare=True)
    """The jobs whose replaced files are still there, in the order in which they were published."""
    log: LogFile | None = member(child(LogFile), default=None, rare=True)
    """Where the log is that tells of all jobs before those that ``runs`` and ``forgotten`` are about."""
    follows: tuple[str, ...] = member(Fields.texts, default=(), rare=True)
    """The keys of extensions that are asked after every publication, sorted."""

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

    def needs(self) -> list[str]:
        return [name for name, used in (("keeping", self.keeping), ("log", self.log)) if used]

    def to_bytes(self) -> bytes:
        raw = render(replace(self, keeping=_short(self.keeping)).to_document())
        return within(raw, POINTER_SIZE_LIMIT, "the pointer of the manifests", "choose shorter names of runs")


def _short(keeping: Iterable[Keeping]) -> tuple[Keeping, ...]:
    """The same, with as many names of lists as a pointer may have."""
    found, named = [], 0
    for one in keeping:
        fits = len(one.lists) <= min(_LISTS_OF_ONE_MAX, _LISTS_MAX - named)
        named += len(one.lists) if fits else 0
        found.append(one if fits else replace(one, lists=()))
    return tuple(found)


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
