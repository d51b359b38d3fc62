"""The newest whole checkpoint is found by the manifests; PyTorch is not needed for that, and not imported."""

from __future__ import annotations

import subprocess
import sys

import pytest

import magicfs
import magicfs.torch
from magicfs.datasets.connection import open_destination
from magicfs.errors import ObjectNotFound, UsageError
from magicfs.torch.newest import check_name, find
from proofs.scenes.memory_scene import BUCKET, MemoryScene

URL = f"memory://{BUCKET}/run é %+#"


@pytest.fixture
def scene() -> MemoryScene:
    return MemoryScene()


def write(job: magicfs.Job, name: str, metadata: bytes) -> None:
    with job.task(0) as task:
        for last, body in (("__0_0.distcp", b"part"), (".metadata", metadata)):
            with task.filesystem.open(f"{task.path}/{name}/{last}", "wb") as file:
                file.write(body)


def save(scene: MemoryScene, name: str, conflict: str = "append") -> None:
    with magicfs.Job(URL, conflict=conflict, tracking="memory", filesystem=scene.wrapped) as job:  # type: ignore[arg-type]
        write(job, name, name.encode())


def latest(scene: MemoryScene) -> str | None:
    return magicfs.torch.latest(URL, filesystem=scene.wrapped)


def test_the_newest_is_that_of_the_newest_job_whatever_its_name(scene: MemoryScene) -> None:
    assert latest(scene) is None
    for name in ("step-9", "step 10 %/é", "step-1"):
        save(scene, name)
        assert latest(scene) == name


def test_one_that_is_being_written_is_never_found(scene: MemoryScene) -> None:
    save(scene, "step-1")
    job = magicfs.Job(URL, conflict="append", filesystem=scene.wrapped).setup()
    write(job, "step-2", b"")
    assert latest(scene) == "step-1"
    job.abort()
    assert latest(scene) == "step-1"


def test_one_that_was_deleted_or_replaced_is_passed_over(scene: MemoryScene) -> None:
    for name in ("step-1", "step-2", "step-3"):
        save(scene, name)
    path = URL.removeprefix("memory://")
    scene.filesystem.rm(f"{path}/step-3", recursive=True)
    assert latest(scene) == "step-2"
    save(scene, "step-0", "replace")
    assert latest(scene) == "step-0"
    scene.filesystem.rm(f"{path}/step-0", recursive=True)
    assert latest(scene) is None


def test_the_newest_of_a_sum_of_manifests_is_the_one_written_last(scene: MemoryScene) -> None:
    for name in ("step-9", "step-10", "step-1"):
        save(scene, name)
    magicfs.compact(URL, filesystem=scene.wrapped)
    assert latest(scene) == "step-1"


def test_of_one_name_the_newest_is_read(scene: MemoryScene) -> None:
    destination = open_destination(URL, None, scene.wrapped)
    with pytest.raises(ObjectNotFound, match="no whole one was published there"):
        find(destination, "step-1")
    save(scene, "step-1")
    first = find(destination, "step-1")
    save(scene, "step-1")
    second = find(destination, "step-1")
    assert first.name == second.name == "step-1"
    assert first.metadata != second.metadata
    assert magicfs.read_manifest(URL, filesystem=scene.wrapped).job_id in second.metadata


@pytest.mark.parametrize("name", ["", "/", "../x", "a//b", "s3://bucket/step-1", "__magic/x", "_temporary"])
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="such as 'step-100'"):
        check_name(name)


@pytest.mark.process
def test_torch_is_imported_by_none_but_writer_and_reader() -> None:
    program = (
        "import sys; sys.modules['torch'] = None\n"  # as if it was not installed
        "import magicfs.torch; magicfs.torch.latest\n"
        "try: magicfs.torch.StorageWriter\n"
        "except magicfs.UsageError as error: print(error)\n"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert shown.stdout == "magicfs.torch.StorageWriter needs PyTorch; pip install 'magicfs[torch]'\n"
