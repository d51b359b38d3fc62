"""What is done by hand, or by commands, beside jobs."""

from __future__ import annotations

import magicfs
from magicfs.protocol.job_state import JobState
from proofs.mistakes.user import Rows, User
from proofs.scenes.unfinished import died_in

__all__ = ["GROUP", "MISTAKES"]

GROUP = "By hand"


def work_removed(user: User) -> Rows:
    with user.job() as job:
        with job.task(0) as task:
            user.write(task, {"a.txt": "new"})
        user.delete("sales/__magic")
    user.hear(job)
    return ["old", "new"]


def work_removed_half_way(user: User) -> Rows:
    died_in(JobState.COMMITTING, user.url, tasks=2, completed=1)
    user.delete("sales/__magic")
    report = magicfs.Dataset(user.url).recover()
    user.told += [f"magicfs recover: {len(report.jobs)} jobs", *_verified(user)]
    return ["old", "0", "1"]


def facts_removed(user: User) -> Rows:
    died_in(JobState.COMMITTING, user.url, tasks=2, completed=1)
    for key in user.keys("/facts"):
        user.delete(key)
    magicfs.Dataset(user.url).recover()
    return ["old", "0", "1"]


def uploads_expired(user: User) -> Rows:
    with user.job() as job:
        with job.task(0) as task:
            user.write(task, {"a.txt": "new"})
        user.abort_uploads()
    user.hear(job)
    return ["old", "new"]


def uploads_expired_half_way(user: User) -> Rows:
    died_in(JobState.COMMITTING, user.url, tasks=2, completed=1)
    user.abort_uploads()
    report = magicfs.Dataset(user.url).recover()
    user.told += [f"magicfs recover: {one.action}" for one in report.jobs]
    return ["old"]


def pointer_removed(user: User) -> Rows:
    user.delete("sales/_magicfs/current.json")
    user.publish({"new.txt": "new"})
    return ["old", "new"]


def manifest_removed(user: User) -> Rows:
    for key in user.keys("/_magicfs/"):
        if not key.endswith("current.json"):
            user.delete(key)
    user.publish({"new.txt": "new"}, "overwrite")
    return ["new"]


def manifests_adopted(user: User) -> Rows:
    user.publish({"new.txt": "new"})
    for key in user.keys("/_magicfs/"):
        if not key.endswith("current.json"):
            user.delete(key)
    magicfs.Dataset(user.url).adopt()
    return ["old", "new"]


def manifests_removed(user: User) -> Rows:
    user.delete("sales/_magicfs")
    user.publish({"new.txt": "new"}, "overwrite")
    return ["new"]


def success_removed(user: User) -> Rows:
    user.delete("sales/_SUCCESS")
    user.publish({"new.txt": "new"})
    return ["old", "new"]


def file_removed(user: User) -> Rows:
    for key in user.keys("old"):
        user.delete(key)
    user.told += _verified(user)
    user.publish({"new.txt": "new"}, "overwrite")
    return ["new"]


def adopted_twice(user: User) -> Rows:
    user.put("sales/by-hand.txt", "by hand\n")
    magicfs.Dataset(user.url).adopt()
    magicfs.Dataset(user.url).adopt()
    return ["old", "by hand"]


def compacted_beside_a_job(user: User) -> Rows:
    for number in range(3):
        user.publish({"a.txt": f"new {number}"})
    with user.job() as job:
        with job.task(0) as task:
            user.write(task, {"b.txt": "last"})
        magicfs.Dataset(user.url).compact()
    user.hear(job)
    magicfs.Dataset(user.url).compact()
    return ["old", "new 0", "new 1", "new 2", "last"]


def written_beside(user: User) -> Rows:
    user.publish({"a.txt": "new"})
    user.put("sales/by-hand.txt", "by hand\n")
    user.told += _verified(user)
    return ["old", "new", "by hand"]


def _verified(user: User) -> list[str]:
    report = magicfs.Dataset(user.url).verify()
    found = {name: len(getattr(report, name)) for name in ("missing", "altered", "foreign")}
    return [
        f"magicfs verify: {number} {name}" + ("" if number == 1 else " files")
        for name, number in found.items()
        if number
    ]


MISTAKES = {
    "`rm -r` of the work directory before the commit": work_removed,
    "`rm -r` of the work directory of a job that died half-way": work_removed_half_way,
    "the facts of a job that died half-way are removed": facts_removed,
    "a lifecycle rule aborts the uploads before the commit": uploads_expired,
    "a lifecycle rule aborts the uploads of a job that died half-way": uploads_expired_half_way,
    "`current.json` is removed": pointer_removed,
    "the newest manifest is removed, and an `overwrite` follows": manifest_removed,
    "all manifests are removed, and `magicfs adopt` follows": manifests_adopted,
    "`_magicfs` is removed, and an `overwrite` follows": manifests_removed,
    "`_SUCCESS` is removed": success_removed,
    "a published file is removed, and an `overwrite` follows": file_removed,
    "`Dataset.adopt` is called twice": adopted_twice,
    "`Dataset.compact` runs beside a job": compacted_beside_a_job,
    "a file is written beside the jobs": written_beside,
}
