"""Notifications that drivers that died have not sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Literal, Unpack

from magicfs.catalogs.catch_up import left, remove
from magicfs.catalogs.recorded import NOTIFICATIONS
from magicfs.datasets.connection import Destination, Way, open_destination
from magicfs.errors import UsageError
from magicfs.formats.registration import Registration
from magicfs.notify.notifiers import Notifier, notifiers
from magicfs.report import Report
from magicfs.stores import resolve


@dataclass(frozen=True, slots=True)
class Notified(Report):
    """A notification that a job owed.

    Attributes:
        job_id: The job.
        kind: ``webhook``, ``openlineage`` or ``function``.
        name: The name of the notification.
        done: ``sent``; ``would send``, with ``dry_run``; ``not sent``, then ``problem`` says why; or
            ``forgotten``, for its job was never published.
        problem: What went wrong; empty if nothing did.
    """

    job_id: str
    kind: str
    name: str
    done: Literal["sent", "would send", "not sent", "forgotten"]
    problem: str = ""


def catch_up(
    url: str | PathLike[str], after: Sequence[object] = (), *, dry_run: bool = False, **way: Unpack[Way]
) -> tuple[Notified, ...]:
    """Send the notifications of jobs with option ``after`` whose drivers died before they sent them.

    A record of a job says only kind and name. It is sent by the notification of ``after`` of that kind and
    name, and by no other, so nobody who writes to the store chooses where it goes.

    Args:
        url: The destination, such as ``s3://bucket/sales``.
        after: The notifications of this process, as in the jobs.
        dry_run: Change nothing; report what would be sent.
        **way: ``storage_options`` or ``filesystem``.

    Raises:
        FormatError: What a job has recorded is malformed; nothing was changed.
        UsageError: ``after`` holds something else.
        StoreError: The store refused, or did not answer; call again.
    """
    known = {(one.kind, one.name): one for one in notifiers(after)}
    place = open_destination(url, **way)
    found = place.run(left, lambda one: one.catalog in NOTIFICATIONS)
    if found.forgotten and not dry_run:
        place.run(remove, found.forgotten)
    refused = (Notified(one.job_id, one.catalog, one.table, "not sent", one.problem) for one in found.refused)
    sent = [_sent(place, one, known.get((one.catalog, one.table)), dry_run=dry_run) for one in found.dead]
    forgotten = (Notified(one.job_id, one.catalog, one.table, "forgotten") for one in found.forgotten)
    return (*refused, *sent, *forgotten)


def _sent(place: Destination, owed: Registration, notifier: Notifier | None, *, dry_run: bool) -> Notified:
    said = (owed.job_id, owed.catalog, owed.table)
    if notifier is None:
        problem = f"this process has no {owed.catalog} named {owed.table}; name it in the file of --notify"
        return Notified(*said, "not sent", problem)
    if dry_run:
        return Notified(*said, "would send")
    try:
        notifier.deliver(place, owed)
    except UsageError as error:
        return Notified(*said, "not sent", str(error))
    except Exception as error:  # noqa: BLE001 - of any function; the others are sent all the same
        return Notified(*said, "not sent", f"{type(error).__name__}: {resolve.redacted(str(error))}")
    return Notified(*said, "sent")
