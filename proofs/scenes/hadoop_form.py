"""Jobs in a form of Hadoop, together with what ``hadoop=`` refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from magicfs.job.job import Job

__all__ = ["in_form"]


def in_form(job: Job, **form: Any) -> Job:
    """A job that is not set up yet, in another form: ``layout``, ``etag_format``, ``sets``."""
    options = job.spec.options
    job.spec = replace(job.spec, options=replace(options, hadoop=replace(options.hadoop, **form)))
    return job
