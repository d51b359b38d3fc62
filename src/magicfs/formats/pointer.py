"""The manifest pointer of a destination: the newest published job. Format ``magicfs.pointer/1``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from magicfs.formats.document import parse, render, with_unknown
from magicfs.formats.fields import Fields, check_format

__all__ = ["POINTER_FORMAT", "POINTER_SIZE_LIMIT", "RUNS_KEPT", "Pointer"]

POINTER_FORMAT: Final = "magicfs.pointer/1"

RUNS_KEPT: Final = 1000
"""How many of the last published runs are written down."""

POINTER_SIZE_LIMIT: Final = 16 * 1024**2
"""Bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pointer:
    """The head of a destination's chain of manifests. A value: every move makes a new one."""

    job_id: str  # the newest published job
    nonce: str  # another one in every version, so that a writer recognises its own
    changed_ms: int  # when it was moved
    runs: tuple[tuple[str, str], ...] = ()
    """Run id and job id of the last published jobs that had a run id, the newest last; no run twice."""
    unknown: Mapping[str, object] = field(default_factory=dict)

    def moved(self, job_id: str, run_id: str | None, nonce: str, now_ms: int) -> Pointer:
        """The pointer after another job was published, with a fresh nonce."""
        runs = self.runs
        if run_id is not None:
            runs = (*((run, job) for run, job in runs if run != run_id), (run_id, job_id))
        return replace(self, job_id=job_id, nonce=nonce, changed_ms=now_ms, runs=runs[-RUNS_KEPT:])

    def job_of_run(self, run_id: str) -> str | None:
        """The job that published a run; None if it is not among the last ones."""
        return dict(self.runs).get(run_id)

    @classmethod
    def from_bytes(cls, path: str, raw: bytes, *, size_limit: int = POINTER_SIZE_LIMIT) -> Pointer:
        return cls.from_fields(Fields(path, parse(path, raw, size_limit=size_limit)))

    @classmethod
    def from_fields(cls, fields: Fields) -> Pointer:
        check_format(fields, POINTER_FORMAT)
        runs = tuple(_run(fields, place, one) for place, one in enumerate(fields.elements("runs")))
        seen: set[str] = set()
        for place, (run, _) in enumerate(runs):
            if run in seen:
                raise fields.error(f"runs[{place}]", "a run that is named before")
            seen.add(run)
        return cls(
            job_id=fields.required_job_id(),
            nonce=fields.required_text("nonce"),
            changed_ms=fields.required_integer("changed", minimum=0),
            runs=runs,
            unknown=fields.rest(),
        )

    def to_bytes(self) -> bytes:
        """The whole file, one line."""
        document: dict[str, object] = {
            "format": POINTER_FORMAT,
            "jobId": self.job_id,
            "nonce": self.nonce,
            "changed": self.changed_ms,
            "runs": self.runs,
        }
        return render(with_unknown(document, self.unknown))


def _run(fields: Fields, place: int, value: Any) -> tuple[str, str]:
    name = f"runs[{place}]"
    if not isinstance(value, list) or [type(one) for one in value] != [str, str]:
        raise fields.error(name, "expected a list of a run id and a job id")
    run, job = value
    return run, fields.job_id_at(name, job)
