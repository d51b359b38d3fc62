"""What must hold, whatever is cut: one function, for every moment and for the end.

(a) Before ``committing`` the destination equals its old state, at every moment.
(b) After the job or its recovery has ended it equals exactly old or exactly new, as the job's states say;
    and at every moment every old file or its whole replacement is there.
(c) The output is of exactly one attempt of each task.
(d) When all has ended no pending upload and no work object of a job is left.
(e) Nothing is touched but the job's own paths, pointer, manifest, ``_SUCCESS`` and the keys that its facts
    list.
(f) ``_SUCCESS`` and the pointer imply that every listed file is whole.
(g) No file of another dataset is gone: whatever the manifests of any destination name is there, at every
    moment (``proofs.crash.elsewhere``).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from proofs.crash.chain import read_chain
from proofs.crash.history import Facts, JobFacts, JobHistory, is_data
from proofs.crash.snapshots import SnapshotWorld

__all__ = ["Violation", "check"]

Histories = Mapping[str, JobHistory]


@dataclass(frozen=True, slots=True)
class Violation:
    """Something that must not be.

    Attributes:
        letter: Of the invariant.
        text: What was seen.
    """

    letter: str
    text: str

    def __str__(self) -> str:
        return f"({self.letter}) {self.text}"


@dataclass(frozen=True, slots=True)
class _Look:
    """One look at a world.

    Attributes:
        facts: What the engine knows.
        histories: What the jobs went through.
        before: The data and everything else before the jobs.
        now: The same now.
    """

    facts: Facts
    histories: Histories
    before: SnapshotWorld
    now: SnapshotWorld

    @property
    def alone(self) -> bool:
        return len(self.facts.jobs) == 1

    def data(self, world: SnapshotWorld) -> dict[str, Any]:
        """What readers take for data, and what jobs write under hidden names."""
        hidden = self.hidden
        destination = self.facts.destination
        return {
            key: found for key, found in world.objects.items() if is_data(key, destination) or key in hidden
        }

    @property
    def hidden(self) -> set[str]:
        """Keys of the jobs' own files that no reader takes for data."""
        return {key for key in self.written if not is_data(key, self.facts.destination)}

    @property
    def written(self) -> set[str]:
        """Keys of the jobs' own files."""
        return {key for job in self.facts.jobs for files in job.outputs.values() for key in files}

    def jobs(self) -> Iterator[tuple[JobFacts, JobHistory]]:
        for job in self.facts.jobs:
            yield job, self.histories[job.job_id]

    def owner(self, key: str, body: bytes) -> tuple[JobFacts, JobHistory] | None:
        """The job one of whose attempts wrote exactly this."""
        for job, history in self.jobs():
            if any(files.get(key) == body for files in job.outputs.values()):
                return job, history
        return None

    def deletable(self) -> set[str]:
        """Old keys that jobs past the point of no return have written down."""
        found: set[str] = set()
        for _, history in self.jobs():
            if history.plan is not None and history.reached("completed"):
                found |= history.plan.deletions
        return found


def check(
    before: SnapshotWorld, now: SnapshotWorld, facts: Facts, histories: Histories, *, ended: bool
) -> list[Violation]:
    """Everything that is wrong with a world.

    Args:
        before: The world before the jobs.
        now: The world.
        facts: What the engine knows.
        histories: What the jobs went through until now.
        ended: Whether no process is left and recovery has had its turn; otherwise this is only a moment.
    """
    look = _Look(facts, histories, before, now)
    found = [*_moment(look), *_attempts(look), *_success(look), *_pointer(look)]
    if ended:
        found += [*_outcome(look), *_leftovers(look), *_untouched(look), *_readers(look)]
    return found


