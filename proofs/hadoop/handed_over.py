"""(b) Tasks of ours write, and the JVM commits or aborts the job."""

from __future__ import annotations

import time
from contextlib import suppress
from functools import partial

import magicfs
from magicfs.errors import UsageError
from magicfs.testing.faults import Action, Rule
from proofs.hadoop.crossings import case
from proofs.hadoop.ground import Ground, check, does, in_background, rows_of, said, task_name, write
from proofs.scenes.manifests import published_manifest

__all__: list[str] = []

_TASKS = [task_name(number) for number in range(4)]


@case("b")
def _committed_by_the_jvm(ground: Ground) -> None:
    place = ground.place("b")
    job = ground.job(place, **ground.settings)
    write(job, _TASKS)
    ground.runs("magic", place, tasks="none", setup=False)
    place.holds(rows_of("ours", range(4)), "job commit by the JVM")
    success = place.success()
    assert success is not None
    check((success["jobId"], len(success["filenames"])), (place.job, 8), "_SUCCESS")
    magicfs.Dataset(place.url).adopt()
    does("verify", place.url)


@case("b")
def _driver_learns_that_the_jvm_has_committed(ground: Ground) -> None:
    for with_commits in (True, False):
        place = ground.place("b")
        job = ground.job(place, **ground.settings)
        commits = write(job, _TASKS)
        ground.runs("magic", place, tasks="none", setup=False)
        report = job.commit(commits) if with_commits else job.commit()
        check((report.job_id, report.files), (place.job, 8), "report of a driver that came after the JVM")
        place.holds(rows_of("ours", range(4)), "its driver after the JVM")
        named = sorted(one.key for one in published_manifest(place.url).files)
        check(named, place.files(), "files of its manifest")
        does("verify", place.url)


@case("b")
def _committed_by_the_jvm_of_the_named_line(ground: Ground) -> None:
    place = ground.place("b")
    line = ground.jars.hadoop.rpartition(".")[0]
    if line == "3.4" and not ground.is_newest:
        line = ground.jars.hadoop  # "3.4" stands for the newest of the line
    job = ground.job(place, hadoop=line, unique_names=False)
    write(job, _TASKS, parts=["p=días 50% + 1", "root"])
    check([len(one.commits) for one in place.sets()], [2] * 4, "files of the sets at Hadoop's place")
    names = sorted(one.destination_key.rpartition("/")[2] for each in place.sets() for one in each.commits)
    check(names, sorted(f"part-{task}-{file}.csv" for task in range(4) for file in range(2)), "names")
    ground.runs("magic", place, tasks="none", setup=False)
    place.holds(rows_of("ours", range(4)), f"job commit by the JVM of a job with hadoop={line!r}")


@case("b")
def _every_checksum_of_parts_that_it_repeats(ground: Ground) -> None:
    for algorithm in ("CRC32", "SHA1", "SHA256"):  # those that botocore makes
        place = ground.place("b")
        how = {"storage_options": {"s3_additional_kwargs": {"ChecksumAlgorithm": algorithm}}}
        try:
            job = ground.job(place, **ground.settings, **how)
        except UsageError:
            check(ground.is_newest, False, f"a job with {algorithm} was refused")
            check(place.below(), [], f"what a refused job with {algorithm} leaves")
            continue
        check(ground.is_newest, True, f"a job with {algorithm} was made")
        write(job, _TASKS)
        summed = {
            part.checksum_algorithm for each in place.sets() for one in each.commits for part in one.parts
        }
        check(summed, {algorithm}, "checksums of the sets at Hadoop's place")
        ground.runs("magic", place, tasks="none", setup=False)
        place.holds(rows_of("ours", range(4)), f"job commit by the JVM with {algorithm}")


@case("b")
def _three_parts(ground: Ground) -> None:
    place = ground.place("b")
    job = ground.job(place, **ground.settings, part_size=5 * 2**20)
    write(job, [task_name(0)], files=1, body=lambda text: text.encode() + b"x" * 12 * 2**20 + b"\n")
    check([len(one.commits[0].parts) for one in place.sets()], [3], "parts")
    ground.runs("magic", place, tasks="none", setup=False)
    check(sorted(map(len, place.rows())), [10, 10, 10, 12 * 2**20], "lengths of rows")
    place.is_clean("job commit by the JVM")


@case("b")
def _of_two_attempts_the_last_committed_wins(ground: Ground) -> None:
    place = ground.place("b")
    job = ground.job(place, **ground.settings)
    write(job, _TASKS[:2], side="loser")
    write(job, _TASKS)
    ground.runs("magic", place, tasks="none", setup=False)
    place.holds(rows_of("ours", range(4)), "job commit by the JVM")


@case("b")
def _aborted_by_the_jvm(ground: Ground) -> None:
    place = ground.place("b")
    job = ground.job(place, **ground.settings)
    write(job, _TASKS)
    ground.runs("magic", place, tasks="none", setup=False, end="abort")
    place.holds([], "job abort by the JVM")


@case("b")
def _aborted_by_a_jvm_that_purges_nothing(ground: Ground) -> None:
    place = ground.place("b")
    job = ground.job(place, **ground.settings)
    write(job, _TASKS)
    purge = {"fs__s3a__committer__abort__pending__uploads": False}
    ground.runs("magic", place, tasks="none", setup=False, end="abort", **purge)
    said("recover", "--abort", place.url, "--job", place.job, "--driver-is-dead")
    place.holds([], "magicfs recover --abort after that of the JVM")


@case("b")
def _jvm_killed_in_its_job_commit(ground: Ground) -> None:
    for number in range(8):
        _kill_after(ground, number)


@case("b")
def _jvm_killed_in_the_job_commit_of_other_modes_and_names(ground: Ground) -> None:
    for mode in ("append", "error"):
        for unique_names in (True, False):
            _kill_after(ground, 5, mode=mode, unique_names=unique_names)


def _kill_after(ground: Ground, number: int, **how: object) -> None:
    """Kill the JVM once so many files are visible; the command finishes the job."""
    place = ground.place("b")
    job = ground.job(place, **ground.settings, **how)
    write(job, _TASKS)
    with ground.killable() as (peer, proxy):
        proxy.add(Rule("CompleteMultipartUpload", Action.HANG, skip=number))
        commit = partial(ground.run, "magic", place, peer, tasks="none", setup=False)
        driver = in_background(commit)
        until = time.monotonic() + 60
        while not proxy.caught and not driver.done() and time.monotonic() < until:
            time.sleep(0.01)
        peer.kill()
        with suppress(RuntimeError):
            driver.result(60)
    ground.counts["kills"] += 1
    check(len(place.files()), number, "files when it was killed")
    does("recover", "--commit", place.url, "--job", place.job)
    place.holds(rows_of("ours", range(4)), f"killed after {number} completes, {how}")
    does("verify", place.url)
