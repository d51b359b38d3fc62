"""Jobs on Azurite: writers that people use, rivals, deaths, the program, bad input."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

import fsspec
import pandas as pd
import pyarrow as pa
import pyarrow.dataset
import pytest
from adlfs import AzureBlobFileSystem

import magicfs
from magicfs.cli import main as cli
from magicfs.errors import (
    CommitError,
    MagicError,
    ObjectNotFound,
    StoreError,
    UploadNotFound,
    UsageError,
)
from magicfs.runtime.interrupt import run_on
from magicfs.stores import resolve
from magicfs.stores.azure.blocks import OpenUpload
from magicfs.stores.azure.blocks import part as block
from magicfs.stores.delegating import DelegatingStore
from magicfs.stores.port import Part
from magicfs.testing.fault_proxy import FaultProxy
from magicfs.testing.faults import Action, Rule
from proofs.doubles.azure_operations import azure_operation
from proofs.doubles.azurite import Azurite
from proofs.scenes.arranged import arranged
from proofs.scenes.known import all_ended

pytestmark = pytest.mark.sample(most=1)

NAMES = ("día 1/50% +#ä.csv", "dataset1/x", "dataset10/x", "empty")


@pytest.fixture
def container(azurite: Azurite, bucket_factory: Callable[..., str]) -> str:
    return bucket_factory(azurite, "jobs")


@pytest.fixture
def job(azurite: Azurite, container: str) -> Callable[..., magicfs.Job]:
    def make(**options: Any) -> magicfs.Job:
        given = {"mode": "append", "storage_options": azurite.storage_options(), **options}
        return magicfs.Job(f"abfs://{container}/sales ü", **arranged(**given))

    return make


def write(job: magicfs.Job, number: int, *names: str, body: bytes = b"12345") -> magicfs.TaskCommit:
    with job.task(number) as task:
        for name in names:
            task.filesystem.pipe_file(f"{task.path}/{name}", body)
    return job.commits[-1]


def names_of(azurite: Azurite, container: str) -> list[str]:
    return [key.removeprefix("sales ü/") for key in azurite.visible_keys(container, "sales ü/")]


def test_writers_publish_all_or_nothing(azurite: Azurite, container: str, job: Any) -> None:
    with job() as running:
        with running.task(0) as task:
            table = pa.table({"p": [1, 2, 1], "v": [1, 2, 3]})
            pyarrow.dataset.write_dataset(
                table, task.path, filesystem=task.filesystem, format="parquet", partitioning=["p"]
            )
        with running.task(1) as task:
            with task.filesystem.open(f"{task.path}/{NAMES[0]}", "w") as file:
                pd.DataFrame({"a": [1]}).to_csv(file)
            task.filesystem.pipe_file(f"{task.path}/{NAMES[3]}", b"")
        assert names_of(azurite, container) == []
    published = names_of(azurite, container)
    assert len(published) == 4
    assert azurite.uploads(container) == set()
    report = magicfs.Dataset(running.url, storage_options=azurite.storage_options()).verify()
    assert (report.files, report.missing, report.altered) == (4, (), ())
    with pytest.raises(ZeroDivisionError), job() as failing, failing.task(0) as task:
        task.filesystem.pipe_file(f"{task.path}/gone", b"x")
        raise ZeroDivisionError
    assert azurite.uploads(container) == set()
    assert names_of(azurite, container) == published


def test_the_url_may_name_the_account(azurite: Azurite, container: str) -> None:
    url = f"abfss://{container}@{azurite.account}.dfs.core.windows.net/sales ü"
    with magicfs.Job(url, storage_options=azurite.storage_options()) as running:
        write(running, 0, *NAMES)
    assert running.url == f"abfss://{container}/sales ü"
    assert len(names_of(azurite, container)) == len(NAMES)
    filesystem = magicfs.MagicFileSystem(target_protocol="az", target_options=azurite.storage_options())
    assert len(filesystem.find(f"magic::{url}")) >= len(NAMES)
    with pytest.raises(UsageError, match="the URL names the account 'another'"):
        magicfs.Job(
            f"abfs://{container}@another.dfs.core.windows.net/x", storage_options=azurite.storage_options()
        )


def test_touch_of_an_ordinary_path_is_that_of_adlfs(azurite: Azurite, container: str) -> None:
    filesystem = magicfs.MagicFileSystem(target_protocol="abfs", target_options=azurite.storage_options())
    path = f"{container}/plain a%"
    filesystem.touch(path)
    assert azurite.read(container, "plain a%") == b""
    azurite.write(container, "plain a%", b"old")
    with pytest.raises(NotImplementedError):
        filesystem.touch(path, truncate=False)
    assert azurite.read(container, "plain a%") == b"old"
    filesystem.touch(f"magic::abfs://{path}")
    assert azurite.read(container, "plain a%") == b""


def test_copy_into_a_directory_that_was_listed_is_a_file_as_adlfs_says(
    azurite: Azurite, container: str
) -> None:
    filesystem = magicfs.MagicFileSystem(target_protocol="abfs", target_options=azurite.storage_options())
    azurite.write(container, "dir/a", b"old")
    assert filesystem.ls(f"{container}/dir", detail=False) == [f"{container}/dir/a"]
    filesystem.cp_file(f"{container}/dir/a", f"{container}/dir/b")
    assert filesystem.fs.isfile(f"{container}/dir/b")
    assert filesystem.isfile(f"{container}/dir/b")
    assert filesystem.isfile(f"magic::abfs://{container}/dir/b")
    assert not filesystem.isfile(f"{container}/dir")


@pytest.mark.parametrize("protocol", ["abfs", "abfss", "az"])
def test_job_publishes_what_is_written_through_chained_urls(
    azurite: Azurite, container: str, job: Any, protocol: str
) -> None:
    options = {protocol: azurite.storage_options()}
    with job() as running, running.task(0) as task:
        with fsspec.open(task.url("x=1/a b%.txt"), "wb", **task.storage_options) as file:
            file.write(b"by the task's URL")
        with fsspec.open(f"magic::{protocol}://{task.path}/x=1/c+d#1.txt", "wb", **options) as file:
            file.write(b"by one's own")
        all_ended()
        assert len(azurite.uploads(container)) == 2
        assert names_of(azurite, container) == []
    end = f"-{task.id}-{running.id}.txt"
    assert names_of(azurite, container) == [f"x=1/a b%{end}", f"x=1/c+d#1{end}"]
    bodies = [azurite.read(container, f"sales ü/{name}") for name in names_of(azurite, container)]
    assert bodies == [b"by the task's URL", b"by one's own"]
    with fsspec.open(f"magic::{protocol}://{container}/sales ü/x=1/c+d#1{end}", "rb", **options) as file:
        assert file.read() == b"by one's own"
    assert azurite.uploads(container) == set()


def test_second_attempt_of_a_task_replaces_what_the_first_had_written(
    azurite: Azurite, container: str, job: Any
) -> None:
    running = job(unique_names=False).setup()
    lost = running.task(0).setup()
    lost.filesystem.pipe_file(f"{lost.path}/x", b"lost")
    won = running.task(0).setup()
    won.filesystem.pipe_file(f"{won.path}/x", b"won")
    running.commit([won.commit()])
    assert azurite.read(container, "sales ü/x") == b"won"
    assert azurite.uploads(container) == set()


def test_second_job_of_one_final_name_finds_its_blocks_gone_and_fails(
    azurite: Azurite, container: str, job: Any
) -> None:
    first, second = job(unique_names=False).setup(), job(unique_names=False).setup()
    commits = [write(first, 0, "x", body=b"first"), write(second, 0, "x", "y", body=b"second")]
    first.commit(commits[:1])
    with pytest.raises(CommitError):
        second.commit(commits[1:])
    second.abort()
    assert azurite.read(container, "sales ü/x") == b"first"
    assert (names_of(azurite, container), azurite.uploads(container)) == (["x"], set())


def test_blob_that_another_writer_commits_in_between_is_never_taken_for_ours(
    azurite: Azurite, container: str, job: Any
) -> None:
    running = job().setup()
    commit = write(running, 0, "x", "y")
    key = min(key for key, _ in azurite.uploads(container))
    azurite._blob(container, key).stage_block("r" * 60, b"rival")
    azurite._blob(container, key).commit_block_list(["r" * 60])
    with pytest.raises(CommitError) as refused:
        running.commit([commit])
    assert key in str(refused.value)
    running.abort()
    assert (azurite.read(container, key), azurite.uploads(container)) == (b"rival", set())
    assert azurite.all_keys(container) == [key]


def test_lost_answer_of_a_commit_is_read_back(azurite: Azurite, container: str) -> None:
    with FaultProxy(azurite.endpoint, azure_operation) as proxy:
        options = {"connection_string": azurite.connection_string(proxy.endpoint)}
        running = magicfs.Job(f"abfs://{container}/sales ü", storage_options=options).setup()
        commit = write(running, 0, "x")
        proxy.clear()
        proxy.add(Rule("Put Block List", Action.LOST, times=1))
        running.commit([commit])
        seen = [one.operation for one in proxy.requests if "Block List" in one.operation]
        assert seen == ["Get Block List", "Put Block List", "Get Block List"]
    assert len(names_of(azurite, container)) == 1


@pytest.fixture
def environment(azurite: Azurite, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    AzureBlobFileSystem.clear_instance_cache()  # an instance keeps the credentials that it has found
    for name, value in azurite.credentials().items():
        monkeypatch.setenv(name, value)
    yield
    AzureBlobFileSystem.clear_instance_cache()


@pytest.mark.usefixtures("environment")
def test_the_program_finishes_and_discards_dead_jobs(
    azurite: Azurite, container: str, job: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    dead = job().setup()
    write(dead, 0, *NAMES)

    def run(*arguments: str) -> tuple[int, Any]:
        status = cli.main([*arguments, "--json"])
        return status, json.loads(capsys.readouterr().out)

    status, pending = run("uploads", dead.url)
    assert (status, pending["count"]) == (1, len(NAMES))
    assert {one["job_id"] for one in pending["pending"]} == {dead.id}
    assert {one["upload_id"] for one in pending["pending"]} == {one for _, one in azurite.uploads(container)}
    assert run("recover", "--commit", dead.url, "--job", str(dead.id))[0] == 0
    assert len(names_of(azurite, container)) == len(NAMES)
    assert run("uploads", dead.url)[0] == 0
    second = job().setup()
    write(second, 0, *NAMES)
    assert run("recover", "--abort", second.url, "--job", str(second.id))[0] == 0
    assert run("uploads", dead.url)[0] == 0
    assert azurite.uploads(container) == set()
    assert len(names_of(azurite, container)) == len(NAMES)


def test_what_cannot_be_done_is_refused_with_a_reason(azurite: Azurite, container: str) -> None:
    filesystem = AzureBlobFileSystem(**azurite.storage_options())
    store = resolve.open_store(filesystem, container)
    blob = azurite._blob(container, "held")
    azurite.write(container, "held", b"old")

    def ask(work: Callable[..., Any], *args: Any, **how: Any) -> Any:
        return run_on(resolve.loop_of(filesystem), work, *args, **how)

    with pytest.raises(ObjectNotFound, match="create the container first") as caught:
        magicfs.Job("abfs://no-such-container/x", storage_options=azurite.storage_options()).setup()
    assert not any(name in str(caught.value) for name in ("_delta_log", "__magic"))
    lease = blob.acquire_lease(15)
    upload_id = ask(store.create_upload, "other", metadata={})
    for work in (lambda: ask(store.put, "held", b"new"), lambda: ask(store.delete, ["held"])):
        with pytest.raises(StoreError, match="release the lease"):
            work()
    lease.release()
    blob.create_snapshot()
    with pytest.raises(StoreError, match="delete the snapshots"):
        ask(store.delete, ["held"])
    blob.delete_blob(delete_snapshots="include")
    azurite._blob(container, "page").create_append_blob()
    with pytest.raises(StoreError, match="append or page blob"):
        ask(store.create_upload, "page", metadata={})
    azurite._blob(container, "foreign").stage_block("of another program", b"x")
    with pytest.raises(StoreError, match="another program is sending blocks"):
        ask(store.create_upload, "foreign", metadata={})
    assert {info.key for info in ask(listed, store)} == {"other"}
    for given in ({"e\u0301": "x"}, {"a": "ü"}, {"a b": "x"}):
        with pytest.raises(UsageError, match="cannot be stored on Azure"):
            ask(store.put, "x", b"", metadata=given)
    with pytest.raises(MagicError, match="no such upload"):
        ask(store.complete_upload, "other2", upload_id, [Part(1, '"d41d8cd98f00b204e9800998ecf8427e"')])


def test_one_upload_is_committed_once_whoever_asks(azurite: Azurite, container: str) -> None:
    filesystem = AzureBlobFileSystem(**azurite.storage_options())
    store = resolve.open_store(filesystem, container)

    async def race() -> tuple[list[Any], str]:
        upload_id = await store.create_upload("key", metadata={"a": "1"})
        part = await store.put_part("key", upload_id, 1, b"body")
        done = [store.complete_upload("key", upload_id, [part]) for _ in range(8)]
        answers = await asyncio.gather(*done, return_exceptions=True)
        # A process that had looked before, and asks only now.
        inner: Any = store
        while isinstance(inner, DelegatingStore):
            inner = inner.inner
        late = inner._commit("key", OpenUpload({}, {}), [block(upload_id, 1, part.etag)], False)
        with pytest.raises(UploadNotFound):
            await late
        return answers, (await store.head("key")).etag

    answers, etag = run_on(resolve.loop_of(filesystem), race)
    won = [one for one in answers if not isinstance(one, BaseException)]
    assert [one.etag for one in won] == [etag]
    assert {type(one) for one in answers if one not in won} == {UploadNotFound}


async def listed(store: Any) -> list[Any]:
    return [info async for info in store.list_uploads("")]
