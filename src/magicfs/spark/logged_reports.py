"""Reports of jobs that Spark commits: it does not return them to anybody, so they are logged."""

from __future__ import annotations

import logging

from magicfs.report import JobReport

__all__ = ["log_report"]

_LOG = logging.getLogger(__name__)


def log_report(report: JobReport) -> None:
    """Log what a job did, and each trouble that it had after its files were published as a warning."""
    _LOG.info("%s", report)
    for warning in report.warnings:
        _LOG.warning("job %s of %s: %s", report.job_id, report.destination, warning)
