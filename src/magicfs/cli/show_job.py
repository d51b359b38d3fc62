"""How ``magicfs show`` shows a job object and what it names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magicfs.cli.printing import human_moment, print_fields, print_table, write_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from magicfs.formats.deletions import OldObject
    from magicfs.formats.job_object import JobObject

__all__ = ["show_deletions", "show_job"]


def show_job(url: str, job: JobObject) -> None:
    """Print a job object."""
    from magicfs.protocol.job_state import MEANING
    from magicfs.report import human_bytes

    settled = bool(job.chunks)
    print_fields(
        [
            ("file", url),
            ("kind", "the state of a job (job object)"),
            ("job", job.job_id),
            ("run", job.run_id),
            ("state", f"{job.state}: {MEANING[job.state]}"),
            ("reason", job.reason),
            ("destination", f"{job.bucket}/{job.destination}"),
            ("extra destinations", ", ".join(f"{job.bucket}/{one.key}" for one in job.extra_destinations)),
            ("conflict", job.conflict),
            ("committer", f"{job.committer}, tracking {job.tracking}, layout {job.layout}"),
            ("unique names", "yes" if job.unique_names else "no"),
            ("attempt", job.attempt),
            ("driver", job.driver),
            ("set up", human_moment(job.created_ms)),
            ("changed", human_moment(job.changed_ms)),
            ("host", job.host),
            ("tasks", job.tasks if settled else None),
            ("files", f"{job.files} ({human_bytes(job.size)})" if settled else "not settled yet"),
            ("deletes", sum(chunk.files for chunk in job.deletions) or None),
            ("partitions", ", ".join(job.partitions or ())),
            ("equal keys", len(job.equal_keys) or None),
            ("way back", "none: a file of an equal name is being replaced" if job.irreversible else None),
            (
                "published before",
                f"job {job.pointer.job}" if job.pointer else "nothing that a manifest tells",
            ),
            ("older files", "are there, in no manifest" if job.older_files else None),
            ("old _SUCCESS", job.old_success.key if job.old_success else "none"),
            ("nonce", job.nonce),
        ]
    )
    facts = [("files", chunk) for chunk in job.chunks] + [("deletions", chunk) for chunk in job.deletions]
    if facts:
        write_line("")
        rows = ((what, str(one.files), human_bytes(one.size), one.sha256, one.key) for what, one in facts)
        print_table(("CHUNK OF", "COUNT", "SIZE", "SHA-256", "KEY"), rows)


def show_deletions(url: str, objects: Sequence[OldObject]) -> None:
    """Print a chunk of deletions."""
    from magicfs.report import human_bytes

    print_fields(
        [
            ("file", url),
            ("kind", "old files that a job deletes once its own are visible (deletions)"),
            ("files", len(objects)),
            ("size", human_bytes(sum(one.size for one in objects))),
        ]
    )
    if objects:
        write_line("")
        print_table(("SIZE", "ETAG", "KEY"), ((human_bytes(one.size), one.etag, one.key) for one in objects))
