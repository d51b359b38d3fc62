"""Options that are forgotten, misspelt, or do not fit."""

from __future__ import annotations

from typing import Any

from proofs.mistakes.user import Rows, User

__all__ = ["GROUP", "MISTAKES"]

GROUP = "Options"


def storage_options_append(user: User) -> Rows:
    with user.job() as job, job.task(0) as task:
        user.forget_options(task, {"new.txt": "new"})
    user.hear(job)
    return ["old", "new"]


def storage_options_replace_equal(user: User) -> Rows:
    for _ in range(2):
        with user.job("overwrite") as job, job.task(0) as task:
            user.forget_options(task, {"new.txt": "new"})
        user.hear(job)
    return ["new"]


def storage_options_replace_other(user: User) -> Rows:
    for day in ("1", "2"):
        with user.job("overwrite") as job, job.task(0) as task:
            user.forget_options(task, {"new.txt": f"new {day}"})
        user.hear(job)
    return ["new 2"]


def storage_options_append_twice(user: User) -> Rows:
    for day in ("1", "2"):
        with user.job() as job, job.task(0) as task:
            user.forget_options(task, {"new.txt": f"new {day}"})
        user.hear(job)
    return ["old", "new 1", "new 2"]


def storage_options_memory(user: User) -> Rows:
    with user.job(tracking="memory") as job, job.task(0) as task:
        user.forget_options(task, {"new.txt": "new"})
    user.hear(job)
    return ["old", "new"]


def half_of_the_options(user: User) -> Rows:
    with user.job("overwrite") as job:
        with job.task(0) as task:
            user.write(task, {"a.txt": "new 1"})
        with job.task(1) as task:
            user.forget_options(task, {"a.txt": "new 2"})
    user.hear(job)
    return ["new 1", "new 2"]


def mode_forgotten(user: User) -> Rows:
    import magicfs

    with magicfs.Job(user.url) as job, job.task(0) as task:
        user.write(task, {"new.txt": "new"})
    return ["old", "new"]


def mode_of_another_library(user: User) -> Rows:
    user.publish({"new.txt": "new"}, "delete_matching")
    return ["new"]


def misspelt_option(user: User) -> Rows:
    user.publish({"new.txt": "new"}, uniqe_names=False)
    return ["old", "new"]


def misspelt_committer(user: User) -> Rows:
    user.publish({"new.txt": "new"}, committer="magik")
    return ["old", "new"]


def unknown_committer_option(user: User) -> Rows:
    user.publish({"new.txt": "new"}, options={"cleanup": True})
    return ["old", "new"]


def plain_names_append(user: User) -> Rows:
    user.publish({"a.txt": "first"}, unique_names=False)
    user.publish({"a.txt": "second"}, unique_names=False)
    return ["old", "first", "second"]


def plain_names_replace(user: User) -> Rows:
    user.publish({"a.txt": "same"}, "overwrite", unique_names=False)
    user.publish({"a.txt": "same"}, "overwrite", unique_names=False)
    return ["same"]


def tiny_parts(user: User) -> Rows:
    user.publish({"new.txt": "new"}, part_size=-1)
    return ["old", "new"]


def memory_without_commits(user: User) -> Rows:
    job = user.job(tracking="memory").setup()
    with job.task(0) as task:
        user.write(task, {"new.txt": "new"})
    job.commit()
    return ["old", "new"]


def run_id_forgotten(user: User) -> Rows:
    user.publish({"new.txt": "new"}, run_id="2026-11-22")
    user.publish({"new.txt": "new"})
    return ["old", "new", "new"]


def run_id_of_another_day(user: User) -> Rows:
    user.publish({"new.txt": "monday"}, run_id="daily")
    user.publish({"new.txt": "tuesday"}, run_id="daily")
    return ["old", "monday", "tuesday"]


def corrected_data(user: User) -> Rows:
    user.publish({"new.txt": "wrong"}, run_id="2026-11-22")
    user.publish({"new.txt": "corrected"}, run_id="2026-11-22")
    return ["old", "corrected"]


def settings_by_hand(user: User) -> Rows:
    from magicfs import MagicFileSystem

    with user.job() as job, job.task(0) as task:
        filesystem: Any = MagicFileSystem(target_protocol="memory", unique_names=False, tracking="memory")
        filesystem.pipe_file(f"{task.path}/new.txt", b"new\n")
    user.hear(job)
    return ["old", "new"]


MISTAKES = {
    "`storage_options=task.storage_options` is left out of an append": storage_options_append,
    "it is left out of two appends that write one name": storage_options_append_twice,
    "it is left out of an `overwrite` that runs again with equal data": storage_options_replace_equal,
    "it is left out of an `overwrite` that runs again with other data": storage_options_replace_other,
    "it is left out of one task of two": half_of_the_options,
    'it is left out with `tracking="memory"`': storage_options_memory,
    "a filesystem made by hand, with other settings than the job's": settings_by_hand,
    "`mode=` is left out where data is there": mode_forgotten,
    '`mode="delete_matching"`, which is another library\'s word': mode_of_another_library,
    "a misspelt option": misspelt_option,
    "a misspelt committer": misspelt_committer,
    "a committer option that the committer has not": unknown_committer_option,
    "`unique_names=False`, and two appends of one name": plain_names_append,
    "`unique_names=False`, and an `overwrite` that runs again with equal data": plain_names_replace,
    "a negative part size": tiny_parts,
    '`tracking="memory"`, and `job.commit()` without the commits': memory_without_commits,
    "`run_id=` is left out of a rerun (a second append is meant by that)": run_id_forgotten,
    "one `run_id` for two days": run_id_of_another_day,
    "a rerun with the same `run_id` and corrected data": corrected_data,
}
