"""Audits of the content of files, by the tasks that wrote them."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import magicfs
from magicfs.audit import FileCheck, Rows, StagedFile
from magicfs.datasets import commit as commit_job
from magicfs.errors import AuditFailed, UsageError
from magicfs.formats.audit import carried_by, said_in
from magicfs.testing.store_faults import Fault, Kind
from proofs.scenes.arranged import arranged
from proofs.scenes.job_scene import JobScene
from proofs.scenes.manifests import published_manifest

DEST = "env=prod/día 50% + #1"
STAGED = ("directory", "partitioned")
SMALL = {"tracking": "memory", "small_files": 100_000}


def parquet(*values: int) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"n": pa.array(values, pa.int64())}), sink)
    return sink.getvalue()


def unique(file: StagedFile) -> str | None:
    values = pq.read_table(file.open())["n"]
    return None if len(values.unique()) == len(values) else "a number stands there twice"


def raising(file: StagedFile) -> None:
    raise KeyError("ä")


@pytest.fixture
def scene() -> JobScene:
    return JobScene(DEST)


class Staged:
    """A job whose tasks write local files, or keep small ones in hand."""

    def __init__(self, scene: JobScene, committer: str, tmp_path: Path) -> None:
        self.scene = scene
        self.committer = committer
        self.how: dict[str, Any] = {"committer": committer}
        if committer == "magic":
            self.how |= SMALL
        else:
            self.how["committer_options"] = {"work_directory": f"{tmp_path}/work"}

    def job(self, *rules: Any, **how: Any) -> magicfs.Job:
        return magicfs.Job(
            *(self.scene.url,),
            **arranged(
                **{"mode": "append", "audit": rules, "filesystem": self.scene.filesystem, **self.how, **how}
            ),
        )

    def write(self, task: magicfs.Task, files: dict[str, bytes]) -> None:
        for name, body in files.items():
            if self.committer == "magic":
                task.filesystem.pipe_file(f"{task.path}/{name}", body)
                continue
            path = Path(task.path, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(body)

    def run(self, job: magicfs.Job, *tasks: dict[str, bytes]) -> magicfs.JobReport:
        job.setup()
        commits = []
        for number, files in enumerate(tasks):
            task = job.task(number).setup()
            self.write(task, files)
            commits.append(task.commit())
        return job.commit(commits)


@pytest.fixture(params=[*STAGED, "magic"])
def staged(scene: JobScene, tmp_path: Path, request: pytest.FixtureRequest) -> Staged:
    return Staged(scene, request.param, tmp_path)


def verdicts(scene: JobScene) -> dict[str, tuple[bool, str]]:
    said = published_manifest(scene.url, filesystem=scene.filesystem).audit
    assert said is not None
    return {one.rule: (one.passed, one.told) for one in said.verdicts}


GOOD = {"p=1/a ü%+#.parquet": parquet(1, 2), "p=2/b.parquet": parquet(3)}


def test_files_that_are_as_they_should_be_are_published(staged: Staged):
    staged.run(staged.job(FileCheck(unique), Rows(min=3)), GOOD, {"p=3/c.parquet": parquet(4, 5)})
    assert verdicts(staged.scene) == {"unique": (True, "3 files"), "Rows(min=3, max=None)": (True, "5 rows")}
    left = b"".join(body for body, *_ in staged.scene.objects().values())
    assert b"magicfs.audit" not in left, "it ends with the job"


@pytest.mark.parametrize("on_failure", ["quarantine", "abort"])
def test_a_file_that_is_not_lets_nothing_be_published(staged: Staged, on_failure: Any):
    job = staged.job(FileCheck(unique), audit_failure=on_failure)
    with pytest.raises(AuditFailed, match=r"1 of 3 files, p=1/bad.*: a number stands there twice"):
        staged.run(job, GOOD, {"p=1/bad.parquet": parquet(7, 7)})
    assert staged.scene.data() == {}
    assert (staged.scene.state(job) == "open") is (on_failure == "quarantine")
    if on_failure == "quarantine":
        commit_job(staged.scene.url, job.id, accept="known", filesystem=staged.scene.filesystem)
        assert len(staged.scene.data()) == 3
        assert not verdicts(staged.scene)["unique"][0]


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (raising, r"raised KeyError\('ä'\)"),
        (lambda file: False, "returned False"),
        (lambda file: "", "failed the check"),
        (
            lambda file: f"{file.bytes} {sorted(file.partition.items())} {file.open().read(4)!r}",
            r"\[\('p', '1'\)\] b'PAR1'",
        ),
        (lambda file: "ü" * 5000, "ü{900,1000}"),
    ],
)
def test_what_a_function_says(scene: JobScene, tmp_path: Path, function: Any, told: str):
    staged = Staged(scene, "directory", tmp_path)
    job = staged.job(FileCheck(function, name="mine")).setup()
    with job.task(0) as task:
        staged.write(task, {"p=1/a.parquet": parquet(1)})
    with pytest.raises(AuditFailed, match=told):
        job.commit()
    assert scene.data() == {}


@pytest.mark.parametrize("said", [None, True])
def test_what_lets_pass(scene: JobScene, tmp_path: Path, said: Any):
    staged = Staged(scene, "directory", tmp_path)
    job = staged.job(FileCheck(lambda file: said, name="mine")).setup()
    with job.task(0) as task:
        staged.write(task, {"a.bin": b"", "b.csv": b"n\n"})
    # Of the other files no footer is asked.
    job.commit()
    assert verdicts(scene) == {"mine": (True, "2 files")}


def test_every_file_of_the_destination_is_looked_at_once_and_before_it_is_uploaded(
    scene: JobScene, tmp_path: Path
):
    staged, seen = Staged(scene, "directory", tmp_path), list[str]()

    def note(file: StagedFile) -> None:
        assert scene.uploads() == []
        seen.append(file.key)

    extra = "memory://bucket/other ü"
    job = staged.job(FileCheck(note), extra_destinations=[extra]).setup()
    with job.task(0) as task:
        staged.write(task, GOOD)
        Path(task.path_to(extra), "x.csv").write_bytes(b"1")
    job.commit()
    assert sorted(one.partition("-0000")[0] for one in seen) == ["p=1/a ü%+#", "p=2/b"]


def test_a_file_that_has_outgrown_the_limit_lets_nothing_pass(scene: JobScene, tmp_path: Path):
    staged = Staged(scene, "magic", tmp_path)
    job = staged.job(FileCheck(unique), small_files=1000)
    with pytest.raises(AuditFailed, match="could not be read: it is larger than small_files=1000"):
        staged.run(job, {"small.parquet": parquet(1), "large.parquet": parquet(*range(3000))})
    assert scene.data() == {}


def test_small_files_that_lie_in_a_bundle_are_looked_at(
    scene: JobScene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    from magicfs.filesystem import tracking

    monkeypatch.setattr(tracking, "BUNDLE_SIZE", 1000)
    staged = Staged(scene, "magic", tmp_path)
    files = {f"{number}.parquet": parquet(number) for number in range(9)}
    job = staged.job(FileCheck(unique))
    staged.run(job, files)
    assert verdicts(scene)["unique"] == (True, "9 files")


def test_a_task_that_did_not_know_the_check_lets_nothing_pass(scene: JobScene, tmp_path: Path):
    staged = Staged(scene, "directory", tmp_path)
    job = staged.job(FileCheck(unique)).setup()
    plain = magicfs.Job(
        scene.url,
        mode="append",
        filesystem=scene.filesystem,
        job_id=job.id,
        **arranged(footers=True, **staged.how),
    )
    task = magicfs.Task(plain.spec, job.task(0).id).setup()
    staged.write(task, GOOD)
    with pytest.raises(AuditFailed, match="no task has checked 2 of 2 files, such as p=1/a"):
        job.commit([task.commit()])


@pytest.mark.parametrize("how", [{"committer": "magic"}, {"hadoop": "3.3"}, {"tracking": "memory"}])
def test_committers_whose_tasks_have_sent_their_files_refuse(scene: JobScene, how: dict[str, Any]):
    before = scene.everything()
    with pytest.raises(UsageError, match=r"FileCheck\(unique\) reads files before they are uploaded"):
        scene.job(audit=[FileCheck(unique)], **how)
    assert scene.everything() == before


@pytest.mark.parametrize("committer", ["manifest", "file", "direct", "task-completing"])
def test_committers_that_keep_no_verdicts_refuse(tmp_path: Path, committer: str):
    with pytest.raises(UsageError, match="audit"):
        magicfs.Job(f"file://{tmp_path}/x", committer=committer, mode="append", audit=[FileCheck(unique)])
    assert not list(tmp_path.iterdir())


def test_two_checks_of_one_name_and_one_that_comes_late_are_refused(scene: JobScene, tmp_path: Path):
    staged = Staged(scene, "directory", tmp_path)
    with pytest.raises(UsageError, match="two file checks are named 'unique'"):
        staged.job(FileCheck(unique), FileCheck(unique))
    job = staged.job().setup()
    with job.task(0) as task:
        staged.write(task, GOOD)
    with pytest.raises(UsageError, match=r"pass it to Job\(audit=\[…\]\)"):
        job.commit(audit=[FileCheck(unique)])
    assert scene.data() == {}
    job.commit()


def test_a_driver_that_is_killed_anywhere_publishes_nothing_that_fails(scene: JobScene, tmp_path: Path):
    number = 0
    while True:
        number += 1
        place = JobScene(DEST)
        staged = Staged(place, "directory", tmp_path / str(number))
        job = staged.job(FileCheck(unique)).setup()
        with job.task(0) as task:
            staged.write(task, {"p=1/bad.parquet": parquet(7, 7)})
        fault = Fault(Kind.CRASH_AFTER, number=number)
        try:
            died = _commit(place, job, fault)
        except AuditFailed:
            break
        assert died
        assert place.data() == {}
        place.recover()
        assert place.data() == {}
    assert number > 3
    assert place.data() == {}


def _commit(scene: JobScene, job: magicfs.Job, fault: Fault) -> bool:
    """Whether the driver died."""
    from magicfs.audit.extension import Judge
    from magicfs.committers import registry

    engine = scene.engine(scene.traffic(fault))
    committer: Any = registry.make("directory", job.spec.context, engine)
    committer.given = (Judge((FileCheck(unique),)),)
    return scene.lived(lambda: committer.commit_job(job.commits, job.found.driver)) is None


def test_what_travels_is_read_back_and_what_is_malformed_counts_for_nothing():
    said = {"ä": None, "b": "x\n"}
    assert said_in(carried_by(said)) == said
    for text in ("", "[]", "{", '"x"', '{"a":1}'):
        assert said_in({"magicfs.audit": text}) == {}
    assert said_in({}) == {}


def test_a_task_that_was_pickled_takes_its_checks_along(tmp_path: Path):
    url = f"{tmp_path}/sales 50% #1"
    work = {"work_directory": f"{tmp_path}/work"}
    job = magicfs.Job(url, committer="directory", audit=[FileCheck(unique)], options=work).setup()
    task = pickle.loads(pickle.dumps(job.task(0))).setup()
    Path(task.path, "bad.parquet").write_bytes(parquet(7, 7))
    with pytest.raises(AuditFailed, match="a number stands there twice"):
        pickle.loads(pickle.dumps(job)).commit([task.commit()])
    assert not list(Path(url).glob("*.parquet"))
