"""(a) A JVM dies before or in its job commit, and magicfs commits or aborts the job."""

from __future__ import annotations

import time
from contextlib import suppress

import fsspec

from magicfs.testing.faults import Action, Rule
from proofs.hadoop.crossings import case
from proofs.hadoop.ground import Ground, Place, Wrong, check, does, in_background, is_told, rows_of, said

__all__: list[str] = []


@case("a")
def _all_tasks_committed(ground: Ground) -> None:
    place = ground.place("a")
    ground.runs("magic", place, end="none")
    does("recover", "--commit", place.url, "--job", place.job, "--driver-is-dead")
    place.holds(rows_of("jvm", range(4)), "commit")
    does("verify", place.url)
    status, text = said("recover", "--commit", place.url, "--job", place.job, "--driver-is-dead")
    place.holds(rows_of("jvm", range(4)), f"second commit, status {status}: {text[:200]}")


@case("a")
def _aborted(ground: Ground) -> None:
    place = ground.place("a")
    ground.runs("magic", place, end="none")
    does("recover", "--abort", place.url, "--job", place.job, "--driver-is-dead")
    place.holds([], "abort")


@case("a")
def _two_tasks_of_four_committed(ground: Ground) -> None:
    place = ground.place("a")
    ground.runs("magic", place, tasks="0-1", end="none")
    ground.runs("magic", place, tasks="2-3", setup=False, taskcommit=False, end="none")
    check(len(place.uploads()), 8, "uploads before")
    does("recover", "--commit", place.url, "--job", place.job, "--driver-is-dead")
    place.holds(rows_of("jvm", range(2)), "commit")


@case("a")
def _promise_is_asked_for(ground: Ground) -> None:
    place = ground.place("a")
    ground.runs("magic", place, end="none")
    before = place.below()
    for end in ("--commit", "--abort"):
        status, text = said("recover", end, place.url, "--job", place.job)
        if status != 2 or "--driver-is-dead" not in text:
            raise Wrong(f"{end}: status {status}: {text}")
    check(place.below(), before, "objects")
    check(len(place.uploads()), 8, "uploads")


@case("a")
def _seen_by_pending(ground: Ground) -> None:
    place = ground.place("a")
    ground.runs("magic", place, end="none")
    status, text = said("uploads", place.url)
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
    does("recover", "--commit", place.url, "--job", place.job, "--driver-is-dead")
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
        does("recover", "--commit", place.url, "--job", place.job, "--driver-is-dead")
        check([len(row) for row in place.rows()], [len("jvm,0,0,0") + 4 * 2**20] * 3, f"rows, {algorithm}")
        place.is_clean(algorithm)


@case("a")
def _driver_lives_after_all_and_commits_too(ground: Ground) -> None:
    place = ground.place("a")
    ground.runs("magic", place, end="none")
    does("recover", "--commit", place.url, "--job", place.job, "--driver-is-dead")
    ground.run("magic", place, tasks="none", setup=False)
    check(place.rows(), rows_of("jvm", range(4)), "rows")


_EIGHT = range(8)  # tasks, of two files each


@case("a")
def _killed_after_five_of_sixteen_completes(ground: Ground) -> None:
    place = _half_published(ground)
    published = place.rows()
    before = place.below(), place.uploads()
    status, text = said("recover", place.url)
    check(status, 1, "recover")
    is_told(text, place, "8 tasks, 16 files", "5 of the files, by its driver", "11 uploads that are open")
    check((place.below(), place.uploads()), before, "after recover")
    does("recover", "--commit", place.url, "--job", place.job, "--driver-is-dead")
    place.holds(rows_of("jvm", _EIGHT), "commit")
    check(set(published) < set(place.rows()), True, "rows that were published before are among them")
    check(said("recover", place.url)[0], 0, "recover afterwards")
    does("verify", place.url)


