"""What goes wrong in tasks."""

from __future__ import annotations

import gc
import pickle
from contextlib import suppress

import fsspec

import magicfs
from proofs.mistakes.user import Rows, User

__all__ = ["GROUP", "MISTAKES"]

GROUP = "Tasks"


def never_committed(user: User) -> Rows:
    with user.job() as job:
        with job.task(0) as task:
            user.write(task, {"a.txt": "new 0"})
        forgotten = job.task(1).setup()
        user.write(forgotten, {"b.txt": "new 1"})
    user.hear(job)
    return ["old", "new 0", "new 1"]


def committed_twice(user: User) -> Rows:
    job = user.job().setup()
    commits = []
    for _ in range(2):
        with job.task(0) as task:
            user.write(task, {"a.txt": "new"})
        commits.append(task.committed)
    job.commit([one for one in commits if one is not None])
    return ["old", "new"]


def two_attempts(user: User) -> Rows:
    job = user.job().setup()
    with job.task(0) as task:
        user.write(task, {"a.txt": "new"})
    with magicfs.Task(job.spec, job.task(0).id) as again:
        user.write(again, {"a.txt": "new"})
    assert again.committed is not None
    job.commit([again.committed])
    return ["old", "new"]


def not_handed_over(user: User) -> Rows:
    with user.job() as job:
        with job.task(0) as task:
            user.write(task, {"a.txt": "new 0"})
        elsewhere: magicfs.Task = pickle.loads(pickle.dumps(job.task(1)))  # noqa: S301 - our own
        with elsewhere:
            user.write(elsewhere, {"b.txt": "new 1"})
    user.hear(job)
    return ["old", "new 0", "new 1"]


def commit_of_another_job(user: User) -> Rows:
    other = user.job(url=user.at("other")).setup()
    with other.task(0) as task:
        user.write(task, {"a.txt": "other"})
    job = user.job().setup()
    assert task.committed is not None
    job.commit([task.committed])
    return ["old", "other"]


def closed_too_late(user: User) -> Rows:
    with user.job() as job:
        with job.task(0) as task:
            file = task.filesystem.open(f"{task.path}/a.txt", "wb")
            file.write(b"new 0\n")
        with job.task(1) as task:
            user.write(task, {"b.txt": "new 1"})
            file.close()
    user.hear(job)
    return ["old", "new 0", "new 1"]


def never_closed(user: User) -> Rows:
    with user.job() as job, job.task(0) as task:
        file = task.filesystem.open(f"{task.path}/a.txt", "wb")
        file.write(b"new\n")
        del file
        gc.collect()
    user.hear(job)
    return ["old", "new"]


def rebound(user: User) -> Rows:
    with user.job() as job, job.task(0) as task:
        for number in range(3):
            file = task.filesystem.open(f"{task.path}/{number}.txt", "wb")
            file.write(b"new %d\n" % number)
        file.close()
        del file
        gc.collect()
    user.hear(job)
    return ["old", "new 0", "new 1", "new 2"]


def body_raised(user: User) -> Rows:
    with user.job() as job, job.task(0) as task:
        user.write(task, {"a.txt": "new"})
        with suppress(ValueError), task.filesystem.open(f"{task.path}/half.txt", "wb") as file:
            file.write(b"half of it\n")
            raise ValueError("of the user")
    user.hear(job)
    return ["old", "new"]


def body_raised_in_fsspec(user: User) -> Rows:
    with user.job() as job, job.task(0) as task:
        user.write(task, {"a.txt": "new"})
        with (
            suppress(ValueError),
            fsspec.open(task.url("half.txt"), "wb", **task.storage_options) as file,
        ):
            file.write(b"half of it\n")
            raise ValueError("of the user")
    user.hear(job)
    return ["old", "new"]


def task_raised(user: User) -> Rows:
    with user.job() as job:
        with job.task(0) as task:
            user.write(task, {"a.txt": "new"})
        with suppress(ValueError), job.task(1) as task:
            user.write(task, {"half.txt": "half"})
            raise ValueError("of the user")
    user.hear(job)
    return ["old", "new"]


def written_after_task_commit(user: User) -> Rows:
    with user.job() as job:
        with job.task(0) as task:
            user.write(task, {"a.txt": "new 0"})
        user.write(task, {"b.txt": "new 1"})
    user.hear(job)
    return ["old", "new 0", "new 1"]


def written_after_job(user: User) -> Rows:
    with user.job() as job, job.task(0) as task:
        user.write(task, {"a.txt": "new 0"})
    user.hear(job)
    user.write(task, {"b.txt": "new 1"})
    return ["old", "new 0", "new 1"]


