"""The open uploads of a bucket or of a directory in it, of every program: counted, and ended if nobody can
need them.

However many there are, memory holds a thousand of them at a time, the thousand oldest, and sums.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final

from magicfs.engine import Engine
from magicfs.errors import FormatError, StoreError, UploadNotFound, UsageError
from magicfs.operate.lifecycle import rule_document
from magicfs.operate.open_uploads import OpenUpload, Owner, Owners, ends
from magicfs.operate.prices import Price
from magicfs.protocol import paths
from magicfs.protocol.paths import Location
from magicfs.protocol.period import human_age
from magicfs.report import Report
from magicfs.runtime.parallel import drained
from magicfs.stores.port import Upkeep, upkeep_of

MIN_AGE_S: Final = 86_400
"""Uploads that are younger are never ended."""
_SHOWN_MAX: Final = 1000
_GROUPS_MAX: Final = 1000
_OTHERS: Final = "(others)"
_SKEW_S: Final = 300.0
_FREE: Final = frozenset({Owner.ENDED, Owner.NOBODY})


@dataclass(slots=True)
class Group:
    """Uploads that are counted together.

    Attributes:
        uploads: How many.
        bytes: Their known sizes.
        unsized: How many have no known size.
        oldest: When the oldest was opened, in seconds since the epoch.
    """

    uploads: int = 0
    bytes: int = 0
    unsized: int = 0
    oldest: float = float("inf")

    def add(self, upload: OpenUpload) -> None:
        """Count an upload."""
        self.uploads += 1
        self.bytes += upload.length or 0
        self.unsized += upload.length is None
        self.oldest = min(self.oldest, upload.initiated)

    def join(self, other: Group) -> None:
        """Count the uploads of another group."""
        self.uploads += other.uploads
        self.bytes += other.bytes
        self.unsized += other.unsized
        self.oldest = min(self.oldest, other.oldest)


@dataclass(slots=True)
class Aborting:
    """What was ended, or with ``dry_run`` would be.

    Attributes:
        older_than_s: How old an upload has to be, in seconds.
        dry_run: Whether nothing was changed.
        ended: What was ended.
        young: How many nobody needs that are younger.
        written: How many nobody needs to which somebody wrote a part within that time.
        gone: How many ended by themselves meanwhile.
        left: How many are left, by the reason.
    """

    older_than_s: float
    dry_run: bool
    ended: Group = field(default_factory=Group)
    young: int = 0
    written: int = 0
    gone: int = 0
    left: dict[str, int] = field(default_factory=dict)

    def leave(self, reason: str) -> None:
        """Count an upload that is left."""
        known = reason if reason in self.left or len(self.left) < _GROUPS_MAX else _OTHERS
        self.left[known] = self.left.get(known, 0) + 1


@dataclass(slots=True)
class UploadsReport(Report):
    """The open uploads below a URL.

    Attributes:
        url: The bucket or directory.
        now: The time that ages count from, in seconds since the epoch.
        price: What bytes cost.
        total: All uploads.
        owners: The same by owner.
        prefixes: The same by the directories below the URL.
        initiators: The same by who opened them, where the store says so.
        oldest: The thousand oldest, or fewer, the oldest first.
        unreadable: Files of jobs that are malformed or inconsistent.
        aborting: What was ended; None if nothing was asked for.
    """

    url: str
    now: float
    price: Price
    total: Group = field(default_factory=Group)
    owners: dict[Owner, Group] = field(default_factory=dict)
    prefixes: dict[str, Group] = field(default_factory=dict)
    initiators: dict[str, Group] = field(default_factory=dict)
    oldest: tuple[OpenUpload, ...] = ()
    unreadable: list[FormatError] = field(default_factory=list)
    aborting: Aborting | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        location = paths.parse_url(self.url)
        return {
            "destination": self.url,
            "count": self.total.uploads,
            **self._group(self.total),
            "price": {"dollars_a_gib_month": self.price.dollars, "source": self.price.source},
            "owners": {owner.value: self._group(one) for owner, one in self.owners.items()},
            "prefixes": {name: self._group(one) for name, one in self.prefixes.items()},
            "initiators": {name: self._group(one) for name, one in self.initiators.items()},
            "pending": [self._upload(location, one) for one in self.oldest],
            "unreadable": [str(error) for error in self.unreadable],
            "aborting": self._aborting(),
            "lifecycle_rule": rule_document(location),
        }

    def _group(self, group: Group) -> dict[str, object]:
        dollars = self.price.of(group.bytes)
        return {
            "uploads": group.uploads,
            "bytes": group.bytes,
            "bytes_unknown": group.unsized,
            "oldest_age_seconds": self._age(group.oldest) if group.uploads else None,
            "dollars_a_month": None if dollars is None else round(dollars, 4),
        }

    def _upload(self, location: Location, upload: OpenUpload) -> dict[str, object]:
        return {
            "key": upload.key,
            "upload_id": upload.upload_id,
            "initiated": datetime.fromtimestamp(upload.initiated, UTC).isoformat(timespec="seconds"),
            "age_seconds": self._age(upload.initiated),
            "bytes": upload.length,
            "owner": upload.owner.value,
            "initiator": upload.initiator,
            "job_id": upload.job_id,
            "quarantined": upload.quarantined,
            "unjudged": upload.unjudged,
            "held": upload.held,
            "end": list(ends(location, upload)),
        }

    def _aborting(self) -> dict[str, object] | None:
        if (one := self.aborting) is None:
            return None
        left = {"young": one.young, "written_lately": one.written, "ended_meanwhile": one.gone}
        return {
            "dry_run": one.dry_run,
            "older_than_seconds": one.older_than_s,
            "ended": self._group(one.ended),
            "left": {**left, "needed": dict(sorted(one.left.items()))},
        }

    def _age(self, moment: float) -> int:
        return max(0, round(self.now - moment))

    def _rows(self) -> list[tuple[str, object]]:
        return [("url", self.url), ("uploads", self.total.uploads), ("bytes", self.total.bytes)]


async def survey(
    engine: Engine,
    location: Location,
    price: Price,
    *,
    sizes: bool = False,
    depth: int = 1,
    older_than_s: float | None = None,
    dry_run: bool = False,
    progress: Callable[[UploadsReport], object] = id,
    clock: Callable[[], float] = time.time,
) -> UploadsReport:
    """Count the open uploads below a location; with ``older_than_s`` end those that nobody can need.

    Ended is an upload that no unfinished job, and no work of one, could need; that is older, by the store's
    clock; and to which nobody wrote a part within that time. A second call ends what is left.

    Args:
        engine: Of the store.
        location: A bucket, or a directory in it.
        price: What bytes cost.
        sizes: Ask for the size of each upload that no record has; one request for each.
        depth: How many directories below the location count as one prefix.
        older_than_s: How old an upload has to be to be ended; None to end none.
        dry_run: End nothing; count what would be ended.
        progress: Called with the report so far after each thousand uploads.
        clock: This machine's clock.

    Raises:
        UsageError: The age is too small, or the clocks differ; nothing was changed.
        Unsupported: The store cannot say how large uploads are, or when they were written; nothing was
            changed.
    """
    owners = Owners(engine, location.key)
    now = clock()
    report = UploadsReport(location.url, now, price)
    if sizes or older_than_s is not None:
        upkeep = upkeep_of(engine.store)
    if older_than_s is not None:
        await _check(upkeep, older_than_s, now)
        report.aborting = Aborting(older_than_s, dry_run)
    prefix = paths.prefix_of(location.key)
    tally = _Tally(owners, prefix, depth)
    async for batch in owners.batches(engine.store.list_uploads(prefix)):
        left = await _sized(engine, upkeep, batch) if sizes else batch
        if report.aborting is not None:
            left = await _end(engine, upkeep, report.aborting, left, now)
        for one in left:
            tally.add(one)
        progress(report)
    tally.write(report)
    report.unreadable = sorted(owners.unreadable, key=str)
    return report


async def _check(upkeep: Upkeep, older_than_s: float, now: float) -> None:
    """Raise UsageError for an age that is too short, or cannot be known."""
    if older_than_s < MIN_AGE_S:
        raise UsageError(
            f"--older-than {human_age(older_than_s)} is too short: a program may still write such an upload; "
            "nothing was changed; give 1d or more, and more than your longest job takes"
        )
    theirs = await upkeep.clock()
    if abs(now - theirs) > _SKEW_S:
        raise UsageError(
            f"this machine's clock is {human_age(abs(now - theirs))} "
            f"{'ahead of' if now > theirs else 'behind'} the store's, so the age of uploads is not known; "
            "nothing was changed; set the clock, then try again"
        )


class _Tally:
    """Sums, while uploads pass. Whether an owner runs is decided at the end: a later upload may show it."""

    def __init__(self, owners: Owners, prefix: str, depth: int) -> None:
        self._owners = owners
        self._prefix = prefix
        self._depth = depth
        self._sums: dict[tuple[Owner, str], Group] = {}
        self._prefixes: dict[str, Group] = {}
        self._initiators: dict[str, Group] = {}
        self._oldest: list[tuple[float, str, str, OpenUpload]] = []

    def add(self, upload: OpenUpload) -> None:
        """Count an upload that is still there."""
        whose = upload.whose if upload.owner is Owner.RUNNING else ""
        self._sums.setdefault((upload.owner, whose), Group()).add(upload)
        elements = upload.key[len(self._prefix) :].split("/")[:-1][: self._depth]
        self._of(self._prefixes, "/".join([*elements, ""]) if elements else "").add(upload)
        if upload.initiator:
            self._of(self._initiators, upload.initiator).add(upload)
        entry = (-upload.initiated, upload.key, upload.upload_id, upload)
        if len(self._oldest) < _SHOWN_MAX:
            heapq.heappush(self._oldest, entry)
        else:
            heapq.heappushpop(self._oldest, entry)

    def _of(self, groups: dict[str, Group], name: str) -> Group:
        return groups.setdefault(name if name in groups or len(groups) < _GROUPS_MAX else _OTHERS, Group())

    def write(self, report: UploadsReport) -> None:
        """Fill in the report as of now."""
        found: dict[Owner, Group] = {}
        report.total = Group()
        for (owner, whose), group in self._sums.items():
            today = self._owners.owner_now(owner, whose, report.now)
            found.setdefault(today, Group()).join(group)
            report.total.join(group)
        report.owners = {owner: found[owner] for owner in Owner if owner in found}
        largest = lambda one: (-one[1].bytes, -one[1].uploads, one[0])  # noqa: E731
        report.prefixes = dict(sorted(self._prefixes.items(), key=largest))
        report.initiators = dict(sorted(self._initiators.items(), key=largest))
        now, listed = self._owners.owner_now, sorted(self._oldest, key=lambda one: (-one[0], *one[1:3]))
        shown = (one[3] for one in listed)
        report.oldest = tuple(replace(one, owner=now(one.owner, one.whose, report.now)) for one in shown)


async def _sized(engine: Engine, upkeep: Upkeep, batch: Sequence[OpenUpload]) -> list[OpenUpload]:
    """The same uploads with their sizes, but for those that have ended since."""
    found = dict(enumerate(batch))

    async def look(number: int) -> bool:
        one = batch[number]
        try:
            found[number] = replace(one, length=(await upkeep.written(one.key, one.upload_id)).size)
        except UploadNotFound:
            del found[number]
        return True

    await drained((n for n, one in enumerate(batch) if one.length is None), look, engine.concurrency)
    return [found[number] for number in sorted(found)]


async def _end(
    engine: Engine, upkeep: Upkeep, aborting: Aborting, batch: Sequence[OpenUpload], now: float
) -> list[OpenUpload]:
    """End the uploads of a batch that nobody can need; returns those that are left."""
    left: list[OpenUpload] = []
    before = now - aborting.older_than_s

    def chosen() -> Iterator[OpenUpload]:
        for one in batch:
            if one.held or one.owner not in _FREE:
                aborting.leave(one.held or f"of an owner that is {one.owner.value}")
            elif one.initiated <= 0:
                aborting.leave("the store does not say when it was opened")
            elif one.initiated > before:
                aborting.young += 1
            else:
                yield one
                continue
            left.append(one)

    async def end(one: OpenUpload) -> bool:
        try:
            written = await upkeep.written(one.key, one.upload_id)
            if (written.last or 0.0) > before:
                aborting.written += 1
                left.append(one)
                return True
            if not aborting.dry_run:
                await engine.store.abort_upload(one.key, one.upload_id)
        except UploadNotFound:
            aborting.gone += 1
            return True
        aborting.ended.add(replace(one, length=written.size))
        if aborting.dry_run:
            left.append(replace(one, length=written.size))
        return True

    try:
        await drained(chosen(), end, engine.concurrency)
    except StoreError as error:
        error.add_note(f"{aborting.ended.uploads} uploads were ended before; the same command goes on")
        raise
    return left
