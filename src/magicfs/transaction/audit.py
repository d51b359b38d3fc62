"""Judging what a job is about to publish, by what its files say of themselves; and what is done if it fails.

It comes before the commit point, so a job that fails has shown nothing. In *quarantine* its job object stays
``open``: it bears what was said and names what was judged, and has another driver, so that nobody but a
person who accepts it publishes exactly that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any, Literal

from magicfs.audit.rules import Rule, as_rule, name_of, plain
from magicfs.audit.seen import Audited, AuditedFile, Previous
from magicfs.engine import Engine
from magicfs.errors import AuditFailed, CommitDenied, MagicError
from magicfs.formats.audit import Audit, Verdict
from magicfs.formats.footer import FileFooters, Schema
from magicfs.formats.limits import FOOTERS_SIZE_LIMIT
from magicfs.formats.manifest import Manifest
from magicfs.manifests import chain, parts
from magicfs.protocol import paths
from magicfs.protocol.job_state import BEFORE_COMMIT, JobState
from magicfs.stores.conditions import Conditions
from magicfs.transaction import facts
from magicfs.transaction.context import JobContext
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

__all__ = [
    "Auditing",
    "GivenRule",
    "OnFailure",
    "accept",
    "accept_unjudged",
    "judge",
    "refuse_quarantined",
    "refuse_unjudged",
    "refuse_without_token",
]

_LOGGER = logging.getLogger("magicfs")

OnFailure = Literal["abort", "quarantine"]

_NOT_JUDGED = "was not asked: the job's driver ended before"

GivenRule = Rule | Callable[[Audited], Any]
"""A rule of ``magicfs.audit``, or a function."""


@dataclass(frozen=True)
class Auditing:
    """What must be true of a job before it is published, and what becomes of it otherwise."""

    rules: tuple[GivenRule, ...]
    on_failure: OnFailure = "quarantine"


Discard = Callable[[JobVersion, str], Awaitable[None]]
"""Aborts an open job, for the reason that is given."""


async def judge(
    engine: Engine,
    context: JobContext,
    record: JobRecord,
    version: JobVersion,
    output: JobOutput,
    auditing: Auditing,
    discard: Discard,
) -> None:
    """Let all rules look at what a job is about to publish; ``output`` bears what they say.

    Raises AuditFailed if one does not let it be published; then the job is in quarantine, or discarded.
    """
    said = await audited(engine, context, record.conditions, output, auditing)
    if said.passed:
        output.audit = said
        return
    error = failed(context, said, auditing.on_failure)
    if auditing.on_failure == "quarantine":
        await quarantined(engine, context, record, version, output, said)
        raise error
    try:
        await discard(version, str(error))
    except JobMoved:
        raise
    except MagicError as second:
        error.add_note(f"and job {context.job} could not be aborted whole: {second}")
    raise error


async def audited(
    engine: Engine, context: JobContext, conditions: Conditions, output: JobOutput, auditing: Auditing
) -> Audit:
    """What all rules say. A rule that raises lets nothing be published."""
    previous = await _previous(engine, context, conditions)
    prefix = paths.prefix_of(context.layout.destination)

    def files() -> Iterator[AuditedFile]:
        for step, footer, said in zip(output.steps(), output.footers(), output.said(), strict=True):
            if step.key.startswith(prefix):
                yield AuditedFile(step.key[len(prefix) :], step.length, footer, said)

    seen = Audited(
        context.job, context.url, context.options.run_id, context.options.conflict, previous, files
    )
    verdicts = await asyncio.to_thread(_judge, seen, auditing.rules)
    against = previous.job_id if previous is not None else None
    return Audit(verdicts=verdicts, against=against, audited_ms=now_ms())


def _judge(seen: Audited, rules: Sequence[GivenRule]) -> tuple[Verdict, ...]:
    found = []
    for given in rules:
        try:
            passed, told = as_rule(given).judge(seen)
        except Exception as error:  # noqa: BLE001 - whatever a user's function raises
            passed, told = False, f"raised {error!r}"
        found.append(Verdict(rule=name_of(given), passed=bool(passed), told=plain(told)))
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
    told = manifest.footers
    rows = None if told is None else told.rows
    if not manifest.count:
        rows = 0
    schemas = {} if told is None else await _schemas(engine, destination, manifest)
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


async def quarantined(
    engine: Engine,
    context: JobContext,
    record: JobRecord,
    version: JobVersion,
    output: JobOutput,
    audit: Audit,
) -> None:
    """Write down what was judged, and what was said of it. From then on no driver may commit the job."""
    await record.move(version, JobState.OPEN, **await _held(engine, context, output, audit))


async def _held(engine: Engine, context: JobContext, output: JobOutput, audit: Audit) -> dict[str, Any]:
    """What changes in a job object where the audit has failed, its facts being written down."""
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


def failed(context: JobContext, audit: Audit, on_failure: OnFailure) -> AuditFailed:
    """What to raise for a job whose audit has failed."""
    held = f"--job {context.job}"
    after = (
        f"the job is in quarantine: magicfs commit {context.url} {held} --accept REASON publishes it all the "
        f"same, magicfs abort {context.url} {held} discards it"
        if on_failure == "quarantine"
        else "the job was aborted; run it again with other data, or other rules"
    )
    _LOGGER.warning("%s: job %s failed its audit: %s", context.url, context.job, audit)
    return AuditFailed(
        f"the audit of job {context.job} failed: {audit}; nothing was published; {after}",
        failed=[f"{one.rule}: {one.told}" for one in audit.failures],
        quarantined=on_failure == "quarantine",
    )


def refuse_quarantined(context: JobContext, version: JobVersion) -> None:
    """Raise CommitDenied for a job in quarantine, which only somebody who accepts it may publish."""
    if version.job.is_quarantined:
        raise CommitDenied(
            f"job {context.job} is in quarantine, for {version.job.reason}; nothing was changed; magicfs "
            f"commit {context.url} --job {context.job} --accept REASON publishes it all the same, magicfs "
            "abort discards it"
        )


def refuse_without_token(context: JobContext, version: JobVersion, driver: str | None) -> None:
    """Raise CommitDenied for a job that somebody has accepted, unless its driver says who it is.

    What was accepted is what was judged, and whoever has no token may bring something else.
    """
    said = version.job.audit
    if driver is None and said is not None and not said.passed:
        raise CommitDenied(
            f"job {context.job} was accepted after its audit had failed, and is left to whoever accepted it; "
            f"nothing was changed; magicfs commit {context.url} --job {context.job} goes on, magicfs abort "
            "discards it"
        )


def refuse_unjudged(context: JobContext, version: JobVersion, auditing: Auditing | None) -> None:
    """Raise CommitDenied for a job that rules have to judge before it is published, where there are none."""
    if auditing is None and version.job.is_unjudged:
        raise CommitDenied(
            f"job {context.job} is to be judged by {'; '.join(version.job.options.audit.rules)} before it is "
            "published, and was not; nothing was changed; commit it with its rules (audit=); or magicfs "
            f"commit {context.url} --job {context.job} --accept REASON publishes it all the same, magicfs "
            "abort discards it"
        )


async def accept(engine: Engine, context: JobContext, reason: str) -> str:
    """Let a job in quarantine be published; returns the token of whoever may do it now.

    A second call has the job taken over again, with its own reason.

    Raises CommitDenied if the job has ended, or is not in quarantine.
    """
    record, version = await read_record(engine.store, context.layout, probe=True)
    if version is None:
        raise ended(context.url, context.job)
    audit = version.job.audit
    if version.job.state not in BEFORE_COMMIT or audit is None:
        raise CommitDenied(
            f"job {context.job} is {version.job.state}, and not in quarantine; nothing was changed; leave "
            "--accept out"
        )
    driver = new_token()
    await record.move(version, JobState.OPEN, driver=driver, audit=replace(audit, accepted=reason))
    return driver


async def accept_unjudged(engine: Engine, context: JobContext, output: JobOutput, reason: str) -> str:
    """Let a job be published that no rule has judged; returns the token of whoever may do it now.

    What is published is written down: exactly that, whoever goes on. In the manifest each rule has a verdict
    that says that it was not asked.

    Raises CommitDenied if the job has ended, or is not, or not any more, one that is to be judged.
    """
    record, version = await read_record(engine.store, context.layout, probe=True)
    if version is None:
        raise ended(context.url, context.job)
    if not version.job.is_unjudged:
        raise CommitDenied(
            f"job {context.job} is {version.job.state}, and was judged meanwhile; nothing was changed; look "
            f"with magicfs recover {context.url}, then commit again"
        )
    verdicts = tuple(
        Verdict(rule=one, passed=False, told=_NOT_JUDGED) for one in version.job.options.audit.rules
    )
    audit = Audit(verdicts=verdicts, audited_ms=now_ms(), accepted=reason)
    news = taking_over(opened(context, engine), version.job)
    moved = await record.move(version, JobState.OPEN, **news | await _held(engine, context, output, audit))
    return moved.job.driver