def past_the_task(user: User) -> Rows:
    with user.job() as job, job.task(0) as task:
        task.filesystem.pipe_file(f"{user.bucket}/sales/direct.txt", b"direct\n")
        raise_in_the_end = True
        if raise_in_the_end:
            raise ValueError("of the user")
    return ["old"]


def out_of_the_task(user: User) -> Rows:
    with user.job() as job, job.task(0) as task:
        user.write(task, {"../x.txt": "new"})
    user.hear(job)
    return ["old", "new"]


def moved_into_the_task(user: User) -> Rows:
    user.put("landing/a.txt", "new\n")
    try:
        with user.job() as job, job.task(0) as task:
            task.filesystem.mv(f"{user.bucket}/landing/a.txt", f"{task.path}/a.txt")
    finally:
        assert "landing/a.txt" in user.keys("landing/")
    user.hear(job)
    return ["old", "new"]


def one_name_in_two_tasks(user: User) -> Rows:
    with user.job() as job:
        for number in range(2):
            with job.task(number) as task:
                user.write(task, {"part.txt": f"new {number}"})
    user.hear(job)
    return ["old", "new 0", "new 1"]


def one_plain_name_in_two_tasks(user: User) -> Rows:
    with user.job(unique_names=False) as job:
        for number in range(2):
            with job.task(number) as task:
                user.write(task, {"part.txt": f"new {number}"})
    user.hear(job)
    return ["old", "new 0", "new 1"]


def one_name_twice(user: User) -> Rows:
    with user.job() as job, job.task(0) as task:
        user.write(task, {"part.txt": "first"})
        user.write(task, {"part.txt": "second"})
    user.hear(job)
    return ["old", "second"]


def hidden_partition_column(user: User) -> Rows:
    user.publish({"_day=1/a.txt": "new 1"})
    user.publish({"_day=1/a.txt": "new 2"}, "overwrite_partitions")
    return ["old", "new 2"]


def no_tasks(user: User) -> Rows:
    with user.job("overwrite"):
        pass
    return ["old"]


def nothing_written(user: User) -> Rows:
    with user.job("overwrite") as job, job.task(0):
        pass
    return ["old"]


def rewritten_under_its_name(user: User) -> Rows:
    for _ in range(3):
        names = [key.rpartition("/")[2] for key in user.keys("sales/") if key.endswith(".txt")]
        with user.job("overwrite") as job, job.task(0) as task:
            user.write(task, {names[0]: "rewritten"})
        user.hear(job)
    return ["rewritten"]


def job_id_in_a_directory(user: User) -> Rows:
    with user.job() as job:
        for number in range(2):
            with job.task(number) as task:
                user.write(task, {f"load={job.id}/part.txt": f"new {number}"})
    user.hear(job)
    return ["old", "new 0", "new 1"]


MISTAKES = {
    "a task is set up and written to, and never committed": never_committed,
    "two attempts of one task are committed, and both handed over": committed_twice,
    "two attempts of one task are committed, and the engine takes one": two_attempts,
    "a task was committed elsewhere, and nobody hands its commit over": not_handed_over,
    "a commit of another job is handed over": commit_of_another_job,
    "a file is opened in one task and closed in another": closed_too_late,
    "a file is never closed, and the garbage collector takes it": never_closed,
    "three files are opened under one name of a variable, and one is closed": rebound,
    "a `with` body of a file raises, and the task goes on": body_raised,
    "a `with fsspec.open(…)` body raises, and the task goes on": body_raised_in_fsspec,
    "a task raises, and the job goes on": task_raised,
    "a task is written to after its commit": written_after_task_commit,
    "a task is written to after the job": written_after_job,
    "a file is written to the destination itself, and the job fails": past_the_task,
    "a path that leads out of the task": out_of_the_task,
    "a file is moved into the task, and the job fails": moved_into_the_task,
    "two tasks write one name": one_name_in_two_tasks,
    "two tasks write one name, with `unique_names=False`": one_plain_name_in_two_tasks,
    "a task writes one name twice (the second is meant)": one_name_twice,
    "a partition column that begins with `_`, replaced": hidden_partition_column,
    "files are rewritten under the names that they have got": rewritten_under_its_name,
    "the job's id is put into a directory's name": job_id_in_a_directory,
    "an `overwrite` without any task": no_tasks,
    "an `overwrite` whose only task writes nothing": nothing_written,
}
