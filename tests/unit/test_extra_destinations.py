"""Files for further directories of the bucket: ``Job(extra_destinations=[…])``.

They are published with the job and discarded with it, only ever added, and only where the job said so when it
was set up.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from fsspec.core import url_to_fs

import magicfs
from magicfs import datasets
from magicfs.errors import CommitFailed, FormatError, ObjectNotFound, UsageError
from magicfs.formats.manifest import Manifest
from magicfs.formats.task_commit import TaskCommit
from magicfs.job.task import Task
from magicfs.manifests import chain
from magicfs.protocol import magic
from magicfs.stores.conditions import Conditions
from magicfs.testing.store_faults import Fault, Kind
from magicfs.watch.commands.show_job import show_job
from proofs.scenes.job_scene import BUCKET, JobScene
from proofs.scenes.staged_scene import StagedScene, write

pytestmark = pytest.mark.sample(most=2)

OTHER = "a b%2F+#é/dataset10"
EXTRA = f"memory://{BUCKET}/{OTHER}"


def put(task: Task, where: str | None, files: dict[str, bytes]) -> None:
    """Write files of a task, for the destination or for a directory elsewhere."""
    path = task.path if where is None else task.path_to(where)
    if task.filesystem.protocol[0] == "file":
        write(path, files)
        return
    for name, body in files.items():
        task.filesystem.pipe_file(f"{path}/{name}", body)


def wrote(job: magicfs.Job, tasks: int = 2, where: str = EXTRA) -> list[TaskCommit]:
    """Tasks that write a file for the destination and one for elsewhere."""
    commits = []
    for number in range(tasks):
        task = Task(job.spec, job.task(number).id).setup()
        put(task, None, {"p=1/a.bin": b"main %d" % number})
        put(task, where, {"deep/er/b.bin": b"extra %d" % number})
        commits.append(task.commit())
    return commits


@pytest.fixture(params=["magic", "directory", "partitioned"])
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> JobScene:
    if request.param == "magic":
        return JobScene("dataset1")
    return StagedScene(tmp_path, request.param, destination="dataset1")


def job_of(scene: JobScene, mode: str = "append", **options: Any) -> magicfs.Job:
    return scene.job(mode, extra_destinations=[EXTRA], **options)


def replacing(scene: JobScene) -> str:
    """A mode of the scene's committer that replaces what is there."""
    return "overwrite_partitions" if getattr(scene, "committer", "") == "partitioned" else "overwrite"


def elsewhere(scene: JobScene) -> list[bytes]:
    """Contents of the visible files in the extra destination."""
    found = {key: body for key, (body, _, _) in scene.objects().items() if key.startswith(f"{OTHER}/deep/")}
    return sorted(found.values())


def left(scene: JobScene) -> list[str]:
    return [key for key in scene.objects() if "__magic" in key] + [key for key, _ in scene.uploads()]


# -- published with the job ----------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["error", "append", "replacing"])
def test_files_elsewhere_become_visible_with_the_job_and_not_before(scene: JobScene, mode: str) -> None:
    mode = replacing(scene) if mode == "replacing" else mode
    job = job_of(scene, mode)
    commits = wrote(job)
    assert (scene.bodies(), elsewhere(scene)) == ([], [])
    report = job.commit(commits)
    assert report.files == 4
    assert sum(OTHER in name for name in report.filenames) == 2
    assert scene.bodies() == [b"main 0", b"main 1"]
    assert elsewhere(scene) == [b"extra 0", b"extra 1"]
    assert left(scene) == []


def test_a_listing_publishes_them_too(scene: JobScene) -> None:
    job = job_of(scene)
    wrote(job)
    job.commit()
    assert elsewhere(scene) == [b"extra 0", b"extra 1"]


def test_nothing_is_ever_replaced_elsewhere(scene: JobScene) -> None:
    scene.filesystem.pipe_file(f"{BUCKET}/{OTHER}/deep/er/old.bin", b"old")
    scene.put("p=1/old.bin", b"gone")
    job = job_of(scene, replacing(scene))
    job.commit(wrote(job))
    assert elsewhere(scene) == [b"extra 0", b"extra 1", b"old"]
    assert scene.bodies() == [b"main 0", b"main 1"]