def _moment(look: _Look) -> Iterator[Violation]:
    """(a), (b) and (e) as far as data goes: nothing shows too early, nothing old goes too early."""
    old, data = look.data(look.before), look.data(look.now)
    for key, found in data.items():
        if old.get(key) is found:
            continue
        owned = look.owner(key, found.body)
        if owned is None:
            yield Violation("c" if key not in old else "e", f"{key} holds what no committed attempt wrote")
            continue
        job, history = owned
        if _is_claimed(job, history, key, found.body):
            pass  # its task has published it, and it stays
        elif not history.reached("committing"):
            yield Violation("a", f"{key} is visible and its job was never committing: {history.states}")
        elif history.plan is not None and key not in history.plan.files:
            yield Violation("c", f"{key} is visible, and the job does not publish it")
        elif history.ended and not history.reached("completed"):
            yield Violation("b", f"{key} is visible after its job was taken back: {history.states}")
        if key in old and not (history.plan and key in history.plan.equal and job.mode == "overwrite"):
            yield Violation("e", f"{key} was replaced by a job that may not")
    deletable = look.deletable()
    for key in old.keys() - data.keys() - deletable:
        planned = any(h.plan is not None and key in h.plan.deletions for _, h in look.jobs())
        early = any(not h.reached("committing") and h.states for _, h in look.jobs())
        letter = "a" if early and look.alone else "b" if planned else "e"
        yield Violation(letter, f"old file {key} is gone, and no completed job deletes it")
    for job, history in look.jobs():
        if history.plan is None or not history.reached("completed"):
            continue
        if history.states[-1] in {"committing", "reverting"}:
            yield Violation("b", f"{job.job_id} was published and is moved again: {history.states}")
        for key in history.plan.files.keys() - data.keys() - deletable:
            yield Violation("b", f"{key} of {job.job_id}, which is completed, is not there")
        for key in history.plan.files.keys() & data.keys() - deletable:
            wrote = job.outputs.get(history.plan.files[key], {})
            if wrote.get(key) != data[key].body:
                yield Violation("b", f"{key} of {job.job_id}, which is completed, holds something else")


def _is_claimed(job: JobFacts, history: JobHistory, key: str, body: bytes) -> bool:
    """Whether a file is of an attempt that publishes its task, which no other attempt can."""
    if not job.by_tasks or (history.plan is not None and key not in history.plan.files):
        return False
    return any(job.outputs.get(attempt, {}).get(key) == body for attempt in history.claims)


def _attempts(look: _Look) -> Iterator[Violation]:
    """(c): what is to be published is one committed attempt for each task, whole."""
    for job, history in look.jobs():
        tasks = [_task_of(attempt) for attempt in history.claims]
        if len(tasks) != len(set(tasks)):
            yield Violation("c", f"two attempts have claimed one task: {sorted(history.claims)}")
        if (plan := history.plan) is None:
            continue
        if plan.problem:
            yield Violation("b", plan.problem)
            continue
        chosen = set(plan.files.values())
        for attempt in chosen:
            if attempt not in job.outputs:
                yield Violation("c", f"{attempt} is published and never committed")
            elif job.accepted is not None and not any(chosen <= taken for taken in job.accepted):
                yield Violation("c", f"{attempt} is published and the engine did not accept it")
            else:
                wrote = set(job.outputs[attempt])
                if wrote != {key for key, one in plan.files.items() if one == attempt}:
                    yield Violation("c", f"{attempt} is published in part")
        tasks = [_task_of(attempt) for attempt in chosen]
        if len(tasks) != len(set(tasks)):
            yield Violation("c", f"two attempts of one task are published: {sorted(chosen)}")
        if missing := job.tasks - set(tasks):
            yield Violation("c", f"tasks {sorted(missing)} are not published")


def _task_of(attempt: str) -> str:
    return attempt.removeprefix("attempt-").rpartition("-")[0]


