"""What a worker, a driver, an operator and a reader may do on Azure at least: the table of docs/azure.md.

Azurite lets nobody do what the letters of a SAS token do not allow.
"""

from __future__ import annotations

import datetime as dt
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from adlfs import AzureBlobFileSystem
from azure.storage.blob import ContainerSasPermissions, generate_container_sas

import magicfs
from magicfs.errors import PermissionDenied
from magicfs.stores.azure import folders as azure_folders
from proofs.doubles.azurite import Azurite
from proofs.scenes.arranged import arranged

pytestmark = pytest.mark.nightly

PAGE = (Path(__file__).parents[2] / "docs" / "azure.md").read_text()
ACTIONS = {"r": "`blobs/read`", "l": "`blobs/read`", "w": "`blobs/write`", "d": "`blobs/delete`"}


def rows() -> dict[str, tuple[str, str]]:
    """Data actions and letters, by who needs them."""
    lines = PAGE.partition("| who |")[2].splitlines()[2:]
    table = [line.strip("|").split("|") for line in lines[: lines.index("")]]
    return {who.strip(): (actions.strip(), letters.strip(" `")) for who, _, actions, letters in table}


LETTERS = {who.partition(",")[0]: letters for who, (_, letters) in rows().items()}


class Place:
    """A container, and who may do what in it."""

    def __init__(self, server: Azurite, container: str, environment: pytest.MonkeyPatch) -> None:
        self.server = server
        self.container = container
        self.url = f"abfs://{container}/sales"
        self._environment = environment

    def options(self, letters: str) -> dict[str, str]:
        sas = generate_container_sas(
            self.server.account,
            self.container,
            self.server.key,
            permission=ContainerSasPermissions.from_string(letters),
            expiry=dt.datetime.now(dt.UTC) + dt.timedelta(hours=1),
        )
        endpoint = f"{self.server.endpoint}/{self.server.account}"
        return {"connection_string": f"BlobEndpoint={endpoint};SharedAccessSignature={sas}"}

    def job(self, letters: str, **how: Any) -> magicfs.Job:
        return magicfs.Job(self.url, storage_options=self.options(letters), progress=None, **arranged(**how))

    def work(self, job: magicfs.Job, number: int, letters: str, gives_up: bool = False) -> magicfs.TaskCommit:
        """What a worker does, who finds other credentials than the driver's."""
        text = self.options(letters)["connection_string"]
        self._environment.setenv("AZURE_STORAGE_CONNECTION_STRING", text)
        forget()
        task: magicfs.Task = pickle.loads(pickle.dumps(job.task(number)))
        with task:
            task.filesystem.pipe_file(f"{task.path}/x", b"12345")
            if gives_up:
                raise ZeroDivisionError
        assert task.committed is not None
        return task.committed


def forget() -> None:
    """Let nobody find the credentials of another one."""
    for kind in (AzureBlobFileSystem, magicfs.MagicFileSystem):
        kind.clear_instance_cache()


@pytest.fixture
def place(
    azurite: Azurite, bucket_factory: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Place]:
    azure_folders._known.clear()
    forget()
    yield Place(azurite, bucket_factory(azurite, "roles"), monkeypatch)
    forget()
    azure_folders._known.clear()


def test_page_names_the_data_actions_that_the_letters_stand_for() -> None:
    assert set(LETTERS) == {
        "worker",
        "worker that deletes nothing",
        "worker without records",
        "driver",
        "reader",
    }
    for actions, letters in rows().values():
        assert set(actions.split(", ")) == {ACTIONS[letter] for letter in letters}


def test_worker_and_driver_need_no_more_than_the_page_says(place: Place) -> None:
    for mode in ("append", "overwrite"):
        job = place.job(LETTERS["driver"], mode=mode).setup()
        job.commit([place.work(job, 0, LETTERS["worker"]), place.work(job, 1, LETTERS["worker"])])
        assert len(place.server.visible_keys(place.container, "sales/")) == 2
    assert not [key for key in place.server.all_keys(place.container) if "__magic" in key]


def test_records_of_a_worker_that_deletes_nothing_stay_until_the_job_ends(place: Place) -> None:
    job = place.job(LETTERS["driver"], mode="append").setup()
    commit = place.work(job, 0, LETTERS["worker that deletes nothing"])
    assert [key for key in place.server.all_keys(place.container) if key.endswith(".pending")]
    job.commit([commit])
    assert not [key for key in place.server.all_keys(place.container) if "__magic" in key]


def test_worker_without_records_lists_nothing_and_drops_what_it_gives_up(place: Place) -> None:
    job = place.job(LETTERS["driver"], mode="append", tracking="memory").setup()
    with pytest.raises(ZeroDivisionError):
        place.work(job, 1, LETTERS["worker without records"], gives_up=True)
    assert place.server.uploads(place.container) == set()
    job.commit([place.work(job, 0, LETTERS["worker without records"])])
    assert len(place.server.visible_keys(place.container, "sales/")) == 1


@pytest.mark.parametrize("letter", LETTERS["worker that deletes nothing"])
def test_worker_can_spare_no_letter(place: Place, letter: str) -> None:
    job = place.job(LETTERS["driver"], mode="append").setup()
    with pytest.raises(PermissionDenied):
        place.work(job, 0, LETTERS["worker that deletes nothing"].replace(letter, ""))
    job.abort()


@pytest.mark.parametrize("letter", LETTERS["driver"])
def test_driver_can_spare_no_letter(place: Place, letter: str) -> None:
    with pytest.raises(PermissionDenied):
        place.job(LETTERS["driver"].replace(letter, ""), mode="overwrite").setup()


def test_operator_needs_what_the_driver_needs_and_a_reader_reads(place: Place) -> None:
    for number in range(2):
        with place.job(LETTERS["driver"], mode="append") as job, job.task(0) as task:
            task.filesystem.pipe_file(f"{task.path}/{number}.txt", b"12345")
    dead = place.job(LETTERS["driver"], mode="append").setup()
    forget()
    operator = {"storage_options": place.options(LETTERS["driver"])}
    magicfs.Dataset(place.url, **operator).recover(job=str(dead.id), abort=True)
    assert not [key for key in place.server.all_keys(place.container) if str(dead.id) in key]
    reader = {"storage_options": place.options(LETTERS["reader"])}
    assert magicfs.Dataset(place.url, **reader).verify().files == 2
    with pytest.raises(PermissionDenied):
        magicfs.Dataset(place.url, **reader).compact()
    magicfs.Dataset(place.url, **operator).compact()
    assert magicfs.Dataset(place.url, **reader).verify().files == 2