@case("a")
def _half_published_is_never_swept(ground: Ground) -> None:
    place = _half_published(ground)
    before = place.below(), place.uploads(), place.rows()
    status, text = said("recover", "--abort", place.url, "--job", place.job, "--driver-is-dead")
    check(status, 4, "abort")
    is_told(text, place, "5 of 16 files", f"--job {place.job} --commit --driver-is-dead")
    check((place.below(), place.uploads(), place.rows()), before, "after an abort that was denied")
    fsspec.filesystem("s3").rm([f"{place.bucket}/{place.key}/{name}" for name in place.files()])
    does("recover", "--abort", place.url, "--job", place.job, "--driver-is-dead")
    place.holds([], "abort once its files were deleted")


@case("a")
def _purged_by_a_neighbour(ground: Ground) -> None:
    if ground.layout == "__magic":
        return  # there the neighbour removes the job's records, too
    place = ground.place("a")
    ground.runs("magic", place, end="none")
    neighbour = Place(place.server, place.key)
    purge = {"fs__s3a__committer__abort__pending__uploads": True}
    ground.runs("magic", neighbour, tasks="8-8", **purge)
    check(place.uploads(), set(), "uploads")
    before = place.below()
    status, text = said("recover", "--commit", place.url, "--job", place.job, "--driver-is-dead")
    check((status, "fs.s3a.committer.abort.pending.uploads" in text), (3, True), text[:300])
    check(place.below(), before, "after a commit that was refused")
    does("recover", "--abort", place.url, "--job", place.job, "--driver-is-dead")
    place.holds(rows_of("jvm", [8]), "abort")


@case("a")
def _staging_job(ground: Ground) -> None:
    for committer in ("directory", "partitioned"):
        parts = "root" if committer == "directory" else "p=0,p=1"
        for end in ("commit", "abort"):
            place = ground.place("a")
            ground.runs(committer, place, parts=parts, end="none")
            named = ("--job", place.job, "--cluster-directory", ground.cluster)
            is_told(said("recover", place.url, *named)[1], place, "4 tasks, 8 files", "8 uploads")
            check(
                said("recover", "--abort", place.url, "--job", place.job)[0], 2, "abort without the promise"
            )
            check(said("recover", f"--{end}", place.url, *named)[0], 2, f"{end} without the promise")
            does("recover", f"--{end}", place.url, *named, "--driver-is-dead")
            place.holds(rows_of("jvm", range(4)) if end == "commit" else [], f"{committer}, {end}")
            check(said("recover", place.url, *named[2:])[0], 0, "recover afterwards")


@case("a")
def _staging_job_killed_after_five_of_sixteen_completes(ground: Ground) -> None:
    place = _half_published(ground, "directory")
    named = ("--job", place.job, "--cluster-directory", ground.cluster)
    is_told(
        said("recover", place.url, *named)[1], place, "8 tasks, 16 files", "5 of the files, by its driver"
    )
    status, text = said("recover", "--abort", place.url, *named, "--driver-is-dead")
    check((status, "5 of 16 files" in text), (4, True), "abort")
    does("recover", "--commit", place.url, *named, "--driver-is-dead")
    place.holds(rows_of("jvm", _EIGHT), "commit")
    does("verify", place.url)


def _half_published(ground: Ground, committer: str = "magic") -> Place:
    """A job whose JVM was killed after 5 of 16 completes."""
    place = ground.place("a")
    with ground.killable() as (peer, proxy):
        proxy.add(Rule("CompleteMultipartUpload", Action.HANG, skip=5))
        driver = in_background(lambda: ground.run(committer, place, peer, tasks="0-7"))
        until = time.monotonic() + 300  # a busy machine takes its time
        while not proxy.caught and not driver.done() and time.monotonic() < until:
            time.sleep(0.01)
        peer.kill()
        with suppress(RuntimeError):
            driver.result(60)
    ground.counts["kills"] += 1
    check((len(place.files()), len(place.uploads())), (5, 11), "files and uploads when it was killed")
    return place
