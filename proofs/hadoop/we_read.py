"""(e) We read what the JVM writes, and finish its staging and manifest jobs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import magicfs
from proofs.hadoop.crossings import case
from proofs.hadoop.ground import Ground, Place, Wrong, check, does, rows_of, said, task_name, write

__all__: list[str] = []

_STAGED = ("directory", "partitioned")


@case("e")
def _files_shown(ground: Ground) -> None:
    place = ground.place("e")
    ground.runs("magic", place, tasks="0-0", end="none")
    ground.runs("magic", place, tasks="1-1", setup=False, taskcommit=False, end="none")
    names = [name for name in place.work() if name.endswith((".pending", ".pendingset"))]
    check(len(names), 3, "files to show")
    for name in names:
        text = does("show", f"{place.url}/{name}")
        for upload in place.uploads():
            if upload[0].rpartition("/")[2] in name and upload[1] not in text:
                raise Wrong(f"show {name} names no upload: {text[:500]}")
    does("recover", "--commit", place.url, "--job", place.job, "--driver-is-dead")
    other = ground.place("e")
    ground.runs("magic", other)
    text = does("show", f"{other.url}/_SUCCESS")
    check(other.job in text, True, f"show _SUCCESS: {text[:300]}")


@case("e")
def _uploads_listed(ground: Ground) -> None:
    place = ground.place("e")
    ground.runs("magic", place, end="none")
    status, text = said("uploads", place.url, "--json")
    check(status, 1, "pending")
    found = json.loads(text)
    check(len(ground.peer.ask("uploads", place.s3a)), 8, "uploads that Hadoop lists")
    check(json.dumps(found).count(".csv") >= 8, True, f"uploads that we list: {text[:500]}")


@case("e")
def _staging_job_of_the_jvm(ground: Ground) -> None:
    for committer in _STAGED:
        place = ground.place("e")
        parts = "root" if committer == "directory" else "p=0,p=1"
        ground.runs(committer, place, parts=parts, end="none")
        check(len(place.uploads()), 8, f"{committer}: uploads")
        job = _staged(ground, place, committer)
        check(job.commit().files, 8, f"{committer}: files")
        place.holds(rows_of("jvm", range(4)), committer)


@case("e")
def _staging_job_of_ours(ground: Ground) -> None:
    for committer in _STAGED:
        place = ground.place("e")
        parts = () if committer == "directory" else ("p=0", "p=1")
        write(_staged(ground, place, committer), _names(range(4)), parts=parts)
        ground.runs(committer, place, tasks="none", setup=False)
        check(place.rows(), rows_of("ours", range(4)), f"{committer}: rows")
        check(sorted(place.uploads()), [], f"{committer}: uploads")


@case("e")
def _mixed_staging_job(ground: Ground) -> None:
    both = sorted(rows_of("jvm", range(2)) + rows_of("ours", (2, 3)))
    for committer in _STAGED:
        parts = () if committer == "directory" else ("p=0", "p=1")
        for by_jvm in (True, False):
            place = ground.place("e")
            ground.runs(committer, place, tasks="0-1", parts=",".join(parts) or "root", end="none")
            job = _staged(ground, place, committer)
            write(job, _names((2, 3)), parts=parts)
            if by_jvm:
                ground.runs(committer, place, tasks="none", setup=False)
            else:
                job.commit()
            check(place.rows(), both, f"{committer}, by {'the JVM' if by_jvm else 'ours'}: rows")
            check(sorted(place.uploads()), [], f"{committer}: uploads")


def _names(tasks: Any) -> list[str]:
    return [task_name(number) for number in tasks]


def _staged(ground: Ground, place: Place, committer: str) -> magicfs.Job:
    options = {"cluster_directory": ground.cluster}
    return ground.job(place, committer=committer, committer_options=options, **ground.settings)


# -- the manifest committer, on files ----------------------------------------------------------------------


class _Files:
    """A destination on this machine's disk, for the manifest committer."""

    def __init__(self, ground: Ground) -> None:
        self.path = ground.directory / f"manifests {uuid4().hex[:8]}" / "día 50%"
        self.path.parent.mkdir(parents=True)
        self.job = str(uuid4())
        self._ground = ground

    @property
    def url(self) -> str:
        return f"file://{self.path}"

    def run(self, **told: object) -> None:
        """Let the JVM run a job, or a part of one."""
        words = [f"{name}={str(value).lower() if value is False else value}" for name, value in told.items()]
        found = self._ground.peer.ask("run", "manifest", self.url, self.job, *words)
        check(found.get("failed"), None, f"the JVM in its {found['stage']}")

    def ours(self) -> magicfs.Job:
        return magicfs.Job(self.url, committer="manifest", mode="append", job_id=self.job).setup()

    def holds(self, rows: list[str], what: str) -> None:
        found = [one for one in sorted(self.path.rglob("*.csv")) if "_temporary" not in one.parts]
        check(sorted(row for one in found for row in one.read_text().splitlines()), rows, f"{what}: rows")
        check([str(one) for one in self.path.rglob("_temporary/*") if one.is_file()], [], f"{what}: left")