def test_a_job_without_files_of_its_own_replaces_nothing(scene: JobScene) -> None:
    scene.put("old.bin", b"old")
    job = job_of(scene, replacing(scene))
    task = Task(job.spec, job.task(0).id).setup()
    put(task, EXTRA, {"deep/b.bin": b"extra"})
    said = r"has no files, and mode=.overwrite.*. (would only|would have no partition)"
    with pytest.raises(UsageError, match=said):
        job.commit([task.commit()])
    assert scene.bodies() == [b"old"]


def test_url_to_leads_pandas_there(scene: JobScene) -> None:
    job = job_of(scene)
    task = Task(job.spec, job.task(0).id).setup()
    url = task.url_to(f"{EXTRA}/deep", "table one.csv")
    if job.spec.options.committer == "magic":
        assert url.startswith("magic+memory://")
    else:
        filesystem, path = url_to_fs(url)
        filesystem.pipe_file(path, b"csv")
        job.commit([task.commit()])
        assert elsewhere(scene) == [b"csv"]


def test_each_directory_has_a_manifest_of_its_own(scene: JobScene) -> None:
    scene.filesystem.pipe_file(f"{BUCKET}/{OTHER}/before.bin", b"older than all manifests")
    job = job_of(scene, run_id="nightly")
    job.commit(wrote(job))
    assert len(scene.manifest_files()) == 2

    async def read() -> Manifest | None:
        return await chain.read(scene.plain, OTHER, job.id, Conditions())

    manifest = scene.lived(read)
    assert [file.key.split("/")[:2] for file in manifest.files] == [["deep", "er"]] * 2
    assert (manifest.older_files, manifest.run_id, manifest.mode) == (True, None, "append")
    report = magicfs.Dataset(EXTRA, filesystem=scene.filesystem).verify()
    assert (report.files, report.missing, report.altered, report.foreign) == (2, (), (), ("before.bin",))


# -- discarded with it ---------------------------------------------------------------------------------


def test_an_aborted_job_leaves_nothing_elsewhere(scene: JobScene) -> None:
    job = job_of(scene)
    wrote(job)
    lost = Task(job.spec, job.task(7).id).setup()
    put(lost, EXTRA, {"deep/lost.bin": b"lost"})
    job.abort()
    assert left(scene) == []
    assert elsewhere(scene) == scene.bodies() == []


def test_attempts_that_lost_leave_nothing_elsewhere(scene: JobScene) -> None:
    job = job_of(scene)
    commits = wrote(job)
    for _ in range(2):
        wrote(job, 1)
    job.commit(commits)
    assert elsewhere(scene) == [b"extra 0", b"extra 1"]
    assert left(scene) == []


def test_uploads_of_lost_tasks_without_a_record_are_found_elsewhere() -> None:
    scene = JobScene("dataset1")
    job = job_of(scene, tracking="memory")
    commits = wrote(job)
    wrote(job, 1)
    assert any(key.startswith(OTHER) for key, _ in scene.uploads())
    job.commit(commits)
    assert left(scene) == []
    assert elsewhere(scene) == [b"extra 0", b"extra 1"]


def test_a_task_that_is_aborted_takes_its_files_along(scene: JobScene) -> None:
    job = job_of(scene)
    task = Task(job.spec, job.task(0).id).setup()
    put(task, EXTRA, {"deep/b.bin": b"extra"})
    assert task.needs_commit()
    task.abort()
    assert scene.uploads() == []
    job.abort()


@pytest.mark.slow
def test_a_driver_may_die_at_any_request_of_its_commit(scene: JobScene) -> None:
    for number in itertools.count(1):
        objects = set(scene.objects())
        job = job_of(scene)
        commits = wrote(job)
        if scene.commit(job, commits, Fault(Kind.CRASH_AFTER, number=number)) is not None:
            break
        scene.recover()
        if scene.state(job) is not None:
            scene.recover(abort=True)
        assert left(scene) == []
        fresh = set(scene.objects()) - objects
        visible = [key for key in fresh if "/_" not in key and not key.startswith("_")]
        assert len(visible) in {0, 4}
        if visible:
            assert sum(key.startswith(OTHER) for key in visible) == 2
            assert magicfs.Dataset(EXTRA, filesystem=scene.filesystem).verify().ok
    assert number > 10


