"""Jobs on Google Cloud Storage, end to end, on the double."""

from __future__ import annotations

import json
import logging
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from gcsfs.core import GCSFileSystem
from google.oauth2.credentials import Credentials

import magicfs
from magicfs.cli.main import main
from magicfs.errors import ObjectNotFound, PermissionDenied, StoreError, UsageError
from magicfs.filesystem import MagicFileSystem, MagicGCS, MagicGS
from magicfs.job.job import Job
from magicfs.stores import resolve
from proofs.doubles.gcs_server import GcsDouble
from proofs.scenes.arranged import arranged

pytestmark = pytest.mark.sample(most=1)

NAMES = ["a b%20", "a+b #1", "日本語", "dataset1"]


class Place:
    def __init__(self, server: GcsDouble, bucket: str) -> None:
        self.server = server
        self.bucket = bucket
        self.options = server.storage_options()

    def url(self, name: str = "sales") -> str:
        return f"gs://{self.bucket}/{name}"

    def job(self, name: str = "sales", **more: Any) -> Job:
        return Job(self.url(name), **arranged(**{"mode": "append", "storage_options": self.options, **more}))

    def visible(self, name: str = "sales") -> list[str]:
        return self.server.visible_keys(self.bucket, f"{name}/")

    def rows(self, name: str = "sales") -> list[int]:
        found: list[int] = []
        for key in self.visible(name):
            body = self.server.read(self.bucket, key)
            assert body is not None
            found += pq.read_table(pa.BufferReader(body))["x"].to_pylist()
        return sorted(found)

    def work(self) -> list[str]:
        return [key for key in self.server.all_keys(self.bucket) if "__magic" in key]


@pytest.fixture
def place(gcs: GcsDouble, bucket_factory: Callable[..., str]) -> Iterator[Place]:
    yield Place(gcs, bucket_factory(gcs, "jobs"))
    GCSFileSystem.clear_instance_cache()


def table(*numbers: int) -> pa.Table:
    return pa.table({"day": [f"day {n % 2}" for n in numbers], "x": list(numbers)})


def test_file_that_is_opened_has_the_content_type_that_gcsfs_gives_it(place: Place) -> None:
    plain = GCSFileSystem(**place.options, skip_instance_cache=True)
    names = ["día 50%25 a b.html", "b.csv", "c.parquet", "d"]
    with place.job(unique_names=False) as job, job.task(0) as task:
        for filesystem, base in ((plain, f"{place.bucket}/plain"), (task.filesystem, task.path)):
            for name in names:
                with filesystem.open(f"{base}/{name}", "wb") as file:
                    file.write(b"x")
                with filesystem.open(f"{base}/told {name}", "wb", content_type="text/x") as file:
                    file.write(b"x")
            filesystem.pipe_file(f"{base}/piped.html", b"x")

    def kinds(directory: str) -> list[str]:
        keys = [*names, *(f"told {name}" for name in names), "piped.html"]
        return [place.server.described(place.bucket, f"{directory}/{key}")["contentType"] for key in keys]

    assert kinds("sales") == kinds("plain")
    assert kinds("sales")[:2] == ["text/html", "text/csv"]


def test_small_files_stay_in_hand_whatever_their_names_tell(place: Place) -> None:
    with place.job(tracking="memory", small_files=1024) as job, job.task(0) as task:
        with task.filesystem.open(f"{task.path}/a.csv", "wb") as file:
            file.write(b"x")
        assert place.server.uploads(place.bucket) == set()
    assert job.report.files == 1


def write(place: Place, name: str = "sales", **more: Any) -> Job:
    job = place.job(name, **more).setup()
    with job.task(0) as task:
        pq.write_table(table(1, 2), f"{task.path}/a b.parquet", filesystem=task.filesystem)
    return job