@case("e")
def _manifest_job_of_ours(ground: Ground) -> None:
    files = _Files(ground)
    write(files.ours(), _names(range(4)))
    manifests = [str(one) for one in Path(files.path).rglob("*-manifest.json")]
    found = ground.peer.ask("load", *(f"file://{one}" for one in manifests))
    check([(one.get("refused"), one.get("files")) for one in found], [(None, 2)] * 4, "manifests")
    files.run(tasks="none", setup=False)
    files.holds(rows_of("ours", range(4)), "job commit by the JVM")


@case("a")
def _manifest_job(ground: Ground) -> None:
    for end in ("commit", "abort"):
        files = _Files(ground)
        files.run(end="none")
        status, text = said("recover", files.url)
        check((status, files.job in text, "4 tasks, 8 files" in text), (1, True, True), text[:500])
        check(said("recover", f"--{end}", files.url, "--job", files.job)[0], 2, f"{end} without the promise")
        does("recover", f"--{end}", files.url, "--job", files.job, "--driver-is-dead")
        files.holds(rows_of("jvm", range(4)) if end == "commit" else [], end)
        left = 0 if end == "commit" else 3  # nothing at all is there
        check(said("recover", files.url)[0], left, "recover afterwards")


@case("a")
def _manifest_job_that_is_published_in_part(ground: Ground) -> None:
    files = _Files(ground)
    files.run(end="none")
    found = [one for one in sorted(files.path.rglob("*.csv")) if "_temporary" in one.parts]
    for one in found[:3]:
        one.rename(files.path / one.name)  # as its driver does before it dies
    status, text = said("recover", "--abort", files.url, "--job", files.job, "--driver-is-dead")
    check((status, "3 of 8 files" in text), (4, True), text[:500])
    does("recover", "--commit", files.url, "--job", files.job, "--driver-is-dead")
    files.holds(rows_of("jvm", range(4)), "commit")


@case("e")
def _manifests_shown(ground: Ground) -> None:
    files = _Files(ground)
    files.run(end="none")
    manifests = list(Path(files.path).rglob("*-manifest.json"))
    check(len(manifests), 4, "manifests")
    for one in manifests:
        text = does("show", f"file://{one}")
        check(files.job in text, True, f"show {one.name}: {text[:300]}")


@case("e")
def _mixed_manifest_job(ground: Ground) -> None:
    both = sorted(rows_of("jvm", range(2)) + rows_of("ours", (2, 3)))
    finish: dict[str, Callable[[_Files, magicfs.Job], object]] = {
        "the JVM": lambda files, _: files.run(tasks="none", setup=False),
        "ours": lambda _, job: job.commit(),
    }
    for who, commit in finish.items():
        files = _Files(ground)
        job = files.ours()
        write(job, _names((2, 3)))
        files.run(tasks="0-1", setup=False, end="none")
        commit(files, job)
        files.holds(both, f"job commit by {who}")
        [found] = ground.peer.ask("load", f"{files.url}/_SUCCESS")
        check((found.get("refused"), found.get("manifest")), (None, files.job), "_SUCCESS")
