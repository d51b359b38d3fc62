"""Whose the pending uploads under a destination are, and whether anybody can still use them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from magicfs.engine import Engine
from magicfs.operate.open_uploads import OpenUpload, Owner, Owners, ends
from magicfs.protocol import paths
from magicfs.protocol.paths import Location
from magicfs.protocol.period import human_time
from magicfs.report import human_bytes

_REQUESTS_MAX: Final = 100
_SHOWN: Final = 3
_YOUNG_S: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class Share:
    """The uploads under a destination that have owners of one kind."""

    location: Location
    owner: Owner
    uploads: tuple[OpenUpload, ...]  # the oldest first
    seen: float  # when anything was seen of any of the owners, in seconds since the epoch
    bytes: int | None  # as far as their sizes are known; None if none is
    is_whole: bool  # whether all uploads under the destination were looked at

    def needs_decision(self, now: float) -> bool:
        """Whether somebody has to look at them. What other programs have begun is theirs for a day."""
        young = self.owner is Owner.NOBODY and now - self.uploads[0].initiated < _YOUNG_S
        return self.owner is not Owner.RUNNING and not young

    def to_dict(self) -> dict[str, object]:
        """Plain values, ready for JSON."""
        return {
            "owner": self.owner.value,
            "uploads": len(self.uploads),
            "bytes": self.bytes,
            "all": self.is_whole,
        }

    @property
    def sentence(self) -> str:
        """How many there are, of whom, how old and how large."""
        now = time.time()
        number = f"{len(self.uploads)}{'' if self.is_whole else ' and more'}"
        size = "" if self.bytes is None else f", {human_bytes(self.bytes)}"
        oldest, seen = human_time(self.uploads[0].initiated, now), human_time(self.seen, now)
        return f"{number} pending {self._of(seen)}, the oldest started {oldest}{size}"

    def _of(self, seen: str) -> str:
        names = list(dict.fromkeys(f"job {one.job_id}" if one.job_id else "" for one in self.uploads))
        several = names[0] or "an own path" if len(names) == 1 else f"{len(names)} jobs or own paths"
        said = {
            Owner.RUNNING: f"of {several}, seen {seen}",
            Owner.DEAD: f"of {several}, last seen {seen}",
            Owner.QUARANTINED: f"of {several}, in quarantine",
            Owner.HADOOP: f"of {several}, begun by Hadoop, last seen {seen}",
            Owner.ENDED: f"of {several}, ended or unknown at this URL",
            Owner.NOBODY: "of unknown programs",
            Owner.UNKNOWN: "of somebody unknown: a directory above cannot be read",
        }
        return said[self.owner]

    @property
    def advice(self) -> str:
        """The commands that end them; empty of those that are in use."""
        if self.owner is Owner.RUNNING:
            return ""
        listed = f"magicfs uploads {self.location.url}"
        if self.owner is Owner.NOBODY:
            ended = f"{listed} --abort --older-than 7d"
            return (
                f"{listed} lists them; if no program of yours writes them, once they are 7 days old: {ended}"
            )
        if self.owner is Owner.UNKNOWN:
            return f"{listed} names the directory; run it with credentials that may list the whole bucket"
        ways = [ends(self.location, one) for one in self.uploads]
        if self.owner is Owner.ENDED:
            ways = [one[-1:] for one in ways]
        every = list(dict.fromkeys(", or ".join(one) for one in ways))
        more = f"; {listed} names {len(every) - _SHOWN} more" if len(every) > _SHOWN else ""
        lead = "if none of their drivers is running: " if self.owner is Owner.DEAD else ""
        return lead + "; ".join(every[:_SHOWN]) + more


async def shares_of(engine: Engine, location: Location, *, requests_max: int = _REQUESTS_MAX) -> list[Share]:
    """The pending uploads under a destination by their owners, with a bounded number of requests.

    Of more than a thousand uploads the first are looked at.
    """
    owners = Owners(engine, location.key, requests_max=requests_max)
    listed = owners.batches(engine.store.list_uploads(paths.prefix_of(location.key)))
    found = [one async for batch in listed for one in batch]
    now = time.time()
    kinds: dict[Owner, list[OpenUpload]] = {}
    for upload in sorted(found, key=lambda one: (one.initiated, one.key, one.upload_id)):
        kinds.setdefault(owners.owner_now(upload.owner, upload.whose, now), []).append(upload)
    return [
        Share(
            location,
            owner,
            tuple(kinds[owner]),
            max(owners.seen[one.whose] for one in kinds[owner]),
            _bytes_of(kinds[owner], owners),
            owners.is_whole,
        )
        for owner in Owner
        if owner in kinds
    ]


def _bytes_of(uploads: Sequence[OpenUpload], owners: Owners) -> int | None:
    """Their size: as records say, else as the objects of their jobs do; None if it is not known."""
    known = [one.length for one in uploads if one.length is not None]
    if known:
        return sum(known)
    jobs = {one.job_id for one in uploads} & set(owners.jobs)
    sizes = [one.job.size for one in (owners.jobs[job] for job in sorted(filter(None, jobs))) if one.job]
    return sum(sizes) or None