class TestWriters:
    def test_datasets_and_frames_become_visible_together(self, place: Place) -> None:
        with place.job() as job:
            with job.task(0) as task:
                ds.write_dataset(
                    table(1, 2), task.path, filesystem=task.filesystem, format="parquet", partitioning=["day"]
                )
            with job.task(1) as task:
                table(3).to_pandas().to_parquet(
                    task.url("c+d #1.parquet"), storage_options=task.storage_options
                )
            assert place.visible() == []
            assert len(place.server.uploads(place.bucket)) == 3
        assert place.rows() == [1, 2, 3]
        assert place.server.uploads(place.bucket) == set()
        assert place.work() == []
        read = magicfs.Dataset(place.url(), storage_options=place.options).to_arrow()
        assert sorted(read.to_table()["x"].to_pylist()) == [1, 2, 3]

    @pytest.mark.parametrize("name", NAMES)
    def test_hostile_names_are_kept_apart(self, place: Place, name: str) -> None:
        write(place, name).commit()
        write(place, f"{name}0").commit()
        assert (place.rows(name), place.rows(f"{name}0")) == ([1, 2], [1, 2])
        write(place, name, mode="overwrite").commit()
        assert (place.rows(name), place.rows(f"{name}0")) == ([1, 2], [1, 2])
        assert place.work() == []

    def test_large_file_is_sent_in_parts_and_empty_file_is_there(self, place: Place) -> None:
        body = bytes(range(256)) * 2**12 * 20
        with place.job() as job, job.task(0) as task:
            with task.filesystem.open(f"{task.path}/large.bin", "wb") as file:
                file.write(body)
            task.filesystem.touch(f"{task.path}/empty.bin")
        bodies = {key.rpartition("/")[2][:5]: place.server.read(place.bucket, key) for key in place.visible()}
        assert bodies == {"large": body, "empty": b""}

    def test_chained_url_and_protocols_of_their_own(self, place: Place) -> None:
        nested = {"gs": place.options}
        path = f"{place.bucket}/sales/__magic/job1/__base/x=1/part#0.txt"
        with fsspec.open(f"magic::gs://{path}", "wt", **nested) as file:
            file.write("text")
        assert place.visible() == []
        assert {key for key, _ in place.server.uploads(place.bucket)} == {"sales/x=1/part#0.txt"}
        for protocol, kind in (("magic::gs", MagicGS), ("magic::gcs", MagicGCS)):
            made = fsspec.filesystem(protocol, target_options=place.options)
            assert type(made) is kind
            assert made.exists(f"{path}.pending")

    def test_touch_of_an_ordinary_path_is_that_of_gcsfs(self, place: Place) -> None:
        filesystem = MagicFileSystem(target_protocol="gs", target_options=place.options)
        path = f"{place.bucket}/plain a%"
        filesystem.touch(path)
        assert place.server.read(place.bucket, "plain a%") == b""
        place.server.write(place.bucket, "plain a%", b"old")
        with pytest.raises(NotImplementedError):
            filesystem.touch(path, truncate=False)
        assert place.server.read(place.bucket, "plain a%") == b"old"
        filesystem.touch(f"magic::gs://{path}")
        assert place.server.read(place.bucket, "plain a%") == b""

    @pytest.mark.parametrize("protocol", ["gs", "gcs"])
    def test_job_publishes_what_is_written_through_chained_urls(self, place: Place, protocol: str) -> None:
        with place.job() as job, job.task(0) as task:
            with fsspec.open(task.url("x=1/a b%.txt"), "wb", **task.storage_options) as file:
                file.write(b"by the task's URL")
            url = f"magic::{protocol}://{task.path}/x=1/c+d#1.txt"
            with fsspec.open(url, "wb", **{protocol: place.options}) as file:
                file.write(b"by one's own")
            assert len(place.server.uploads(place.bucket)) == 2
            assert place.visible() == []
        end = f"-{task.id}-{job.id}.txt"
        assert place.visible() == [f"sales/x=1/a b%{end}", f"sales/x=1/c+d#1{end}"]
        bodies = [place.server.read(place.bucket, key) for key in place.visible()]
        assert bodies == [b"by the task's URL", b"by one's own"]
        url = f"magic::{protocol}://{place.bucket}/sales/x=1/c+d#1{end}"
        with fsspec.open(url, "rb", **{protocol: place.options}) as file:
            assert file.read() == b"by one's own"
        assert (place.work(), place.server.uploads(place.bucket)) == ([], set())


