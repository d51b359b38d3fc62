"""(a) A JVM dies before or in its job commit, and magicfs commits or aborts the job."""

from __future__ import annotations

from proofs.hadoop.crossings import case
from proofs.hadoop.ground import Ground, Wrong, check, does, rows_of, said

__all__: list[str] = []


@case("a")
def _all_tasks_committed(ground: Ground) -> None:
    place = ground.place("a")
    ground.runs("magic", place, end="none")
    does("commit", place.url, "--job", place.job, "--driver-is-dead")
    place.holds(rows_of("jvm", range(4)), "commit")
    does("verify", place.url)
    status, text = said("commit", place.url, "--job", place.job, "--driver-is-dead")
    place.holds(rows_of("jvm", range(4)), f"second commit, status {status}: {text[:200]}")


@case("a")
def _aborted(ground: Ground) -> None:
    place = ground.place("a")
    ground.runs("magic", place, end="none")
    does("abort", place.url, "--job", place.job, "--driver-is-dead")
    place.holds([], "abort")


@case("a")
def _two_tasks_of_four_committed(ground: Ground) -> None:
    place = ground.place("a")
    ground.runs("magic", place, tasks="0-1", end="none")
    ground.runs("magic", place, tasks="2-3", setup=False, taskcommit=False, end="none")
    check(len(place.uploads()), 8, "uploads before")
    does("commit", place.url, "--job", place.job, "--driver-is-dead")
    place.holds(rows_of("jvm", range(2)), "commit")


@case("a")
def _promise_is_asked_for(ground: Ground) -> None:
    place = ground.place("a")
    ground.runs("magic", place, end="none")
    before = place.below()
    for words in (("commit",), ("abort",)):
        status, text = said(*words, place.url, "--job", place.job)
        if status != 2 or "--driver-is-dead" not in text:
            raise Wrong(f"{words}: status {status}: {text}")
    check(place.below(), before, "objects")
    check(len(place.uploads()), 8, "uploads")


@case("a")
def _seen_by_pending(ground: Ground) -> None:
    place = ground.place("a")
    ground.runs("magic", place, end="none")
    status, text = said("pending", place.url)
    check((status, place.job in text), (1, True), "pending")


@case("a")
def _tracked_in_memory_in_second_job_attempt(ground: Ground) -> None:
    if ground.layout == "__magic":
        return  # 3.3 has no such tracking
    place = ground.place("a")
    memory = {"fs.s3a.committer.magic.track.commits.in.memory.enabled": "true"}
    with ground.killable(**memory) as (peer, _):
        found = ground.run("magic", place, peer, tasks="0-1", attempt=1, end="none")
        check(found.get("failed"), None, "the JVM's job")
    check(len(place.uploads()), 4, "uploads")
    does("commit", place.url, "--job", place.job, "--driver-is-dead")
    place.holds(rows_of("jvm", range(2)), "commit")


@case("a")
def _parts_with_checksums(ground: Ground) -> None:
    for algorithm in ("CRC32C", "SHA256") if ground.is_newest else ("",):
        place = ground.place("a")
        options = {"fs.s3a.create.checksum.algorithm": algorithm} if algorithm else {}
        with ground.killable(**options, **{"fs.s3a.multipart.size": "5M"}) as (peer, _):
            found = ground.run("magic", place, peer, tasks="0-0", pad=4 * 2**20, files=1, end="none")
            check(found.get("failed"), None, "the JVM's job")
        check([len(one.commits[0].parts) for one in place.sets()], [3], "parts")
        does("commit", place.url, "--job", place.job, "--driver-is-dead")
        check([len(row) for row in place.rows()], [len("jvm,0,0,0") + 4 * 2**20] * 3, f"rows, {algorithm}")
        place.is_clean(algorithm)


@case("a")
def _driver_lives_after_all_and_commits_too(ground: Ground) -> None:
    place = ground.place("a")
    ground.runs("magic", place, end="none")
    does("commit", place.url, "--job", place.job, "--driver-is-dead")
    ground.run("magic", place, tasks="none", setup=False)
    check(place.rows(), rows_of("jvm", range(4)), "rows")
