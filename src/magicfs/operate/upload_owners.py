"""Whose the pending uploads under a destination are, and whether anybody can still use them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from magicfs.engine import Engine
from magicfs.operate.open_uploads import OpenUpload, Survey, ends, survey
from magicfs.protocol.paths import Location
from magicfs.protocol.period import human_time
from magicfs.report import human_bytes

__all__ = ["Owner", "Share", "shares_of"]

_SILENT_S: Final = 3600.0
_REQUESTS_MAX: Final = 100
_SHOWN: Final = 3


class Owner(Enum):
    """Who began an upload, and what has become of them."""

    RUNNING = "running"
    """An unfinished job, or a path of a user's own, of which something was seen within the hour."""
    DEAD = "dead"
    """The same, of which nothing was seen for longer."""
    QUARANTINED = "quarantined"
    """A job whose audit has failed."""
    ENDED = "ended"
    """A job known by its name alone: it has ended, or nobody knows it."""
    NOBODY = "nobody"
    """Nobody that a file of magicfs names."""


@dataclass(frozen=True, slots=True)
class Share:
    """The uploads under a destination that have owners of one kind."""

    location: Location
    owner: Owner
    uploads: tuple[OpenUpload, ...]  # the oldest first
    seen: float  # when anything was seen of any of the owners, in seconds since the epoch
    bytes: int | None  # as far as their sizes are known; None if none is
    is_whole: bool  # whether all uploads under the destination were looked at

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
        match self.owner:
            case Owner.RUNNING:
                return f"of {several}, seen {seen}"
            case Owner.DEAD:
                return f"of {several}, last seen {seen}"
            case Owner.QUARANTINED:
                return f"of {several}, in quarantine"
            case Owner.ENDED:
                return f"of {several}, ended or unknown at this URL"
            case Owner.NOBODY:
                return "of unknown programs"

    @property
    def advice(self) -> str:
        """The commands that end them; empty of those that are in use."""
        if self.owner is Owner.RUNNING:
            return ""
        listed = f"magicfs uploads {self.location.url}"
        if self.owner is Owner.NOBODY:
            return f"{listed} lists them; end them with the program that started them, or by a lifecycle rule"
        ways = [ends(self.location, one) for one in self.uploads]
        if self.owner is Owner.ENDED:
            ways = [one[-1:] for one in ways]
        every = list(dict.fromkeys(", or ".join(one) for one in ways))
        more = f"; {listed} names {len(every) - _SHOWN} more" if len(every) > _SHOWN else ""
        lead = "if none of their drivers is running: " if self.owner is Owner.DEAD else ""
        return lead + "; ".join(every[:_SHOWN]) + more


async def shares_of(engine: Engine, location: Location) -> list[Share]:
    """The pending uploads under a destination by their owners, with a bounded number of requests.

    Of more than a thousand uploads the first are looked at.
    """
    found = await survey(engine.store, location.key, requests_max=_REQUESTS_MAX)
    signs = _signs(found)
    now = time.time()
    kinds: dict[Owner, list[OpenUpload]] = {}
    for upload in found.uploads:
        kinds.setdefault(_owner(upload, found, now - signs[_whose(upload)]), []).append(upload)
    return [
        Share(
            location,
            owner,
            tuple(kinds[owner]),
            max(signs[_whose(one)] for one in kinds[owner]),
            _bytes_of(kinds[owner], found),
            found.is_whole,
        )
        for owner in Owner
        if owner in kinds
    ]


def _whose(upload: OpenUpload) -> str:
    return upload.own_path or upload.job_id or ""


def _signs(found: Survey) -> dict[str, float]:
    """When anything was seen of each owner: a move of its job, work that was written, an upload begun."""
    signs = dict(found.seen)
    for name, one in found.jobs.items():
        signs[name] = max(signs.get(name, 0.0), one.job.changed_ms / 1000 if one.job else 0.0)
    for upload in found.uploads:
        signs[_whose(upload)] = max(signs.get(_whose(upload), 0.0), upload.initiated)
    return signs


def _owner(upload: OpenUpload, found: Survey, silent_s: float) -> Owner:
    if upload.quarantined:
        return Owner.QUARANTINED
    if upload.own_path or upload.is_foreign or upload.job_id in found.jobs:
        return Owner.RUNNING if silent_s < _SILENT_S else Owner.DEAD
    return Owner.NOBODY if upload.job_id is None else Owner.ENDED


def _bytes_of(uploads: Sequence[OpenUpload], found: Survey) -> int | None:
    """Their size: as records say, else as the objects of their jobs do; None if it is not known."""
    known = [one.length for one in uploads if one.length is not None]
    if known:
        return sum(known)
    jobs = {one.job_id for one in uploads} & set(found.jobs)
    sizes = [one.job.size for one in (found.jobs[job] for job in sorted(filter(None, jobs))) if one.job]
    return sum(sizes) or None