class TestAfterACrash:
    def test_dead_job_is_shown_and_recovered_by_commands(
        self, place: Place, capsys: pytest.CaptureFixture[str]
    ) -> None:
        job = write(place)
        more = ["--storage-options", json.dumps(place.options)]
        assert main(["uploads", place.url(), "--json", *more]) == 1
        assert job.id in capsys.readouterr().out
        assert main(["recover", "--commit", place.url(), "--job", job.id, *more]) == 0
        assert place.rows() == [1, 2]
        assert main(["verify", place.url(), *more]) == 0

    def test_dead_job_is_aborted_by_command(self, place: Place, capsys: pytest.CaptureFixture[str]) -> None:
        job = write(place)
        more = ["--storage-options", json.dumps(place.options)]
        assert main(["recover", "--abort", place.url(), "--job", job.id, *more]) == 0
        assert (place.visible(), place.work(), place.server.uploads(place.bucket)) == ([], [], set())

    def test_task_works_in_another_process(self, place: Place, tmp_path: Path) -> None:
        job = place.job().setup()
        (tmp_path / "task").write_bytes(pickle.dumps(job.task(7)))
        code = """
import pickle, sys, pathlib
task = pickle.loads(pathlib.Path(sys.argv[1]).read_bytes())
with task:
    with task.filesystem.open(f"{task.path}/a.txt", "wb") as file:
        file.write(b"elsewhere")
"""
        subprocess.run(
            [sys.executable, "-W", "error", "-c", code, str(tmp_path / "task")],
            check=True,
        )
        job.commit()
        assert [place.server.read(place.bucket, key) for key in place.visible()] == [b"elsewhere"]


class TestRefusals:
    def test_unknown_bucket(self, place: Place) -> None:
        job = Job("gs://magicfs-no-such-bucket/sales", storage_options=place.options)
        with pytest.raises(ObjectNotFound, match="create the bucket first") as caught:
            job.setup()
        assert "_delta_log" not in str(caught.value)
        assert "__magic" not in str(caught.value)

    def test_private_bucket_without_and_with_wrong_credentials(self, place: Place) -> None:
        place.server.change_bucket(place.bucket, iamConfiguration={"publicAccessPrevention": "enforced"})
        try:
            with pytest.raises(PermissionDenied, match="GOOGLE_APPLICATION_CREDENTIALS"):
                place.job().setup()
            with pytest.raises(PermissionDenied, match="Invalid Credentials") as caught:
                place.job(storage_options=place.options | {"token": Credentials("wrong-canary")}).setup()
            assert "canary" not in str(caught.value)
        finally:
            allow_everybody(place)

    def test_rapid_bucket_by_name_before_anything_is_written(self, gcs: GcsDouble, place: Place) -> None:
        bucket = gcs.create_bucket(f"{place.bucket}-rapid", storageClass="RAPID")
        try:
            with pytest.raises(UsageError, match=r"Rapid .* nothing was written"):
                Job(f"gs://{bucket}/sales", storage_options=place.options).setup()
            assert gcs.all_keys(bucket) == []
        finally:
            gcs.remove_bucket(bucket)

    def test_bucket_that_bills_who_asks(self, place: Place) -> None:
        write(place).commit()
        place.server.change_bucket(place.bucket, billing={"requesterPays": True})
        options = place.options | {"requester_pays": "paying-project"}
        try:
            with pytest.raises(StoreError, match="set requester_pays=PROJECT"):
                place.job().setup()
            write(place, mode="overwrite", storage_options=options).commit()
            magicfs.Dataset(place.url(), storage_options=options).recover()
        finally:
            place.server.change_bucket(place.bucket, billing={"requesterPays": False})
        assert len(place.visible()) == 1
        assert place.work() == []

    @pytest.mark.parametrize("kept", ["hold", "retention"])
    def test_object_that_is_kept_stays_and_the_job_says_so(self, place: Place, kept: str) -> None:
        write(place).commit()
        [key] = place.visible()
        if kept == "hold":
            place.server.change_object(place.bucket, key, temporaryHold=True)
        else:
            place.server.change_bucket(place.bucket, retentionPolicy={"retentionPeriod": "3600"})
        store = resolve.open_store(resolve.filesystem("gs", place.options), place.bucket)
        with pytest.raises(StoreError, match="retention ends or release the hold") as caught:
            resolve_run(store.delete([key]))
        assert not isinstance(caught.value, PermissionDenied)
        assert not caught.value.retryable
        assert place.visible() == [key]

    def test_other_writer_between_is_a_failed_precondition(self, place: Place) -> None:
        store = resolve.open_store(resolve.filesystem("gs", place.options), place.bucket)
        first = resolve_run(store.put("key", b"same"))
        place.server.write(place.bucket, "key", b"same")
        with pytest.raises(magicfs.errors.PreconditionFailed):
            resolve_run(store.delete_matching("key", first.etag))
        assert place.server.read(place.bucket, "key") == b"same"


