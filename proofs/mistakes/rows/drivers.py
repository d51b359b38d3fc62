"""What goes wrong with drivers: killed, interrupted, several of them."""

from __future__ import annotations

import os
import pickle
import sys

import magicfs
from magicfs import datasets
from magicfs.protocol.job_state import JobState
from proofs.mistakes.user import Rows, User
from proofs.scenes.unfinished import died_in

__all__ = ["GROUP", "MISTAKES"]

GROUP = "Drivers"
_DAY = "2026-11-22"


def killed_before_commit(user: User) -> Rows:
    died_in(JobState.OPEN, user.url, tasks=1)
    user.publish({"new.txt": "new"})
    return ["old", "new"]


def killed_in_commit(user: User) -> Rows:
    died_in(JobState.COMMITTING, user.url, tasks=2, completed=1)
    magicfs.Dataset(user.url).recover()
    return ["old", "0", "1"]


def killed_in_commit_and_rolled_back(user: User) -> Rows:
    died_in(JobState.COMMITTING, user.url, tasks=2, completed=1)
    magicfs.Dataset(user.url).recover(rollback=True)
    return ["old"]


def killed_and_run_again(user: User) -> Rows:
    died_in(JobState.COMMITTING, user.url, tasks=1, completed=1, run_id=_DAY)
    user.publish({"part.bin": "0"}, run_id=_DAY)
    return ["old", "0"]


def killed_and_replaced(user: User) -> Rows:
    died_in(JobState.COMMITTING, user.url, tasks=2, completed=1)
    user.publish({"new.txt": "new"}, "overwrite")
    return ["new"]


def recovered_twice(user: User) -> Rows:
    died_in(JobState.COMMITTING, user.url, tasks=2, completed=1)
    magicfs.Dataset(user.url).recover()
    magicfs.Dataset(user.url).recover()
    return ["old", "0", "1"]


def recovered_while_alive(user: User) -> Rows:
    with user.job() as job:
        with job.task(0) as task:
            user.write(task, {"a.txt": "new"})
        magicfs.Dataset(user.url).recover()
    user.hear(job)
    return ["old", "new"]


def aborted_while_alive(user: User) -> Rows:
    with user.job() as job:
        with job.task(0) as task:
            user.write(task, {"a.txt": "new"})
        datasets.abort(user.url, job=job.id)
    return ["old", "new"]


def committed_while_alive(user: User) -> Rows:
    with user.job() as job:
        with job.task(0) as task:
            user.write(task, {"a.txt": "new 0"})
        datasets.commit(user.url, job.id)
        with job.task(1) as task:
            user.write(task, {"b.txt": "new 1"})
    user.hear(job)
    return ["old", "new 0", "new 1"]


def committed_twice(user: User) -> Rows:
    job = user.publish({"new.txt": "new"})
    job.commit()
    return ["old", "new"]


def aborted_after_commit(user: User) -> Rows:
    job = user.publish({"new.txt": "new"})
    job.abort()
    return ["old"]


def aborted_by_command_after_commit(user: User) -> Rows:
    job = user.publish({"new.txt": "new"})
    report = datasets.abort(user.url, job=job.id)
    user.told += [f"magicfs recover --abort: {one.action}: {one.reason}" for one in report.jobs]
    return ["old"]


def one_id_for_two(user: User) -> Rows:
    user.publish({"a.txt": "first"}, job_id="nightly")
    user.publish({"b.txt": "second"}, job_id="nightly")
    return ["old", "first", "second"]


def two_drivers(user: User) -> Rows:
    first = user.job(job_id="nightly").setup()
    with first.task(0) as task:
        user.write(task, {"a.txt": "new"})
    user.job(job_id="nightly").setup()
    first.commit()
    return ["old", "new"]


def pickled_driver(user: User) -> Rows:
    job = user.job().setup()
    with job.task(0) as task:
        user.write(task, {"a.txt": "new"})
    copy: magicfs.Job = pickle.loads(pickle.dumps(job))  # noqa: S301 - our own
    copy.commit(copy.commits)
    job.commit(job.commits)
    return ["old", "new"]


def interrupted_in_body(user: User) -> Rows:
    try:
        with user.job() as job, job.task(0) as task:
            user.write(task, {"a.txt": "new"})
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        user.told.append("KeyboardInterrupt")
    return ["old"]


def forked_child_falls_out(user: User) -> Rows:
    job = user.job()
    sys.stdout.flush()
    with job:
        with job.task(0) as task:
            user.write(task, {"a.txt": "new 0"})
        if (child := os.fork()) == 0:
            try:
                job.__exit__(None, None, None)
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        with job.task(1) as task:
            user.write(task, {"b.txt": "new 1"})
    user.hear(job)
    return ["old", "new 0", "new 1"]


def set_up_too_late(user: User) -> Rows:
    job = user.job()
    with job.task(0) as task:
        user.write(task, {"a.txt": "new"})
    return ["old", "new"]


def never_ended(user: User) -> Rows:
    job = user.job().setup()
    with job.task(0) as task:
        user.write(task, {"a.txt": "new"})
    report = magicfs.Dataset(user.url).recover()
    user.told += [f"magicfs recover: {one.found}, {one.action}" for one in report.jobs]
    return ["old", "new"]


def two_replaces_at_once(user: User) -> Rows:
    jobs = [user.job("overwrite").setup() for _ in range(2)]
    for number, job in enumerate(jobs):
        with job.task(0) as task:
            user.write(task, {"a.txt": f"new {number}"})
    for job in jobs:
        job.commit(job.commits)
        user.hear(job)
    return ["new 1"]


MISTAKES = {
    "the driver is killed before its commit, and another job runs": killed_before_commit,
    "the driver is killed in its commit, then `magicfs recover`": killed_in_commit,
    "the driver is killed in its commit, then `magicfs recover --rollback`": killed_in_commit_and_rolled_back,
    "the driver is killed in its commit, and the run is started again": killed_and_run_again,
    "the driver is killed in its commit, and an `overwrite` follows": killed_and_replaced,
    "`magicfs recover` is run twice": recovered_twice,
    "`magicfs recover` is run while the driver is alive": recovered_while_alive,
    "`magicfs recover --abort` is run while the driver is alive": aborted_while_alive,
    "`magicfs recover --commit` is run while the driver lives and has tasks to come": committed_while_alive,
    "`job.commit` is called twice": committed_twice,
    "`job.abort` is called after the commit": aborted_after_commit,
    "`magicfs recover --abort` is run after the commit": aborted_by_command_after_commit,
    "one `job_id` for two jobs": one_id_for_two,
    "two drivers of one `job_id` at once": two_drivers,
    "a pickled copy of the job commits, and then the job": pickled_driver,
    "Ctrl-C in the body": interrupted_in_body,
    "a forked child falls out of the `with` block": forked_child_falls_out,
    "a task is used before the job is set up": set_up_too_late,
    "the job is set up and written to, and never committed": never_ended,
    "two jobs `overwrite` at once": two_replaces_at_once,
}
