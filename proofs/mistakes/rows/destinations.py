"""Wrong destinations, and those of others."""

from __future__ import annotations

import magicfs
from magicfs import datasets
from proofs.mistakes.user import Rows, User

__all__ = ["GROUP", "MISTAKES"]

GROUP = "Destinations"
_DELTA = '{"commitInfo":{}}'


def no_bucket(user: User) -> Rows:
    user.publish({"new.txt": "new"}, url="s3:///sales")
    return ["old", "new"]


def no_scheme(user: User) -> Rows:
    user.publish({"new.txt": "new"}, url=f"{user.bucket}/sales")
    return ["old", "new"]


def double_slash(user: User) -> Rows:
    user.publish({"new.txt": "new"}, url=user.at("/sales"))
    return ["old", "new"]


def double_slash_below(user: User) -> Rows:
    user.publish({"new.txt": "new"}, url=user.at("lake//sales"))
    return ["old"]


def trailing_slash(user: User) -> Rows:
    user.publish({"new.txt": "new"}, url=f"{user.url}/")
    return ["old", "new"]


def version_of_an_object(user: User) -> Rows:
    user.publish({"new.txt": "new"}, url=f"{user.url}?versionId=1")
    return ["old", "new"]


def a_file(user: User) -> Rows:
    user.put("file.txt", "a file\n")
    user.publish({"new.txt": "new"}, url=user.at("file.txt"))
    return ["old"]


def a_magic_path(user: User) -> Rows:
    user.publish({"new.txt": "new"}, url=user.at("sales/__magic/x/__base"))
    return ["old"]


def a_delta_table(user: User) -> Rows:
    user.put("sales/_delta_log/00000000000000000000.json", _DELTA)
    user.publish({"new.txt": "new"})
    return ["old", "new"]


def replace_above_a_delta_table(user: User) -> Rows:
    user.put("sales/trips/_delta_log/00000000000000000000.json", _DELTA)
    user.put("sales/trips/part-0.txt", "of the table\n")
    user.publish({"new.txt": "new"}, "overwrite")
    return ["new", "of the table"]


def replace_above_a_dataset(user: User) -> Rows:
    user.publish({"a.txt": "of the other dataset"}, url=user.at("sales/sub"))
    user.publish({"new.txt": "new"}, "overwrite")
    return ["new", "of the other dataset"]


def replace_above_a_running_job(user: User) -> Rows:
    inner = user.job(url=user.at("sales/sub")).setup()
    with inner.task(0) as task:
        user.write(task, {"a.txt": "of the other job"})
    user.publish({"new.txt": "new"}, "overwrite")
    inner.commit(inner.commits)
    return ["new", "of the other job"]


def replace_below_a_dataset(user: User) -> Rows:
    user.publish({"day=1/a.txt": "day 1"})
    user.publish({"a.txt": "day 1 again"}, "overwrite", url=user.at("sales/day=1"))
    return ["old", "day 1 again"]


def neighbour_of_a_like_name(user: User) -> Rows:
    user.publish({"new.txt": "of sales10"}, url=user.at("sales10"))
    user.publish({"new.txt": "new"}, "overwrite")
    other = user.sees("sales10").listed
    if other != ("of sales10",):
        raise AssertionError(f"of the neighbour {other} is left")
    return ["new"]


def files_from_before(user: User) -> Rows:
    user.put("sales/by-hand.txt", "by hand\n")
    user.publish({"new.txt": "new"}, "overwrite")
    return ["new"]


def read_with_files_from_before(user: User) -> Rows:
    user.put("plain/by-hand.txt", "by hand\n")
    user.publish({"new.txt": "new"}, url=user.at("plain"))
    magicfs.Dataset(user.at("plain")).to_arrow(format="csv")
    return ["old"]


def replace_of_an_extra_destination(user: User) -> Rows:
    user.publish({"a.txt": "of the extra"}, url=user.at("extra"))
    job = user.job(url=user.at("other"), extra_destinations=[user.url]).setup()
    with job.task(0) as task:
        task.filesystem.pipe_file(f"{task.path_to(user.url)}/b.txt", b"of the first job\n")
    user.publish({"new.txt": "new"}, "overwrite")
    job.commit(job.commits)
    return ["new", "of the first job"]


def recover_elsewhere(user: User) -> Rows:
    job = user.job().setup()
    with job.task(0) as task:
        user.write(task, {"a.txt": "new"})
    report = magicfs.Dataset(user.at("sale")).recover()
    user.told += [f"magicfs recover: {len(report.jobs)} jobs"]
    datasets.abort(user.url, job=job.id)
    return ["old"]


MISTAKES = {
    "a URL without a bucket": no_bucket,
    "a URL without a scheme": no_scheme,
    "a slash too many behind the bucket": double_slash,
    "a slash too many inside": double_slash_below,
    "a slash at the end": trailing_slash,
    "a version of an object": version_of_an_object,
    "a file": a_file,
    "a magic path": a_magic_path,
    "a Delta table": a_delta_table,
    "`overwrite` above a Delta table": replace_above_a_delta_table,
    "`overwrite` above another dataset": replace_above_a_dataset,
    "`overwrite` above a job that is at work": replace_above_a_running_job,
    "`overwrite` of a directory of a dataset, as if it were one": replace_below_a_dataset,
    "`overwrite` beside a dataset whose name begins alike": neighbour_of_a_like_name,
    "`overwrite` of files that no job has published": files_from_before,
    "reading a dataset in which files from before lie": read_with_files_from_before,
    "`overwrite` of a directory that is a running job's extra destination": replace_of_an_extra_destination,
    "`magicfs recover` at a misspelt destination": recover_elsewhere,
}
