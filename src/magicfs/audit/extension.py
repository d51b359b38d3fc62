"""Judging what a job is about to publish, by what its files say of themselves; and what is done if it fails.

It comes before the commit point, so a job that fails has shown nothing. In *quarantine* its job object stays
``open``: it bears what was said and names what was judged, and has another driver, so that nobody but a
person who accepts it publishes exactly that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Final

from magicfs.audit.rules import Audited, AuditedFile, Previous, Rule, as_rule, name_of, plain
from magicfs.engine import Engine
from magicfs.errors import AuditFailed, CommitDenied, MagicError, UsageError
from magicfs.formats.audit import Audit, OnFailure, Verdict
from magicfs.formats.footer import FileFooters, Schema
from magicfs.formats.job_object import JobObject
from magicfs.formats.limits import FOOTERS_SIZE_LIMIT
from magicfs.formats.manifest import Manifest
from magicfs.manifests import chain, parts
from magicfs.protocol import paths
from magicfs.protocol.job_state import BEFORE_COMMIT, JobState
from magicfs.stores.conditions import Conditions
from magicfs.transaction import facts
from magicfs.transaction.context import JobContext
from magicfs.transaction.extension import Accepted, Extension, Prepared, Settling
from magicfs.transaction.outcome import ended
from magicfs.transaction.output import JobOutput
from magicfs.transaction.record import (
    JobMoved,
    JobRecord,
    JobVersion,
    new_token,
    now_ms,
    opened,
    read_record,
    taking_over,
)

_LOGGER = logging.getLogger("magicfs")

_NOT_JUDGED = "did not run: the job's driver died before it"

GivenRule = Rule | Callable[[Audited], object]
"""A rule of ``magicfs.audit``, or a function."""


class Judge(Extension):
    """Judges what a job is about to publish; without rules it keeps anybody from publishing it unjudged."""

    def __init__(self, rules: Sequence[GivenRule] = (), on_failure: OnFailure = "quarantine") -> None:
        self._rules = rules
        self._on_failure: OnFailure = on_failure

    named: Final = staticmethod(name_of)

    def at_setup(self, context: JobContext, job: JobObject) -> None:
        _refuse_quarantined(context, job)
        if job.options.audit.rules and not context.options.audit.rules:
            raise UsageError(
                f"job {context.job} was set up with the audit rules {'; '.join(job.options.audit.rules)}, "
                "and this attempt has none; nothing was changed; give audit= in every attempt, or use "
                "another job id"
            )

    async def accept(self, job: Accepted) -> str | None:
        if job.job.is_unjudged:
            return await _accept_unjudged(job)
        return None if job.job.audit is None else await _accept(job)

    def at_commit(self, context: JobContext, job: JobObject, driver: str | None) -> None:
        _refuse_quarantined(context, job)
        _refuse_without_token(context, job, driver)
        if not self._rules:
            _refuse_unjudged(context, job)

    async def on_output(self, job: Prepared) -> None:
        """Let all rules look at what a job is about to publish; its output bears what they say.

        Raises AuditFailed if one does not let it be published; then the job is in quarantine, or discarded.
        """
        if not self._rules:
            return
        said = await _audited(job, self._rules)
        if said.passed:
            job.output.audit = said
            return
        error = _failed(job.context, said, self._on_failure)
        if self._on_failure == "quarantine":
            news = await _held(job.engine, job.context, job.output, said)
            await job.record.move(job.version, JobState.OPEN, **news)
            raise error
        try:
            await job.discard(job.version, str(error))
        except JobMoved:
            raise
        except MagicError as second:
            error.add_note(f"and job {job.context.job} could not be fully aborted: {second}")
        raise error

    async def settle(self, job: Settling) -> None:
        job.manifest["audit"] = job.job.audit


async def _audited(job: Prepared, rules: Sequence[GivenRule]) -> Audit:
    """What all rules say. A rule that raises lets nothing be published."""
    context, output = job.context, job.output
    previous = await _previous(job.engine, context, job.record.conditions)
    prefix = paths.prefix_of(context.layout.destination)

    def files() -> Iterator[AuditedFile]:
        for step, footer, said in zip(output.steps(), output.footers(), output.said(), strict=True):
            if step.key.startswith(prefix):
                yield AuditedFile(step.key[len(prefix) :], step.length, footer, said)

    seen = Audited(context.job, context.url, context.options.run_id, context.options.mode, previous, files)
    verdicts = await asyncio.to_thread(_judge, seen, rules)
    against = previous.job_id if previous is not None else None
    return Audit(verdicts=verdicts, against=against, audited_ms=now_ms())


def _judge(seen: Audited, rules: Sequence[GivenRule]) -> tuple[Verdict, ...]:
    found = []
    for given in rules:
        try:
            passed, message = as_rule(given).judge(seen)
        except Exception as error:  # noqa: BLE001 - whatever a user's function raises
            passed, message = False, f"raised {error!r}"
        found.append(Verdict(rule=name_of(given), passed=bool(passed), told=plain(message)))
    return tuple(found)


async def _previous(engine: Engine, context: JobContext, conditions: Conditions) -> Previous | None:
    """The publication that a job is compared with: the one that was published last."""
    store, destination = engine.store, context.layout.destination
    job = await chain.newest_job(store, destination, conditions)
    if job is None:
        return None
    manifest = await chain.read(store, destination, job, conditions, files=False)
    if manifest is None:
        return None
    summary = manifest.footers
    rows = None if summary is None else summary.rows
    if not manifest.count:
        rows = 0
    schemas = {} if summary is None else await _schemas(engine, destination, manifest)
    return Previous(job, manifest.count, manifest.size, rows, schemas)


async def _schemas(engine: Engine, destination: str, manifest: Manifest) -> dict[str, Schema]:
    """The schemas of a publication: lists are read until all have been met."""
    assert manifest.footers is not None
    wanted = dict.fromkeys(manifest.footers.schemas)
    found: dict[str, Schema] = {}
    named = manifest.footers.lists
    lists = parts.read_lists(engine.store, destination, manifest.job_id, named, size_limit=FOOTERS_SIZE_LIMIT)
    async with aclosing(lists) as read:
        async for path, raw in read:
            for one in FileFooters.from_bytes(path, raw).files.values():
                if one.schema is not None:
                    found.setdefault(one.schema.fingerprint, one.schema)
            if wanted.keys() <= found.keys():
                break
    return {name: found.get(name, Schema((), name)) for name in wanted}


async def _held(engine: Engine, context: JobContext, output: JobOutput, audit: Audit) -> dict[str, Any]:
    """What changes in a job object where the audit has failed, its facts being written down. From then on no
    driver may commit the job.
    """
    chunks = await facts.write_output(engine, context, new_token(), output)
    return {
        "driver": new_token(),
        "audit": audit,
        "reason": f"the audit failed: {audit}",
        "tasks": output.tasks,
        "files": output.files,
        "size": output.bytes,
        "chunks": chunks,
    }


def _failed(context: JobContext, audit: Audit, on_failure: OnFailure) -> AuditFailed:
    """What to raise for a job whose audit has failed."""
    held = f"--job {context.job}"
    after = (
        f"the job is in quarantine: magicfs recover {context.url} {held} --commit --accept REASON publishes "
        f"it anyway, magicfs recover {context.url} {held} --abort discards it"
        if on_failure == "quarantine"
        else "the job was aborted; fix the data or the rules, and run it again"
    )
    _LOGGER.warning("%s: job %s failed its audit: %s", context.url, context.job, audit)
    return AuditFailed(
        f"the audit of job {context.job} failed: {audit}; nothing was published; {after}",
        failed=[f"{one.rule}: {one.told}" for one in audit.failures],
        quarantined=on_failure == "quarantine",
    )


def _refuse_quarantined(context: JobContext, job: JobObject) -> None:
    """Raise CommitDenied for a job in quarantine, which only somebody who accepts it may publish."""
    if job.is_quarantined:
        raise CommitDenied(
            f"job {context.job} is in quarantine: {job.reason}; nothing was changed; magicfs recover "
            f"{context.url} --job {context.job} --commit --accept REASON publishes it, --abort discards it"
        )


def _refuse_without_token(context: JobContext, job: JobObject, driver: str | None) -> None:
    """Raise CommitDenied for a job that somebody has accepted, unless its driver says who it is.

    What was accepted is what was judged; a process without the token may bring something else.
    """
    if driver is None and job.audit is not None and not job.audit.passed:
        raise CommitDenied(
            f"job {context.job} was accepted after its audit had failed, so only the process that accepted "
            f"it may go on; nothing was changed; magicfs recover {context.url} --job {context.job} --commit "
            "continues, --abort discards it"
        )


def _refuse_unjudged(context: JobContext, job: JobObject) -> None:
    """Raise CommitDenied for a job that rules have to judge before it is published, where there are none."""
    if job.is_unjudged:
        raise CommitDenied(
            f"job {context.job} has to pass {'; '.join(job.options.audit.rules)} before it is published, and "
            "the audit has not run; nothing was changed; commit it with its rules (audit=); or magicfs "
            f"recover {context.url} --job {context.job} --commit --accept REASON publishes it, --abort "
            "discards it"
        )


async def _opened(job: Accepted) -> tuple[JobRecord, JobVersion]:
    record, version = await read_record(job.engine.store, job.context.layout, probe=True, url=job.context.url)
    if version is None:
        raise ended(job.context.url, job.context.job)
    return record, version


async def _accept(job: Accepted) -> str:
    """Let a job in quarantine be published. A second call has the job taken over again, with its own reason.

    Raises CommitDenied if the job has ended, or is not in quarantine.
    """
    record, version = await _opened(job)
    said = version.job.audit
    if version.job.state not in BEFORE_COMMIT or said is None:
        raise CommitDenied(
            f"job {job.context.job} is {version.job.state}, not in quarantine; nothing was changed; leave "
            "--accept out"
        )
    driver, reason = new_token(), job.reason or said.accepted
    await record.move(version, JobState.OPEN, driver=driver, audit=replace(said, accepted=reason))
    return driver


async def _accept_unjudged(job: Accepted) -> str:
    """Let a job be published that no rule has judged.

    What is published is recorded, so every process publishes exactly that. The manifest says of each rule
    that it was not asked.

    Raises CommitDenied if the job has ended, or does not wait for its audit.
    """
    record, version = await _opened(job)
    if not version.job.is_unjudged:
        raise CommitDenied(
            f"job {job.context.job} is {version.job.state}, and another process has audited it meanwhile; "
            f"nothing was changed; check with magicfs recover {job.context.url}, then commit again"
        )
    verdicts = tuple(
        Verdict(rule=one, passed=False, told=_NOT_JUDGED) for one in version.job.options.audit.rules
    )
    audit = Audit(verdicts=verdicts, audited_ms=now_ms(), accepted=job.reason)
    news = taking_over(opened(job.context, job.engine), version.job)
    held = await _held(job.engine, job.context, job.output, audit)
    return (await record.move(version, JobState.OPEN, **news | held)).job.driver
