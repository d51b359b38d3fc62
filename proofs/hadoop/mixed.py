"""(c) Tasks of the JVM and of ours in one job, committed by either; and other JVM jobs beside ours."""

from __future__ import annotations

import time

from magicfs.errors import CommitError
from proofs.hadoop.crossings import case
from proofs.hadoop.ground import Ground, Place, Wrong, check, does, rows_of, task_name, write

__all__: list[str] = []

_OURS = [task_name(number) for number in (2, 3)]
_BOTH = sorted(rows_of("jvm", range(2)) + rows_of("ours", (2, 3)))


def _later() -> None:
    """Wait until the store dates what is written later: of two sets of one second either may win."""
    time.sleep(1.1)


def _half_by_the_jvm(ground: Ground, **told: object) -> Place:
    place = ground.place("c")
    ground.runs("magic", place, tasks="0-1", end="none", **told)
    return place


@case("c")
def _committed_by_our_driver(ground: Ground) -> None:
    for settings in ground.each_settings:
        place = _half_by_the_jvm(ground)
        job = ground.job(place, **settings)
        write(job, _OURS)
        check(job.commit().files, 8, "files")
        place.holds(_BOTH, f"job commit of ours with {settings}")
        does("verify", place.url)


@case("c")
def _committed_by_the_command(ground: Ground) -> None:
    place = _half_by_the_jvm(ground)
    write(ground.job(place, **ground.settings), _OURS)
    does("recover", "--commit", place.url, "--job", place.job, "--driver-is-dead")
    place.holds(_BOTH, "magicfs recover --commit")


@case("c")
def _committed_by_the_jvm(ground: Ground) -> None:
    place = _half_by_the_jvm(ground)
    write(ground.job(place, **ground.settings), _OURS)
    ground.runs("magic", place, tasks="none", setup=False)
    place.holds(_BOTH, "job commit by the JVM")


@case("c")
def _set_up_by_ours_and_joined_by_the_jvm(ground: Ground) -> None:
    place = ground.place("c")
    job = ground.job(place, **ground.settings)
    write(job, _OURS)
    ground.runs("magic", place, tasks="0-1", setup=False, end="none")
    check(job.commit().files, 8, "files")
    place.holds(_BOTH, "job commit of ours")


@case("c")
def _tasks_of_the_jvm_run_again_by_ours(ground: Ground) -> None:
    for settings in ground.each_settings:
        place = ground.place("c")
        ground.runs("magic", place, end="none")
        _later()
        job = ground.job(place, **settings)
        write(job, _OURS)
        check(job.commit().files, 8, "files")
        place.holds(_BOTH, f"job commit of ours with {settings}")


@case("c")
def _tasks_of_ours_run_again_by_the_jvm(ground: Ground) -> None:
    for settings in ground.each_settings:
        place = ground.place("c")
        job = ground.job(place, **settings)
        write(job, [task_name(number) for number in range(4)])
        _later()
        ground.runs("magic", place, tasks="0-1", setup=False, end="none")
        check(job.commit().files, 8, "files")
        place.holds(_BOTH, f"job commit of ours with {settings}")


@case("c")
def _task_of_the_jvm_that_never_committed(ground: Ground) -> None:
    place = _half_by_the_jvm(ground)
    ground.runs("magic", place, tasks="2-3", setup=False, taskcommit=False, end="none")
    job = ground.job(place, **ground.settings)
    write(job, _OURS)
    check(len(place.uploads()), 12, "uploads before")
    job.commit()
    place.holds(_BOTH, "job commit of ours")


@case("c")
def _losers_of_both_kinds_before_a_commit_by_the_jvm(ground: Ground) -> None:
    place = ground.place("c")
    ground.runs("magic", place, end="none")
    job = ground.job(place, **ground.settings)
    write(job, _OURS, side="loser")
    write(job, _OURS)
    write(job, [task_name(0)], side="open", commit=False)
    ground.runs("magic", place, tasks="none", setup=False)
    place.holds(_BOTH, "job commit by the JVM")


@case("c")
def _aborted_by_the_command(ground: Ground) -> None:
    place = _half_by_the_jvm(ground)
    ground.runs("magic", place, tasks="2-3", setup=False, taskcommit=False, end="none")
    write(ground.job(place, **ground.settings), _OURS)
    does("recover", "--abort", place.url, "--job", place.job, "--driver-is-dead")
    place.holds([], "magicfs recover --abort")


@case("c")
def _aborted_by_our_driver(ground: Ground) -> None:
    place = _half_by_the_jvm(ground)
    job = ground.job(place, **ground.settings)
    write(job, _OURS)
    job.abort()
    place.holds([], "job abort of ours")


@case("c")
def _neighbour_that_purges(ground: Ground) -> None:
    place = ground.place("c")
    job = ground.job(place)
    commits = write(job, range(2))
    neighbour = Place(ground.server, place.key)
    ground.runs("magic", neighbour, tasks="0-0", fresh=True)
    try:
        job.commit(commits)
    except CommitError:
        check(place.rows(), rows_of("jvm", [0]), "rows after the refusal")
        return
    raise Wrong("a job whose uploads a neighbour has aborted was committed")


@case("c")
def _neighbour_that_purges_nothing(ground: Ground) -> None:
    place = ground.place("c")
    job = ground.job(place)
    commits = write(job, range(2))
    neighbour = Place(ground.server, place.key)
    purge = {"fs__s3a__committer__abort__pending__uploads": False}
    ground.runs("magic", neighbour, tasks="0-0", fresh=True, **purge)
    job.commit(commits)
    check(place.rows(), sorted(rows_of("jvm", [0]) + rows_of("ours", range(2))), "rows")
    check(sorted(place.uploads()), [], "uploads")
