"""Blocks, tokens and credentials that have expired or are missing, and what another writer did in between."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from adlfs import AzureBlobFileSystem
from azure.storage.blob import AccountSasPermissions, ResourceTypes, generate_account_sas
from gcsfs.core import GCSFileSystem

import magicfs
from magicfs.errors import CommitFailed, PermissionDenied
from magicfs.stores.azure import folders as azure_folders
from proofs.doubles.adls_server import AdlsDouble
from proofs.doubles.azurite import Azurite
from proofs.doubles.gcs_server import GcsDouble
from proofs.scenes.arranged import arranged

pytestmark = pytest.mark.sample(most=1)

LONG_S = 3600
_TOKEN = {"service": True, "container": True, "object": True}
_MAY = dict.fromkeys(("read", "write", "delete", "list", "add", "create"), True)


@pytest.fixture(autouse=True)
def _no_filesystem_is_kept() -> Iterator[None]:
    yield
    for kind in (GCSFileSystem, AzureBlobFileSystem):
        kind.clear_instance_cache()
    azure_folders._known.clear()


def written(job: magicfs.Job, *names: str) -> magicfs.Job:
    with job.setup().task(0) as task:
        for name in names:
            task.filesystem.pipe_file(f"{task.path}/{name}", name.encode())
    return job


class TestBlocks:
    """On Azure, a week after they were sent."""

    @pytest.fixture
    def job(self, adls: AdlsDouble, bucket_factory: Callable[..., str]) -> magicfs.Job:
        bucket = bucket_factory(adls, "blocks")
        adls.write(bucket, "sales/old.txt", b"old")
        options = adls.storage_options()
        made = magicfs.Job(f"abfs://{bucket}/sales", mode="overwrite", storage_options=options)
        return written(made, "a.txt", "b.txt", "c.txt")

    def bucket(self, job: magicfs.Job) -> str:
        return job.url.split("/")[2]

    def test_job_of_which_some_have_expired_is_taken_back_whole(
        self, adls: AdlsDouble, job: magicfs.Job
    ) -> None:
        bucket = self.bucket(job)
        [key] = [key for key, _ in adls.uploads(bucket) if "/b-" in key]
        adls.drop_blocks(bucket, key)
        told = r"/b-.* could not be published; .* removed again.*run the job again.*older than 7 days"
        with pytest.raises(CommitFailed, match=told) as caught:
            job.commit()
        assert caught.value.failed == (key,)
        assert (adls.all_keys(bucket), adls.uploads(bucket)) == (["sales/old.txt"], set())
        assert adls.read(bucket, "sales/old.txt") == b"old"

    def test_job_of_which_all_have_expired_can_be_aborted(self, adls: AdlsDouble, job: magicfs.Job) -> None:
        bucket = self.bucket(job)
        for key, _ in adls.uploads(bucket):
            adls.drop_blocks(bucket, key)
        [report] = (
            magicfs.Dataset(job.url, storage_options=adls.storage_options())
            .recover(job=job.id, abort=True)
            .jobs
        )
        assert report.action == "aborted"
        assert adls.all_keys(bucket) == ["sales/old.txt"]


class TestTokens:
    """Shared access signatures of Azure."""

    @pytest.fixture
    def container(self, azurite: Azurite, bucket_factory: Callable[..., str]) -> str:
        return bucket_factory(azurite, "tokens")

    def options(self, azurite: Azurite, lasts_s: float) -> dict[str, Any]:
        token = generate_account_sas(
            azurite.account,
            azurite.key,
            ResourceTypes(**_TOKEN),
            AccountSasPermissions(**_MAY),
            dt.datetime.now(dt.UTC) + dt.timedelta(seconds=lasts_s),
        )
        place = f"{azurite.endpoint}/{azurite.account}"
        return {"connection_string": f"BlobEndpoint={place};SharedAccessSignature={token}"}

    def job(self, container: str, options: dict[str, Any], **more: Any) -> magicfs.Job:
        return magicfs.Job(
            f"abfs://{container}/sales", mode="append", storage_options=options, **arranged(**more)
        )

    def test_expired_and_missing_ones_are_refused_before_anything_is_written(
        self, azurite: Azurite, container: str
    ) -> None:
        nothing = {"connection_string": f"BlobEndpoint={azurite.endpoint}/{azurite.account};"}
        for options in (self.options(azurite, -60), nothing):
            with pytest.raises(PermissionDenied, match=r"renew the SAS token") as caught:
                self.job(container, options).setup()
            assert "sig=" not in str(caught.value)
        wrong = azurite.connection_string().replace(azurite.key, "d3Jvbmc=")
        with pytest.raises(PermissionDenied, match=r"403 Auth"):
            self.job(container, {"connection_string": wrong}).setup()
        assert azurite.all_keys(container) == []

    @pytest.mark.slow
    @pytest.mark.nightly
    def test_one_that_expires_before_the_commit_leaves_the_job_to_another_token(
        self, azurite: Azurite, container: str
    ) -> None:
        ends = time.time() + 12
        job = written(self.job(container, self.options(azurite, 12)), "a.txt")
        commits = job.commits
        time.sleep(max(0.0, ends + 1.5 - time.time()))
        for end in (lambda: job.commit(commits), job.abort):
            with pytest.raises(PermissionDenied, match=r"renew the SAS token"):
                end()
        assert azurite.visible_keys(container, "sales/") == []
        again = self.job(container, self.options(azurite, LONG_S), job_id=job.id, attempt=1).setup()
        assert again.commit(again.recover_tasks()).files == 1
        [key] = azurite.visible_keys(container, "sales/")
        assert azurite.read(container, key) == b"a.txt"
        assert azurite.uploads(container) == set()


@pytest.mark.parametrize("mode", ["append", "error"])
def test_object_that_another_writer_puts_at_a_final_name_on_google_stays(
    gcs: GcsDouble, bucket_factory: Callable[..., str], mode: str
) -> None:
    bucket = bucket_factory(gcs, "rival")
    options = gcs.storage_options()
    how: dict[str, Any] = {"mode": mode, "unique_names": False, "storage_options": options}
    job = written(magicfs.Job(f"gs://{bucket}/sales", **arranged(**how)), "a.txt", "b.txt")
    gcs.write(bucket, "sales/a.txt", b"rival")
    with pytest.raises(magicfs.errors.MagicError, match=r"sales/a\.txt"):
        job.commit()
    magicfs.Dataset(job.url, storage_options=options).recover(job=job.id, abort=True)
    assert (gcs.all_keys(bucket), gcs.uploads(bucket)) == (["sales/a.txt"], set())
    assert gcs.read(bucket, "sales/a.txt") == b"rival"