@pytest.mark.slow
def test_a_job_that_is_rolled_back_removes_its_files_elsewhere(scene: JobScene) -> None:
    seen = 0
    for number in itertools.count(1):
        job = job_of(scene)
        commits = wrote(job)
        if scene.commit(job, commits, Fault(Kind.CRASH_AFTER, number=number)) is not None:
            break
        if scene.state(job) == "committing":
            scene.recover(rollback=True)
            assert elsewhere(scene) == []
            assert left(scene) == []
            seen += 1
            continue
        scene.recover()
        if scene.state(job) is not None:
            scene.recover(abort=True)
        for name in list(scene.objects()):
            scene.filesystem.rm_file(f"{BUCKET}/{name}")
    assert seen >= 4


# -- whose directory it is -----------------------------------------------------------------------------


def test_nobody_who_clears_up_elsewhere_harms_a_living_job(scene: JobScene) -> None:
    job = job_of(scene)
    commits = wrote(job)
    before = scene.everything()
    with pytest.raises(UsageError, match=f"give its destination, memory://{BUCKET}/dataset1"):
        datasets.abort(EXTRA, job=job.id, filesystem=scene.filesystem)
    assert magicfs.Dataset(EXTRA, filesystem=scene.filesystem).recover().jobs == ()
    assert scene.everything() == before
    job.commit(commits)
    assert elsewhere(scene) == [b"extra 0", b"extra 1"]


def test_what_a_zombie_left_elsewhere_is_found_there() -> None:
    scene = JobScene("dataset1")
    job = job_of(scene)
    zombie = Task(job.spec, job.task(3).id)
    job.commit(wrote(job))
    put(zombie.setup(), EXTRA, {"deep/late.bin": b"late"})
    assert [key for key, _ in scene.uploads() if key.startswith(OTHER)]
    # Whose directory that is, nobody can tell any more from the record alone.
    datasets.abort(scene.url, job=job.id, filesystem=scene.filesystem)
    assert [key for key, _ in scene.uploads() if key.startswith(OTHER)]
    datasets.abort(EXTRA, job=job.id, filesystem=scene.filesystem)
    assert left(scene) == []


def test_a_task_cannot_write_where_the_job_does_not_say(scene: JobScene) -> None:
    job = job_of(scene)
    task = Task(job.spec, job.task(0).id).setup()
    for url in (
        f"memory://{BUCKET}/elsewhere",
        f"{EXTRA}0",
        f"memory://{BUCKET}/a b",
        f"memory://other/{OTHER}",
        f"s3://{BUCKET}/{OTHER}",
    ):
        with pytest.raises(UsageError, match="is not in an extra destination of the job"):
            task.path_to(url)
    with pytest.raises(UsageError, match=r"'\.' or '\.\.'"):
        task.path_to(f"{EXTRA}/../x")
    job.abort()


def test_a_path_to_somewhere_else_is_refused_when_the_task_commits() -> None:
    scene = JobScene("dataset1")
    job = job_of(scene)
    task = Task(job.spec, job.task(0).id).setup()
    forged = task.path_to(EXTRA).replace(magic.element_to(OTHER), magic.element_to("somebody/else"))
    task.filesystem.pipe_file(f"{forged}/a.bin", b"x")
    with pytest.raises(CommitFailed, match=r"'somebody/else/a-.*lies outside"):
        task.commit()
    assert scene.uploads() == []
    job.abort()


def test_a_job_without_them_refuses_a_path_that_leads_elsewhere() -> None:
    scene = JobScene("dataset1")
    strict = scene.job()
    plain = Task(strict.spec, strict.task(0).id).setup()
    path = plain.path.removesuffix("/__base") + f"/{magic.element_to(OTHER)}/__base"
    plain.filesystem.pipe_file(f"{path}/a.bin", b"x")
    with pytest.raises(CommitFailed, match="lies outside 'dataset1'"):
        plain.commit()
    strict.abort()
    assert left(scene) == []


def test_who_takes_a_job_over_must_know_of_all_directories(scene: JobScene) -> None:
    job = job_of(scene)
    with pytest.raises(UsageError, match="give the same in every attempt"):
        scene.job(job_id=job.id, attempt=1)
    with pytest.raises(UsageError, match="give the same in every attempt"):
        scene.job(job_id=job.id, attempt=1, extra_destinations=[f"memory://{BUCKET}/third"])
    later = job_of(scene, job_id=job.id, attempt=1)
    assert later.recover_tasks() == []
    later.abort()
    assert left(scene) == []


def test_tasks_of_an_earlier_attempt_are_recovered_with_their_files_elsewhere(scene: JobScene) -> None:
    job = job_of(scene)
    wrote(job)
    later = job_of(scene, job_id=job.id, attempt=1)
    later.commit(later.recover_tasks())
    assert elsewhere(scene) == [b"extra 0", b"extra 1"]
    assert left(scene) == []