class TestSecrets:
    def test_no_token_is_in_any_file_pickle_log_or_message(
        self,
        place: Place,
        caplog: pytest.LogCaptureFixture,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        caplog.set_level(logging.DEBUG, "magicfs")
        token = place.server.token
        place.server.change_bucket(place.bucket, iamConfiguration={"publicAccessPrevention": "enforced"})
        secret = place.options | {"token": Credentials(token)}
        told: list[str] = []
        try:
            job = place.job(storage_options=secret).setup()
            task = job.task(0)
            pickles = [pickle.dumps(job), pickle.dumps(task)]
            with task:
                pickles.append(pickle.dumps(task.filesystem))
                pq.write_table(table(1), f"{task.path}/a.parquet", filesystem=task.filesystem)
                told += [repr(task), repr(task.filesystem), task.filesystem.to_json(include_password=False)]
            told += [repr(job), str(job)]
            monkeypatch.setenv("NO_GCE_CHECK", "true")
            elsewhere = pickle.loads(pickles[1])  # without a token, as in another process
            with pytest.raises(PermissionDenied, match="GOOGLE_APPLICATION_CREDENTIALS") as caught, elsewhere:
                elsewhere.filesystem.touch(f"{elsewhere.path}/a.txt")
            told.append(str(caught.value))
            assert (
                main(["recover", "--abort", place.url(), "--storage-options", json.dumps({"token": token})])
                == 2
            )
            job.commit()
        finally:
            allow_everybody(place)
        told += [caplog.text, *capsys.readouterr()]
        bodies = [place.server.read(place.bucket, key) or b"" for key in place.server.all_keys(place.bucket)]
        assert len(bodies) > 2
        assert not any(
            token.encode() in one for one in (*bodies, *pickles, *(text.encode() for text in told))
        )
        assert place.rows() == [1]

    def test_words_and_files_are_no_secrets_and_tokens_are(self, tmp_path: Path) -> None:
        key_file = tmp_path / "account.json"
        key_file.write_text("{}")
        for public in ("anon", "google_default", "cloud", "cache", "browser", str(key_file), None):
            assert resolve.secrets_of({"token": public}) == frozenset()
            assert resolve.without_secrets({"token": public}) == {"token": public}
        for secret in ("ya29.text", {"refresh_token": "x"}, Credentials("x")):
            assert resolve.secrets_of({"gs": {"token": secret}}) == {"token"}
            assert resolve.without_secrets({"token": secret, "project": "p"}) == {"project": "p"}

    def test_filesystem_survives_a_pickle_and_a_document(self, place: Place) -> None:
        for made in (
            MagicFileSystem(target_protocol="gs", target_options=place.options),
            MagicFileSystem(resolve.filesystem("gs", place.options)),
        ):
            for other in (pickle.loads(pickle.dumps(made)), MagicFileSystem.from_json(made.to_json())):
                assert type(other.fs) is GCSFileSystem
                assert other.fs.storage_options["token"] == "anon"
                assert other.ls(place.bucket) == []


def allow_everybody(place: Place) -> None:
    place.server.ask(
        "PATCH",
        f"/storage/v1/b/{place.bucket}",
        b'{"iamConfiguration": {}}',
        Authorization=f"Bearer {place.server.token}",
    )


def resolve_run(work: Any) -> Any:
    from fsspec.asyn import get_loop, sync

    return sync(get_loop(), lambda: work)
