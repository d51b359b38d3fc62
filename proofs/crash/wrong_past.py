"""The mutants of the past: each is one line of the shipped code, made wrong, and where it must be noticed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from proofs.crash.past_deeds import Deed
from proofs.scenes.mutants import Mutant

Other = Literal["expire", "append", "overwrite", "rollback", "drop", "rewrite", "compact", "tag", "recover"]
"""Who meets a rollback that leads to files whose time is over, a drop, or a rewrite."""
Meeting = tuple[Deed, Other]
"""Who meets whom."""

__all__ = ["PAST_MUTANTS", "Meeting", "Other", "WrongPast"]

_PAST: Final = "magicfs.past.extension"
_EXPIRE: Final = "magicfs.past.expire"
_ROLLBACK: Final = "magicfs.past.rollback"


@dataclass(frozen=True, slots=True)
class WrongPast(Mutant):
    """A wrong line of maintenance.

    Attributes:
        deeds: What is cut to notice it.
        beside: Who is beside whom to notice it.
        model: On which store it is cut.
    """

    deeds: tuple[Deed, ...] = ()
    beside: tuple[Meeting, ...] = ()
    model: str = "full"


PAST_MUTANTS: Final = (
    WrongPast(
        "a rollback of a partition shows what lay in others, too",
        _PAST,
        "and (only is None or lies_in(key, only))",
        "and True",
        ("rollback of a partition",),
    ),
    WrongPast(
        "a rollback of a partition replaces what it shows",
        _PAST,
        "partitions = self.look.context.options.rollback.partitions",
        "partitions = ('p=1',)",
        ("rollback of a partition",),
    ),
    WrongPast(
        "a job deletes what an earlier one keeps",
        _PAST,
        "return not (promises_again and relative in shown) and one.etag.strip('\"') == held.get(one.key)",
        "return False",
        ("keep", "rollback", "rollback in place"),
    ),
    WrongPast(
        "a job that keeps nothing deletes what is promised and shown again",
        _PAST,
        "restored, promises_again = look.output.restored, look.context.options.keep.ms is not None",
        "restored, promises_again = look.output.restored, True",
        ("partitions",),
    ),
    WrongPast(
        "replaced partitions show what is still promised",
        _PAST,
        "plan.left += [one for one in staying if one.key in shown_keys]",
        "pass",
        ("partitions",),
    ),
    WrongPast(
        "a manifest hides only what is deleted",
        "magicfs.transaction.execute",
        "*(self.cleaner, context, conditions, job, done.output, [*settling.old, *left], self._etags),",
        "*(self.cleaner, context, conditions, job, done.output, settling.old, self._etags),",
        ("partitions",),
    ),
    WrongPast(
        "a rollback shows what is being deleted",
        _PAST,
        "if lost := [key for key in restored if paths.join(look.destination, key) in self.going]:",
        "if lost := []:",
        beside=(("rollback in place", "expire"),),
    ),
    WrongPast(
        "a rollback is refused what another job keeps for longer",
        _PAST,
        "going -= {one.key for job in pointer.keeping if not job.expires for one in lists[job.job_id]}",
        "pass",
        ("rollback to what is marked",),
    ),
    WrongPast(
        "who finishes a rollback does not read what it shows",
        _PAST,
        "job.output.restored = await facts.read_restored(job.engine, job.context, job.job)",
        "job.output.restored = {}",
        ("rollback in place",),
    ),
    WrongPast(
        "what a job keeps is deleted all the same",
        _PAST,
        "await aside.copy_all(job.engine, destination, name, old)",
        "pass",
        ("keep", "rollback that keeps"),
    ),
    WrongPast(
        "what a job keeps aside stays where it was, too",
        _PAST,
        "job.deleted = [one for one in old if not one.in_place]",
        "job.deleted = []",
        ("keep", "rollback that keeps"),
    ),
    WrongPast(
        "a list does not say what lies aside",
        _PAST,
        "lists = await kept.write(job.engine.store, destination, name, old)",
        "lists = await kept.write(job.engine.store, destination, name, job.old)",
        ("keep",),
    ),
    WrongPast(
        "an expiry leaves what lies aside",
        _EXPIRE,
        "await aside.delete(engine, gone, check)",
        "pass",
        ("expire",),
    ),
    WrongPast(
        "who finishes a job takes a file that is not there for one that was never moved",
        "magicfs.past.aside",
        "with suppress(ObjectNotFound, PreconditionFailed):",
        "with suppress(PreconditionFailed):",
        ("keep",),
    ),
    WrongPast(
        "the pointer does not name who keeps",
        "magicfs.manifests.chain",
        "pointer = pointer.keeping_also(one.job_id, one.kept.until_ms, lists)",
        "pass",
        ("keep", "rollback that keeps"),
    ),
    WrongPast(
        "an expiry takes what is kept for longer",
        _EXPIRE,
        "return (begun | rules.keys()) - await held(engine, location, pointer, rules, keep)",
        "return {one.job_id for one in pointer.keeping}",
        ("expire",),
    ),
    WrongPast(
        "an expiry deletes what is shown",
        _EXPIRE,
        "shown = set() if view is None else {paths.join(destination, key) for key in view.files}",
        "shown = set()",
        ("expire what is shown",),
        (("rollback", "expire"),),
    ),
    WrongPast(
        "an expiry looks for no rollback",
        _EXPIRE,
        "await _refuse_rollbacks(engine, location)",
        "pass",
        beside=(("rollback in place", "expire"),),
    ),
    WrongPast(
        "an expiry marks nothing",
        _EXPIRE,
        "return [replace(one, expires=True) if one.job_id in over else one for one in keeping]",
        "return list(keeping)",
        ("expire",),
        (("rollback", "expire"),),
    ),
    WrongPast(
        "an expiry forgets who keeps before it deletes",
        _EXPIRE,
        "altered = await remove_matching(store, conditions, objects, engine.concurrency, check=check)",
        "await change_keeping(store, destination, conditions, lambda keeping: "
        "asyncio.sleep(0, [one for one in keeping if not one.expires])); "
        "altered = await remove_matching(store, conditions, objects, engine.concurrency, check=check)",
        ("expire",),
    ),
    WrongPast(
        "an expiry never ends",
        _EXPIRE,
        "return [one for one in keeping if not (one.expires and one.job_id in done)]",
        "return list(keeping)",
        ("expire",),
    ),
    WrongPast(
        "a rollback leads to nothing",
        _ROLLBACK,
        "rollback=Rollback(job=await job_as_of(engine, location, to), partitions=partitions),",
        "rollback=Rollback(),",
        ("rollback",),
    ),
    WrongPast(
        "a rollback forgets its run",
        _ROLLBACK,
        "run_id=run_id,",
        "run_id=None,",
        ("rollback",),
    ),
    WrongPast(
        "a rollback forgets what it was told to keep",
        _ROLLBACK,
        "keep=await keep_of(engine, location, keep_ms, in_place=keep_in_place, rule=keep_rule),",
        "keep=JobOptions(committer='magic', mode='overwrite').keep,",
        ("rollback that keeps",),
    ),
    WrongPast(
        "a drop forgets its run",
        "magicfs.past.drop",
        'options=JobOptions(committer="magic", mode="drop", run_id=run_id, keep=keep),',
        'options=JobOptions(committer="magic", mode="drop", keep=keep),',
        ("drop",),
    ),
    WrongPast(
        "a rewrite replaces what another job has put in the place of what was read",
        "magicfs.tables.rewrite",
        "if gone:",
        "if False:",
        beside=(("rewrite", "overwrite"), ("rewrite", "rollback")),
    ),
    WrongPast(
        "a rewrite does not name what it replaces",
        "magicfs.transaction.publish",
        'removed = [one for one in hidden if _is_named(one.key, destination)] if hides == "keys" else []',
        "removed = []",
        ("rewrite", "drop"),
    ),
    WrongPast(
        "what is dropped and kept by another job is shown still",
        "magicfs.transaction.execute",
        "*(self.cleaner, context, conditions, job, done.output, [*settling.old, *left], self._etags),",
        "*(self.cleaner, context, conditions, job, done.output, settling.old, self._etags),",
        ("drop what is promised",),
    ),
    WrongPast(
        "what is rewritten is not deleted",
        "magicfs.protocol.replacement",
        "self.deleted, self.hidden = there, []",
        "self.deleted, self.hidden = [], []",
        ("rewrite",),
    ),
    WrongPast(
        "a job that removes files looks for no other",
        "magicfs.transaction.prepare",
        "rivals = conflicting(others, context.job, partitions)",
        "rivals = conflicting(others, context.job, partitions) if context.options.mode == 'overwrite' "
        "else []",
        beside=(("rewrite", "overwrite"), ("drop", "rollback"), ("rewrite", "drop")),
    ),
    WrongPast(
        "what is kept by its version stays beside the new files",
        _PAST,
        "job.deleted = [one for one in old if not one.in_place]",
        "job.deleted = [one for one in old if one.aside]",
        ("keep",),
        model="versions",
    ),
    WrongPast(
        "a job forgets the versions of what it keeps",
        "magicfs.transaction.planning",
        'old = [OldObject(one.key, one.etag, one.size, found.versions.get(one.key, "")) for one in gone]',
        "old = [OldObject(one.key, one.etag, one.size) for one in gone]",
        ("keep",),
        model="versions",
    ),
    WrongPast(
        "an expiry leaves the versions",
        "magicfs.past.kept_versions",
        "await _delete(engine, [(one.key, one.version) for one in objects if one.version], check)",
        "await _delete(engine, [])",
        ("expire",),
        model="versions",
    ),
    WrongPast(
        "an expiry leaves the markers",
        "magicfs.past.kept_versions",
        "await _delete(engine, markers)",
        "await _delete(engine, [])",
        ("expire",),
        model="versions",
    ),
    WrongPast(
        "an expiry that died forgets the markers",
        "magicfs.past.expire",
        "over_now = kept.of(done)",
        "over_now = gone",
        ("expire",),
        model="versions",
    ),
    WrongPast(
        "a rollback shows names at which nothing is",
        "magicfs.past.copies",
        "copied.restored = {key: file for key, file in files.items() if key not in names}",
        "copied.restored = files",
        ("rollback",),
        model="versions",
    ),
)
"""Wrong lines, each in what only this room of proofs tries."""