# -- bad input -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"extra_destinations": EXTRA}, "expected a list, found text"),
        ({"extra_destinations": [f"memory://{BUCKET}"]}, "must be a directory in the bucket"),
        ({"extra_destinations": [f"memory://{BUCKET}/a/__magic/b"]}, "and not one where jobs keep"),
        ({"extra_destinations": [f"memory://{BUCKET}/dataset1"]}, "overlaps bucket/dataset1"),
        ({"extra_destinations": [f"memory://{BUCKET}/dataset1/x"]}, "overlaps bucket/dataset1"),
        ({"extra_destinations": [EXTRA, f"{EXTRA}/x"]}, "overlaps"),
        ({"extra_destinations": ["s3://bucket/x"]}, "is outside memory://bucket"),
        ({"extra_destinations": ["x"]}, "has no scheme"),
        ({"extra_destinations": [EXTRA], "unique_names": False}, "need unique_names=True"),
        ({"extra_destinations": [EXTRA], "job_id": "daily"}, "a job id that contains a UUID"),
        ({"extra_destinations": [EXTRA], "committer": "file"}, "need delayed uploads"),
        ({"extra_destinations": [EXTRA], "committer": "direct"}, "need delayed uploads"),
    ],
    ids=lambda value: "",
)
def test_an_extra_destination_that_cannot_be_right_is_refused(options: dict[str, Any], told: str) -> None:
    scene = JobScene("dataset1")
    with pytest.raises(UsageError, match=told):
        scene.job(**options)
    assert scene.everything() == ({}, [])


def test_a_file_or_a_table_is_no_extra_destination(scene: JobScene) -> None:
    scene.filesystem.pipe_file(f"{BUCKET}/{OTHER}", b"a file")
    with pytest.raises(UsageError, match="is a file; choose a directory"):
        job_of(scene)
    scene.filesystem.rm_file(f"{BUCKET}/{OTHER}")
    scene.filesystem.pipe_file(f"{BUCKET}/{OTHER}/_delta_log/0.json", b"{}")
    with pytest.raises(UsageError, match="is a table of Delta Lake"):
        job_of(scene)
    assert left(scene) == []


@pytest.mark.parametrize("element", ["__to=a%2", "__to=", "__to=a%2F..%2Fb", "__to=%2Fa", "__to=a%2Fb%2F"])
def test_an_element_that_leads_nowhere_is_refused(element: str) -> None:
    path = magic.locate(f"b/d/__magic_job-j/job-j/00/tasks/attempt-0-x/{element}/__base/f")
    assert path is not None
    with pytest.raises(UsageError, match="does not name a directory"):
        _ = path.final_key
    assert path.owner is None


@pytest.mark.parametrize("directory", ["a", "a b/%/é#", "%2F", "x%25/y", "__base", "a/__to=b"])
def test_every_directory_has_an_element_of_its_own(directory: str) -> None:
    element = magic.element_to(directory)
    assert "/" not in element
    assert magic.directory_of(element) == directory


def test_the_job_object_names_them_and_show_tells(scene: JobScene) -> None:
    job = job_of(scene)
    held = scene.job_object(job)
    assert held is not None
    assert held.options.places.extra == (OTHER,)
    assert f"{BUCKET}/{OTHER}" in str(show_job(held))
    job.abort()


def test_a_forged_job_location_is_not_believed(scene: JobScene) -> None:
    job = job_of(scene)
    location = next(key for key in scene.objects() if key.endswith("/job-location.json"))
    scene.filesystem.pipe_file(f"{BUCKET}/{location}", b'{"format":"magicfs.job-location/1","jobId":"x"}')
    with pytest.raises(FormatError, match="belongs to job x, not"):
        datasets.abort(EXTRA, job=job.id, filesystem=scene.filesystem)
    job.abort()
    assert left(scene) == []


def test_nothing_was_published_elsewhere_by_a_job_that_wrote_nothing_there(scene: JobScene) -> None:
    job = job_of(scene)
    task = Task(job.spec, job.task(0).id).setup()
    put(task, None, {"p=1/a.bin": b"main"})
    job.commit([task.commit()])
    with pytest.raises(ObjectNotFound):
        magicfs.Dataset(EXTRA, filesystem=scene.filesystem).verify()
    assert left(scene) == []