def _success(look: _Look) -> Iterator[Violation]:
    """(f): who sees ``_SUCCESS`` sees exactly old or exactly new."""
    key = f"{look.facts.destination}/_SUCCESS"
    found, old = look.now.objects.get(key), look.before.objects.get(key)
    if found is None or not look.alone:
        return
    data = look.data(look.now)
    if old is not None and _same_success(found, old):
        before = look.data(look.before)
        changed = [one for one in before.keys() | data.keys() if before.get(one) is not data.get(one)]
        if look.facts.jobs[0].by_tasks:  # what its tasks publish comes before
            changed = [one for one in changed if one in before]
        if changed:
            yield Violation("f", f"the old _SUCCESS is there and {min(changed)} has changed")
        return
    (job, history), plan = next(look.jobs()), look.histories[look.facts.jobs[0].job_id].plan
    if _job_of(found.body) != job.job_id:
        yield Violation("f", "_SUCCESS is neither the old one nor the job's")
    elif plan is None or not history.reached("completed"):
        yield Violation("f", f"_SUCCESS was written by a job that was {history.states}")
    elif left := plan.deletions & data.keys():
        yield Violation("f", f"_SUCCESS was written while {min(left)} was still there")
    elif missing := plan.files.keys() - data.keys():
        yield Violation("f", f"_SUCCESS was written and {min(missing)} is not there")


def _same_success(found: Any, old: Any) -> bool:
    """Whether one was restored from the other; white space behind it gives it an ETag of its own."""
    return bool(found.body.rstrip() == old.body.rstrip())


def _job_of(body: bytes) -> object:
    try:
        return json.loads(body).get("jobId")
    except ValueError:
        return None


def _pointer(look: _Look) -> Iterator[Violation]:
    """(f): what the pointer leads to is there, and whole."""
    view = read_chain(look.now.objects, look.facts.destination)
    if view.problem:
        yield Violation("f", view.problem)
        return
    by_id = {job.job_id: history for job, history in look.jobs()}
    if view.head in by_id and not by_id[view.head].reached("completed"):
        yield Violation("f", f"the pointer names {view.head}, which is not completed")
    # Names that are replaced in place change under a reader, and so does what later jobs have deleted.
    changed = {key for _, history in look.jobs() if history.plan for key in history.plan.equal}
    changed |= look.deletable() if not look.alone else set()
    for key, etag in view.newest.items():
        found = look.now.objects.get(key)
        if key not in changed and (found is None or (etag and found.info.etag != etag)):
            yield Violation("f", f"the manifest of {view.head} lists {key}, which is not there, or another")


def _outcome(look: _Look) -> Iterator[Violation]:
    """(b): exactly old or exactly new, as the states say."""
    expected = set(look.data(look.before))
    for job, history in look.jobs():
        if history.state is not None:
            yield Violation("b", f"job {job.job_id} has not ended, it is {history.state}")
        plan = history.plan
        if plan is None or not history.reached("completed"):
            continue
        expected |= plan.files.keys()
        yield from _scope(look, job, history)
    expected -= look.deletable()
    data = {*look.data(look.now)}
    for job, history in look.jobs():
        if job.by_tasks and not history.reached("completed"):
            # What its tasks have published stays.
            data -= {key for one in history.claims for key in job.outputs.get(one, {})} - expected
    if look.alone and expected != data:
        missing, surplus = sorted(expected - data), sorted(data - expected)
        yield Violation("b", f"the destination is neither old nor new: missing {missing}, too many {surplus}")


def _scope(look: _Look, job: JobFacts, history: JobHistory) -> Iterator[Violation]:
    """A completed job has deleted what its mode says, no more and no less."""
    plan = history.plan
    assert plan is not None
    partitions = tuple(f"{key.rpartition('/')[0]}/" for key in plan.files)
    if job.mode in {"append", "error"}:
        if plan.deletions:
            yield Violation("e", f"{job.mode} deletes {min(plan.deletions)}")
        # A rival may have deleted what was there before both.
        there = look.data(look.before).keys() | history.seen if look.alone else history.seen
        taken = there - plan.files.keys()
        if job.committer == "partitioned":
            taken = {key for key in taken if key.startswith(partitions)}
        if job.mode == "error" and taken:
            yield Violation("e", f"fail published although {min(taken)} was there")
        return
    before = look.data(look.before).keys()
    for key in (before | history.seen) - plan.equal - plan.files.keys():
        inside = job.mode == "overwrite" or key.startswith(partitions)
        if inside and key not in plan.deletions and (look.alone or key in history.seen):
            yield Violation("b", f"{job.mode} leaves old file {key}")
        if not inside and key in plan.deletions:
            yield Violation("e", f"{job.mode} deletes {key}, outside the partitions that it touches")


