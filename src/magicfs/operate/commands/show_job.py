"""How ``magicfs show`` shows the files that say what becomes of a job, and what they name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magicfs.cli.printing import Field, Shown, Table, human_moment
from magicfs.report import human_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from magicfs.formats.audit import Audit
    from magicfs.formats.deletions import OldObject
    from magicfs.formats.job_location import JobLocation
    from magicfs.formats.job_object import JobObject


def audit_fields(audit: Audit | None) -> list[Field]:
    """What an audit said, a line for each rule."""
    if audit is None:
        return []
    said = [
        (f"audit {'passed' if one.passed else 'failed'}", f"{one.rule}: {one.told}") for one in audit.verdicts
    ]
    return [*said, ("compared with", audit.against and f"job {audit.against}"), ("accepted", audit.accepted)]


def show_job(job: JobObject) -> Shown:
    """A job object."""
    lists = {"files": job.chunks, "deletions": job.deletions, "restored": job.restored, "hidden": job.hidden}
    rows = [
        (what, str(one.files), human_bytes(one.size), one.sha256, one.key)
        for what, found in lists.items()
        for one in found
    ]
    fields = [*_state(job), *_asked(job), *_facts(job)]
    return fields, Table(("CHUNK OF", "COUNT", "SIZE", "SHA-256", "KEY"), rows)


def _state(job: JobObject) -> list[Field]:
    """Which job it is, where, and what it waits for."""
    from magicfs.protocol.job_state import MEANING

    return [
        ("job", job.job_id),
        ("run", job.options.run_id),
        ("label", job.options.label),
        ("state", f"{job.state}: {MEANING[job.state]}"),
        ("reason", job.reason),
        ("quarantine", "yes: accept or abort it" if job.is_quarantined else None),
        ("to be judged by", "; ".join(job.options.audit.rules) if job.is_unjudged else None),
        *audit_fields(job.audit),
        ("destination", f"{job.bucket}/{job.destination}"),
        ("extra destinations", _places(job, job.options.places.extra)),
    ]


def _asked(job: JobObject) -> list[Field]:
    """What it was asked for."""
    from magicfs.protocol.period import period_text

    asked = job.options
    return [
        ("mode", asked.mode),
        ("may delete in", _places(job, asked.places.also_overwrite)),
        ("keeps replaced files", asked.keep.ms and f"for {period_text(asked.keep.ms)}"),
        ("shows again", asked.rollback.job and f"the state published by job {asked.rollback.job}"),
        ("committer", f"{asked.committer}, tracking {asked.tracking}, layout {asked.hadoop.layout}"),
        ("small files", asked.small_files and f"up to {human_bytes(asked.small_files)}, in bundles"),
        ("footers", "kept" if asked.collect.footers else None),
        ("checksums", "kept" if asked.collect.checksums else None),
        ("unique names", "yes" if asked.unique_names else "no"),
        ("begun by", asked.hadoop.begun_by),
    ]


def _facts(job: JobObject) -> list[Field]:
    """Who has moved it, and what it publishes and replaces."""
    return [
        ("attempt", job.attempt),
        ("driver", job.driver),
        ("set up", human_moment(job.created_ms)),
        ("changed", human_moment(job.changed_ms)),
        ("host", job.host),
        *_settled(job),
        ("deletes", sum(chunk.files for chunk in job.deletions) or None),
        ("partitions", ", ".join(job.partitions or ())),
        ("equal keys", len(job.equal_keys) or None),
        ("way back", _no_way_back(job)),
        ("published before", f"job {job.pointer.job}" if job.pointer else "nothing that is in a manifest"),
        ("older files", "exist, in no manifest" if job.older_files else None),
        ("old _SUCCESS", job.old_success.key if job.old_success else "none"),
        ("writes _SUCCESS", None if job.options.success_marker else "no"),
        ("nonce", job.nonce),
    ]


def _settled(job: JobObject) -> list[Field]:
    """How much it publishes; nobody knows before its chunks are written."""
    if not job.chunks:
        return [("files", "not settled yet")]
    return [("tasks", job.tasks), ("files", f"{job.files} ({human_bytes(job.size)})")]


def _places(job: JobObject, keys: Sequence[str]) -> str:
    return ", ".join(f"{job.bucket}/{one}" for one in keys)


def _no_way_back(job: JobObject) -> str | None:
    if not job.irreversible:
        return None
    return f"none: {'a file of an equal name is being replaced' if job.equal_keys else 'small files are put'}"


def show_deletions(objects: Sequence[OldObject]) -> Shown:
    """A chunk of deletions."""
    size = human_bytes(sum(one.size for one in objects))
    rows = [(human_bytes(one.size), one.etag, one.key) for one in objects]
    return (("files", len(objects)), ("size", size)), Table(("SIZE", "ETAG", "KEY"), rows)


def show_job_location(location: JobLocation) -> Shown:
    """Where a job's object is."""
    return ((("job", location.job), ("destination", location.destination or "the whole bucket")),)
