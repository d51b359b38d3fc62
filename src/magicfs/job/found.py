"""Logging what a job found at its destination when it was set up, and what is odd about the destination."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

from magicfs.job.spec import JobSpec
from magicfs.protocol.paths import is_hidden
from magicfs.transaction.context import MANY_JOBS, FoundJob, FoundUpload, JobSetup, crowded

__all__ = ["LISTED_MAX", "log_found"]

LISTED_MAX = 20
"""Most uploads that are logged one by one, the oldest first."""

_LOGGER = logging.getLogger("magicfs")

_BY_VERSION = (
    "%s: job %s deletes the files that it replaces, and the bucket keeps them by the versions that manifests "
    "name; those without one stay where they are until magicfs expire, beside the new ones"
)
_IN_PLACE = (
    "%s: job %s keeps the files that it replaces where they are: who lists the destination sees them beside "
    "the new ones until magicfs expire; readers of manifests do not (magicfs.dataset, "
    "spark.read.format('magic'))"
)


def log_found(url: str, job: str, found: JobSetup, spec: JobSpec) -> None:
    """Log unfinished jobs and pending uploads, one line each, at INFO; as a warning that nothing will be
    published, because the run is, that readers who read a directory above skip the destination, and what
    readers who list will see of files that the job keeps, as its ``spec`` says.
    """
    name = url.rpartition("/")[2]
    if is_hidden(name):
        _LOGGER.warning(
            "%s: who reads a directory above skips %a, as every name that begins with _ or a dot; choose "
            "another name if that is not meant",
            url,
            name,
        )
    if found.published is not None:
        _LOGGER.warning(
            "%s: the run was published by job %s already: nothing that job %s writes will be published; use "
            "another run_id for other data",
            url,
            found.published,
            job,
        )
    if many := crowded(url, len(found.jobs)):
        _LOGGER.warning("%s", many)
    keep = spec.options.keep
    if keep.ms is not None and found.keeps_versions and not keep.in_place:
        _LOGGER.info(_BY_VERSION, url, job)
    elif keep.ms is not None:
        _LOGGER.warning(_IN_PLACE, url, job)
    if not _LOGGER.isEnabledFor(logging.INFO):
        return
    _LOGGER.info("%s: job %s is set up", url, job)
    for other in found.jobs[:MANY_JOBS]:
        _LOGGER.info("%s: %s; found by job %s", url, _job(other), job)
    if found.uploads is None:
        _LOGGER.info("%s: pending uploads may not be listed; found by job %s", url, job)
        return
    uploads = sorted(found.uploads, key=lambda one: (one.initiated, one.key))
    for upload in uploads[:LISTED_MAX]:
        _LOGGER.info("%s: %s; found by job %s", url, _upload(upload), job)
    if len(uploads) > LISTED_MAX:
        rest = len(uploads) - LISTED_MAX
        _LOGGER.info(
            "%s: %d more uploads are pending; magicfs pending lists them; found by job %s", url, rest, job
        )


def _job(one: FoundJob) -> str:
    if one.state is None:
        return f"the job object of job {one.job_id!a} cannot be read: {one.problem!a}"
    run = f" of run {one.run_id!a}" if one.run_id is not None else ""
    return (
        f"job {one.job_id}{run} is unfinished: {one.state} since {_moment(one.changed)} on {one.host!a}, set "
        f"up {_moment(one.created)}"
    )


def _upload(one: FoundUpload) -> str:
    return f"an upload of {one.key!a} is pending since {_moment(one.initiated)} (id {one.upload_id!a})"


def _moment(seconds: float) -> str:
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"
    except (ValueError, OverflowError, OSError):
        return f"{seconds} s after the epoch"
