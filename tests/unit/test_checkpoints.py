"""The newest whole checkpoint is found by the manifests; PyTorch is not needed for that, and not imported."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

import magicfs
import magicfs.torch
from magicfs.datasets.connection import open_destination
from magicfs.errors import FormatError, ObjectNotFound, UsageError
from magicfs.torch.newest import Found, check_name, find
from proofs.scenes.arranged import arranged
from proofs.scenes.manifests import published_manifest
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


def save(scene: MemoryScene, name: str, mode: Any = "append", **how: Any) -> None:
    with magicfs.Job(URL, mode=mode, filesystem=scene.wrapped, **arranged(tracking="memory", **how)) as job:
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
    job = magicfs.Job(URL, mode="append", filesystem=scene.wrapped).setup()
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
    save(scene, "step-0", "overwrite")
    assert latest(scene) == "step-0"
    scene.filesystem.rm(f"{path}/step-0", recursive=True)
    assert latest(scene) is None


def test_the_newest_of_a_sum_of_manifests_is_the_one_written_last(scene: MemoryScene) -> None:
    for name in ("step-9", "step-10", "step-1"):
        save(scene, name)
    magicfs.Dataset(URL, filesystem=scene.wrapped).compact()
    assert latest(scene) == "step-1"


def test_of_one_name_the_newest_is_read(scene: MemoryScene) -> None:
    destination = open_destination(URL, None, scene.wrapped)
    with pytest.raises(ObjectNotFound, match="there is no complete checkpoint"):
        find(destination, "step-1")
    save(scene, "step-1")
    first = find(destination, "step-1")
    save(scene, "step-1")
    second = find(destination, "step-1")
    assert first.name == second.name == "step-1"
    assert first.metadata != second.metadata
    assert published_manifest(URL, filesystem=scene.wrapped).job_id in second.metadata


def keys(scene: MemoryScene) -> set[str]:
    return {file.key for file in published_manifest(URL, filesystem=scene.wrapped).files}


def whole(scene: MemoryScene, name: str, parts: set[str]) -> Found:
    """The newest of a name, of which every file that was published is read under the name of then."""
    destination = open_destination(URL, None, scene.wrapped)
    found = find(destination, name)
    assert {key for key in found.files if key.startswith(f"{name}/")} == parts
    with found.open(destination, f"{name}/{found.metadata}") as file:
        assert file.read() == name.encode()
    for key in parts - {f"{name}/{found.metadata}"}:
        with found.open(destination, key) as file:
            file.seek(1)
            assert (file.read(2), file.read()) == (b"ar", b"t")
    return found


def rolled_back(scene: MemoryScene, job: str) -> str:
    return magicfs.Dataset(URL, filesystem=scene.wrapped).rollback(to=f"job:{job}", keep="1h").job_id


def newest(scene: MemoryScene) -> str:
    return magicfs.Dataset(URL, filesystem=scene.wrapped).history()[0].job_id


@pytest.mark.parametrize("copies", [True, False])
class TestRolledBack:
    @pytest.fixture(autouse=True)
    def _versions(self, scene: MemoryScene, copies: bool) -> None:
        if copies:
            scene.filesystem.world.keep_versions(BUCKET)

    def replaced(self, scene: MemoryScene) -> tuple[str, dict[str, set[str]]]:
        """Three checkpoints that another one has replaced: the last job, and their files."""
        files = {}
        for name in ("step-9", "step 10 %/é", "step-1"):
            save(scene, name)
            files[name] = keys(scene)
        last = newest(scene)
        save(scene, "other", "overwrite", keep="1h")
        return last, files

    @pytest.mark.usefixtures("copies")
    def test_all_are_found_in_the_order_of_then(self, scene: MemoryScene) -> None:
        last, files = self.replaced(scene)
        rolled_back(scene, last)
        assert any("-copied-" in key for key in keys(scene))
        assert latest(scene) == "step-1"
        for name, parts in files.items():
            whole(scene, name, parts)
        with pytest.raises(ObjectNotFound):
            whole(scene, "other", set())

    @pytest.mark.usefixtures("copies")
    def test_so_are_copies_of_copies_and_sums_of_manifests(self, scene: MemoryScene) -> None:
        last, files = self.replaced(scene)
        for target in (rolled_back(scene, last), newest(scene)):
            save(scene, "another", "overwrite", keep="1h")
            assert latest(scene) == "another"
            rolled_back(scene, target)
            assert latest(scene) == "step-1"
        whole(scene, "step-9", files["step-9"])
        magicfs.Dataset(URL, filesystem=scene.wrapped).compact()
        assert latest(scene) == "step-1"
        for name, parts in files.items():
            whole(scene, name, parts)
        save(scene, "step-2")
        assert latest(scene) == "step-2"
        whole(scene, "step-9", files["step-9"])

    @pytest.mark.usefixtures("copies")
    def test_one_that_was_deleted_since_is_passed_over(self, scene: MemoryScene) -> None:
        last, _ = self.replaced(scene)
        rolled_back(scene, last)
        scene.filesystem.rm(f"{URL.removeprefix('memory://')}/step-1", recursive=True)
        assert latest(scene) == "step 10 %/é"

    @pytest.mark.usefixtures("copies")
    def test_a_chain_of_then_that_is_lost_is_an_error(self, scene: MemoryScene) -> None:
        last, _ = self.replaced(scene)
        rolled_back(scene, last)
        scene.filesystem.rm(f"{URL.removeprefix('memory://')}/_magicfs/{last}.json")
        with pytest.raises(FormatError, match="missing"):
            latest(scene)


def test_who_has_found_one_reads_on_by_versions_when_it_is_replaced(scene: MemoryScene) -> None:
    scene.filesystem.world.keep_versions(BUCKET)
    save(scene, "step-1")
    destination, parts = open_destination(URL, None, scene.wrapped), keys(scene)
    found = find(destination, "step-1")
    save(scene, "step-2", "overwrite", keep="1h")
    assert latest(scene) == "step-2"
    for key in parts:
        with found.open(destination, key) as file:
            assert file.read() in (b"part", b"step-1")
    with pytest.raises(FileNotFoundError):
        found.open(destination, "step-1/x")


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
        "except magicfs.errors.UsageError as error: print(error)\n"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert shown.stdout == "magicfs.torch.StorageWriter needs PyTorch; pip install 'magicfs[torch]'\n"