def _leftovers(look: _Look) -> Iterator[Violation]:
    """(d): no upload and no work object of a job is left.

    Without unique names nobody can tell whose an upload is that no document has ever named. Where the store
    lists no upload under the name of an object, one that is opened there waits until it expires.
    """
    recorded = {one for _, history in look.jobs() for one in history.recorded}
    nameless = not all(job.unique for job, _ in look.jobs())
    for upload_id in look.now.uploads.keys() - look.before.uploads.keys():
        key = look.now.uploads[upload_id].key
        if (nameless and upload_id not in recorded) or (look.facts.hides and key in look.now.objects):
            continue
        yield Violation("d", f"an upload of {key} is left")
    for job in look.facts.jobs:
        for directory in job.directories(look.facts.destination):
            for key in (*look.now.objects, *look.now.directories):
                if f"{key}/".startswith(f"{directory}/"):
                    yield Violation("d", f"{key} is left")


def _untouched(look: _Look) -> Iterator[Violation]:
    """(e): everything else is the very same.

    Where uploads of one name share a list, whoever writes to the name drops the others. Some stores drop old
    ones themselves.
    """
    destination = look.facts.destination
    own = {f"{destination}/_SUCCESS"}
    work = [f"{destination}/_magicfs/current.", f"{destination}/_magicfs/compact-"]
    for job in look.facts.jobs:
        work += [f"{one}/" for one in job.directories(destination)]
        work.append(f"{destination}/_magicfs/{job.job_id}.")
    before, now = look.before.objects, look.now.objects
    own |= look.hidden
    for key in before.keys() | now.keys():
        if before.get(key) is now.get(key) or key in own or is_data(key, destination):
            continue
        if key.startswith(tuple(work)):
            continue
        yield Violation("e", f"{key} was {'changed' if key in before and key in now else 'made or removed'}")
    for upload_id in look.before.uploads.keys() - look.now.uploads.keys() - look.now.expired:
        if look.facts.hides and look.before.uploads[upload_id].key in look.written:
            continue
        yield Violation("e", f"the upload of {look.before.uploads[upload_id].key} was somebody else's")
    success = f"{destination}/_SUCCESS"
    if look.alone and not look.histories[look.facts.jobs[0].job_id].reached("completed"):
        was, is_ = before.get(success), now.get(success)
        lost = is_ is None and look.facts.window
        if not lost and ((was is None) != (is_ is None) or (was and not _same_success(was, is_))):
            yield Violation("b", "the old _SUCCESS was not restored")


def _readers(look: _Look) -> Iterator[Violation]:
    """(b) for readers of the chain, and of ``_SUCCESS``: a completed job is what they see."""
    destination = look.facts.destination
    was, view = read_chain(look.before.objects, destination), read_chain(look.now.objects, destination)
    linked = {key for key in was.files if key not in look.deletable()}
    for job, history in look.jobs():
        done = history.plan is not None and history.reached("completed")
        if done != (job.job_id in view.jobs) and (look.alone or not done):
            yield Violation("b", f"{job.job_id} went {history.states}, and the chain is {view.jobs}")
        if done and history.plan is not None:
            linked |= history.plan.files.keys()
            marked = f"{destination}/_SUCCESS" in look.now.objects or look.facts.window
            if look.alone and not marked:
                yield Violation("b", f"{job.job_id} is completed and there is no _SUCCESS")
    linked -= look.deletable()
    if not look.now.objects.keys() >= linked or set(view.files) != linked:
        yield Violation("b", f"the chain shows {sorted(set(view.files) ^ linked)} too many or too few")
