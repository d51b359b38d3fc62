"""Catalogs that a job brings up to date when it is published."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from magicfs.committers.registry import COMMITTERS
from magicfs.errors import UsageError
from magicfs.report import JobReport

if TYPE_CHECKING:
    from fsspec.spec import AbstractFileSystem

    from magicfs.job.spec import JobSpec

__all__ = ["ShowsDatasets", "check_catalogs", "shown_by"]

_LOGGER = logging.getLogger("magicfs")


class ShowsDatasets(Protocol):
    """A table of a catalog, as ``magicfs.catalogs`` has them."""

    def register(self, url: str, *, filesystem: AbstractFileSystem | None = None) -> object:
        """Let the table show what is published at a destination."""


def check_catalogs(catalogs: Sequence[ShowsDatasets], spec: JobSpec) -> tuple[ShowsDatasets, ...]:
    """Raise UsageError for what is no catalog, or if the job leaves no manifests to register from."""
    for one in catalogs:
        if not hasattr(one, "register"):
            raise UsageError(f"catalogs holds {one!r}; give those of magicfs.catalogs, such as [Delta()]")
    if catalogs and (not COMMITTERS[spec.committer].driven or spec.publish == "flip"):
        driven = ", ".join(name for name, other in COMMITTERS.items() if other.driven)
        raise UsageError(
            "catalogs are registered from manifests, and this job writes none; use one of "
            f"{driven}, without publish='flip', or leave catalogs out"
        )
    return tuple(catalogs)


def shown_by(report: JobReport, spec: JobSpec, catalogs: Sequence[ShowsDatasets]) -> JobReport:
    """Register with each catalog. The job is published, so what goes wrong is a warning of its report."""
    warnings = []
    for catalog in catalogs:
        try:
            catalog.register(spec.location.url, filesystem=spec.wrapped())
        except Exception as error:  # noqa: BLE001 - of any library, and the job is published
            warnings.append(
                f"{catalog} does not show job {report.job_id} yet: {error}; call magicfs.register again"
            )
            _LOGGER.warning("%s: %s", spec.location.url, warnings[-1])
    return replace(report, warnings=(*report.warnings, *warnings)) if warnings else report
