"""(d) Hadoop's own classes read what we write, and each side writes into the other's attempts."""

from __future__ import annotations

from magicfs import MagicFileSystem
from proofs.hadoop.crossings import case
from proofs.hadoop.ground import BUCKET, FILES, ROWS, Ground, check, rows_of, task_name, write

__all__: list[str] = []


def _path(ground: Ground, task: str, name: str) -> str:
    """Where an attempt of the JVM's writes."""
    element = "__magic" if ground.layout == "__magic" else "__magic_job-{job}"
    attempt = task.replace("task_", "attempt_") + "_0"
    return f"{element}/job-{{job}}/00/tasks/{attempt}/__base/{name}"


@case("d")
def _pending_files_and_sets(ground: Ground) -> None:
    place = ground.place("d")
    job = ground.job(place, **ground.settings)
    write(job, [task_name(0)])
    write(job, [task_name(1)], commit=False)
    names = [name for name in place.work() if name.endswith((".pending", ".pendingset"))]
    found = dict(zip(names, ground.peer.ask("load", *(f"{place.s3a}/{name}" for name in names)), strict=True))
    check([name for name, one in found.items() if "refused" in one], [], f"refused of {found}")
    open_uploads = {upload for _, upload in place.uploads()}
    for name, one in found.items():
        for each in one.get("commits", [one]):
            check(each["upload"] in open_uploads, True, f"{name}: its upload is open")
            check((each["parts"], each["length"]), (1, 10 * ROWS + ROWS), f"{name}: parts and length")
            check(each["job"] in ("", place.job), True, f"{name}: its job")
    check(sum(name.endswith(".pending") for name in names), FILES, "pending files")
    job.abort()


@case("d")
def _markers(ground: Ground) -> None:
    place = ground.place("d")
    job = ground.job(place, **ground.settings)
    write(job, [task_name(0)], commit=False)
    [*markers] = [name for name in place.work() if name.endswith(".csv")]
    tree = ground.peer.ask("tree", place.s3a)
    check([tree.get(name) for name in markers], [33] * FILES, "lengths of markers")
    job.abort()


@case("d")
def _open_uploads(ground: Ground) -> None:
    place = ground.place("d")
    job = ground.job(place, **ground.settings)
    write(job, [task_name(0)])
    check(sorted(ground.peer.ask("uploads", place.s3a)), sorted(key for key, _ in place.uploads()), "uploads")
    job.abort()


@case("d")
def _success(ground: Ground) -> None:
    place = ground.place("d")
    job = ground.job(place)
    write(job, range(2))
    job.commit()
    [found] = ground.peer.ask("load", f"{place.s3a}/_SUCCESS")
    check(found.get("refused"), None, "_SUCCESS")
    check((found["job"], found["manifest"], len(found["files"])), (place.job, place.job, 4), "_SUCCESS")
    check(sorted(ground.peer.ask("rows", place.s3a)), rows_of("ours", range(2)), "rows that Hadoop reads")


@case("d")
def _our_filesystem_writes_into_an_attempt_of_the_jvm(ground: Ground) -> None:
    place = ground.place("d")
    ground.runs("magic", place, tasks="0-0", taskcommit=False, end="none")
    filesystem = MagicFileSystem(target_protocol="s3", hadoop=ground.jars.hadoop)
    name = _path(ground, task_name(0), "día=1/more + 1.csv").format(job=place.job)
    filesystem.pipe_file(f"{BUCKET}/{place.key}/{name}", b"ours,0,9,0\n")
    ground.runs("magic", place, tasks="0-0", setup=False, setuptask=False, files=0)
    place.holds([*rows_of("jvm", [0]), "ours,0,9,0"], "job commit by the JVM")


@case("d")
def _the_jvm_writes_into_an_attempt_of_ours(ground: Ground) -> None:
    place = ground.place("d")
    job = ground.job(place, unique_names=False, **ground.settings)
    task = job.task(0).setup()
    ground.peer.ask("put", f"s3a://{task.path}/día=1/theirs + 1.csv", "jvm,0,9,0")
    check(
        task.filesystem.info(f"{task.path}/día=1/theirs + 1.csv")["size"],
        len("jvm,0,9,0\n"),
        "size of their file",
    )
    report = job.commit([task.commit()])
    check(report.files, 1, "files")
    place.holds(["jvm,0,9,0"], "job commit of ours")
