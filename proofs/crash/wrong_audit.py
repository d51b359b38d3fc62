"""The mutants of quarantine: each is one line of shipped code, made wrong, and where it must be noticed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from proofs.crash.audit_scene import Step
from proofs.scenes.mutants import Mutant

__all__ = ["AUDIT_MUTANTS", "Rival", "WrongAudit"]

Rival = Literal["recover", "rerun", "discard", "accept", "driver", "append", "overwrite"]
"""Who meets somebody who judges or accepts a job: a recovery, a job of the same run, one who discards or
accepts the job, its driver, who judges it, another job that appends or replaces."""

_AUDIT: Final = "magicfs.audit.extension"
_COMMIT: Final = "magicfs.datasets.commit"


@dataclass(frozen=True, slots=True)
class WrongAudit(Mutant):
    """A wrong line of the quarantine.

    Attributes:
        steps: What is cut to notice it.
        beside: Who is beside whom to notice it.
        before: Whether the world before is made by the wrong line, too.
    """

    steps: tuple[Step, ...] = ()
    beside: tuple[tuple[Step, Rival], ...] = ()
    before: bool = False


AUDIT_MUTANTS: Final = (
    WrongAudit(
        "nobody asks for the audit",
        "magicfs.transaction.driver",
        "await one.on_output(prepared)",
        "pass",
        ("judge",),
    ),
    WrongAudit("a failed audit passes", _AUDIT, "if said.passed:", "if True:", ("judge", "judge and abort")),
    WrongAudit(
        "a job that is to be held is discarded",
        _AUDIT,
        'if self._on_failure == "quarantine":',
        "if False:",
        ("judge",),
    ),
    WrongAudit(
        "a job that is to be discarded is held",
        _AUDIT,
        'if self._on_failure == "quarantine":',
        "if True:",
        ("judge and abort",),
    ),
    WrongAudit(
        "what was judged is not written down", _AUDIT, '"chunks": chunks,', '"chunks": (),', ("judge",)
    ),
    WrongAudit(
        "setup forgets that rules have to judge the job",
        "magicfs.transaction.record",
        "options=context.options,",
        "options=replace(context.options, audit=type(context.options.audit)()),",
        ("judge",),
        before=True,
    ),
    WrongAudit(
        "no job is to be judged",
        "magicfs.formats.job_object",
        "return bool(self.options.audit.rules) and self.audit is None and self.state in BEFORE_COMMIT",
        "return False",
        ("judge",),
    ),
    WrongAudit(
        "a driver without rules commits what is to be judged",
        _AUDIT,
        "if job.is_unjudged:",
        "if False:",
        ("judge",),
    ),
    WrongAudit(
        "a driver without rules takes over what is to be judged",
        _AUDIT,
        "if job.options.audit.rules and not context.options.audit.rules:",
        "if False:",
        ("judge",),
    ),
    WrongAudit(
        "who accepts a job that nobody has judged does not look whether somebody has",
        _AUDIT,
        "if not version.job.is_unjudged:",
        "if False:",
        beside=(("accept unjudged", "driver"), ("accept unjudged", "accept")),
    ),
    WrongAudit(
        "a new driver takes over what is in quarantine",
        _AUDIT,
        "if job.is_quarantined:",
        "if False:",
        ("judge",),
    ),
    WrongAudit(
        "whoever has no token commits what somebody has accepted",
        _AUDIT,
        "if driver is None and job.audit is not None and not job.audit.passed:",
        "if False:",
        ("accept",),
    ),
    WrongAudit(
        "no job is in quarantine",
        "magicfs.formats.job_object",
        "is_held = said is not None and not said.passed and said.accepted is None",
        "is_held = False",
        ("judge",),
    ),
    WrongAudit(
        "who accepts does not say so",
        _AUDIT,
        "await record.move(version, JobState.OPEN, driver=driver, audit=replace(said, accepted=reason))",
        "await record.move(version, JobState.OPEN, driver=driver, audit=said)",
        ("accept",),
    ),
    WrongAudit(
        "who accepts is not the driver",
        _AUDIT,
        "await record.move(version, JobState.OPEN, driver=driver, audit=replace(said, accepted=reason))",
        "await record.move(version, JobState.OPEN, audit=replace(said, accepted=reason))",
        ("accept",),
    ),
    WrongAudit(
        "what lies there is published in the place of what was judged",
        "magicfs.datasets.commit",
        "if one.job.audit is not None:  # what was judged is what is published",
        "if False:",
        ("accept",),
    ),
    WrongAudit(
        "a job in quarantine is published without a reason",
        _COMMIT,
        "if job is not None and job.is_quarantined and accept is None:",
        "if False:",
        ("discard",),
    ),
    WrongAudit(
        "a recovery discards what is in quarantine",
        "magicfs.datasets.recover",
        "if decision is Decision.LEAVE and await was_published(engine, location, one.job_id):",
        "if decision is Decision.LEAVE and found.is_quarantined:",
        ("judge", "accept"),
    ),
    WrongAudit(
        "the manifest forgets what the audit said",
        _AUDIT,
        'job.manifest["audit"] = job.job.audit',
        "pass",
        ("accept",),
    ),
    WrongAudit(
        "a job of the same run leaves what is in quarantine",
        "magicfs.transaction.others",
        "return [one for one in rivals if one.run_id == context.options.run_id]",
        "return [one for one in rivals if one.job is not None and not one.job.is_quarantined]",
        beside=(("accept", "rerun"),),
    ),
)
"""Wrong lines, each in what only this room of proofs tries."""
