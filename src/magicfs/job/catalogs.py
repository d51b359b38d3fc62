"""Catalogs that a job brings up to date when it is published."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from magicfs.committers.registry import committer_info, committers
from magicfs.errors import StoreError, UsageError
from magicfs.report import JobReport
from magicfs.runtime.interrupt import run_on
from magicfs.stores import resolve

if TYPE_CHECKING:
    from fsspec.spec import AbstractFileSystem

    from magicfs.engine import Engine
    from magicfs.formats.registration import Registration
    from magicfs.job.spec import JobSpec

__all__ = ["ShowsDatasets", "check_catalogs", "forget", "note", "shown_by"]

_LOGGER = logging.getLogger("magicfs")


class ShowsDatasets(Protocol):
    """A table of a catalog, as ``magicfs.catalogs`` has them.

    One that has a method ``registration``, as those have, is noted at the destination until it shows the job.
    """

    def register(self, url: str, *, filesystem: AbstractFileSystem | None = None) -> object:
        """Let the table show what is published at a destination."""


def check_catalogs(catalogs: Sequence[ShowsDatasets], spec: JobSpec) -> tuple[ShowsDatasets, ...]:
    """Raise UsageError for what is no catalog, or if the job leaves no manifests to register from."""
    for one in catalogs:
        if not hasattr(one, "register"):
            raise UsageError(f"catalogs holds {one!r}; give those of magicfs.catalogs, such as [Delta()]")
    if catalogs and not committer_info(spec.options.committer).driven:
        driven = ", ".join(name for name, other in committers().items() if other.driven)
        raise UsageError(
            "catalogs are registered from manifests, and this job writes none; use one of "
            f"{driven}, or leave catalogs out"
        )
    return tuple(catalogs)


def note(spec: JobSpec, catalogs: Sequence[ShowsDatasets]) -> None:
    """Write down which tables are to show the job, before it is published. A second call writes the same."""
    if found := _registrations(spec, catalogs):
        from magicfs.manifests import registrations

        engine = _engine(spec)
        run_on(spec.loop, registrations.write, engine.store, spec.location.key, found)


def forget(spec: JobSpec, catalogs: Sequence[ShowsDatasets]) -> None:
    """Take that back, of a job that was aborted. What cannot be done is left to ``magicfs recover``."""
    if found := _registrations(spec, catalogs):
        from magicfs.manifests import registrations

        try:
            run_on(spec.loop, registrations.remove, _engine(spec).store, spec.location.key, found)
        except StoreError as error:
            _LOGGER.warning("%s: %s; magicfs recover removes it", spec.location.url, error)


def shown_by(report: JobReport, spec: JobSpec, catalogs: Sequence[ShowsDatasets]) -> JobReport:
    """Register with each catalog. The job is published, so what goes wrong is a warning of its report."""
    warnings = []
    done: list[ShowsDatasets] = []
    for catalog in catalogs:
        try:
            catalog.register(spec.location.url, filesystem=spec.wrapped())
        except Exception as error:  # noqa: BLE001 - of any library, and the job is published
            warnings.append(
                f"{catalog} does not show job {report.job_id} yet: {resolve.redacted(str(error))}; call "
                f"magicfs.register again, or run magicfs recover {spec.location.url}"
            )
            _LOGGER.warning("%s: %s", spec.location.url, warnings[-1])
        else:
            done.append(catalog)
    if report.published_before:  # it was noted for this job, and an earlier one of its run is shown
        forget(spec, done)
    return replace(report, warnings=(*report.warnings, *warnings)) if warnings else report


def _registrations(spec: JobSpec, catalogs: Sequence[ShowsDatasets]) -> list[Registration]:
    described = [getattr(one, "registration", None) for one in catalogs]
    return [make(spec.location.url, spec.job) for make in described if make is not None]


def _engine(spec: JobSpec) -> Engine:
    return spec.make_committer().engine
