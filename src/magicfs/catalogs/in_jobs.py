"""What a job does about its catalogs and notifications: recorded before it is published, made after."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Literal

from magicfs.committers.registry import committer_info, committers
from magicfs.errors import StoreError, UsageError
from magicfs.job.commit import ShowsDatasets
from magicfs.job.spec import JobSpec
from magicfs.manifests import registrations
from magicfs.report import JobReport
from magicfs.runtime import registered
from magicfs.runtime.interrupt import run_on
from magicfs.stores import resolve
from magicfs.transaction.extension import EXTENSIONS

_LOGGER: Final = logging.getLogger("magicfs")


def check_catalogs(
    catalogs: Sequence[ShowsDatasets], after: Sequence[object], spec: JobSpec
) -> tuple[ShowsDatasets, ...]:
    """Return them, and what a guest makes of ``after``, which has ``announce`` in place of ``register``.

    Raises UsageError for what is no catalog, or if the job leaves no manifests to register from.
    """
    for one in catalogs:
        if not hasattr(one, "register"):
            raise UsageError(f"catalogs holds {one!r}; pass catalogs of magicfs.catalogs, such as [Delta()]")
    if (catalogs or after) and not committer_info(spec.options.committer).driven:
        what = "catalogs" if catalogs else "after"
        driven = ", ".join(name for name, other in committers().items() if other.driven)
        raise UsageError(
            f"{what} need manifests, and this job writes none; use one of {driven}, or leave {what} out"
        )
    return (*catalogs, *(registered.load(EXTENSIONS, "after")(after) if after else ()))


def note(spec: JobSpec, catalogs: Sequence[ShowsDatasets]) -> None:
    """Write down which tables are to show the job, before it is published. A second call writes the same."""
    _record(spec, catalogs, "write")


def forget(spec: JobSpec, catalogs: Sequence[ShowsDatasets]) -> None:
    """Take that back, of a job that was aborted. What cannot be done is left to ``magicfs recover``."""
    try:
        _record(spec, catalogs, "remove")
    except StoreError as error:
        _LOGGER.warning("%s: %s; magicfs recover removes it", spec.location.url, error)


def shown_by(report: JobReport, spec: JobSpec, catalogs: Sequence[ShowsDatasets]) -> JobReport:
    """Register with each catalog. The job is published, so what goes wrong is a warning of its report."""
    warnings = []
    done: list[ShowsDatasets] = []
    for catalog in catalogs:
        announce = getattr(catalog, "announce", None)
        try:
            if announce is not None:
                announce(report, filesystem=spec.wrapped())
            else:
                catalog.register(spec.location.url, filesystem=spec.wrapped())
        except Exception as error:  # noqa: BLE001 - of any library, and the job is published
            call = "" if announce else "call Dataset.register again, or "
            lacks = "was not notified of" if announce else "does not show"
            problem = f"job {report.job_id} yet: {resolve.redacted(str(error))}"
            warnings.append(f"{catalog} {lacks} {problem}; {call}run magicfs recover {spec.location.url}")
            _LOGGER.warning("%s: %s", spec.location.url, warnings[-1])
        else:
            done.append(catalog)
    if report.published_before:  # it was noted for this job, and an earlier one of its run is shown
        forget(spec, done)
    return replace(report, warnings=(*report.warnings, *warnings)) if warnings else report


def _record(spec: JobSpec, catalogs: Sequence[ShowsDatasets], verb: Literal["write", "remove"]) -> None:
    described = [getattr(one, "registration", None) for one in catalogs]
    if found := [make(spec.location.url, spec.job) for make in described if make is not None]:
        store = spec.make_committer().engine.store
        run_on(spec.loop, getattr(registrations, verb), store, spec.location.key, found)
