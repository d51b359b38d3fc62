"""Recover, commit and abort on a server that denies what they need, and on jobs of Hadoop's there."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest

import magicfs
from magicfs.cli import main as cli
from magicfs.datasets import commit
from magicfs.errors import MagicError, PermissionDenied
from magicfs.protocol.ids import task_id
from magicfs.protocol.job_state import JobState
from magicfs.testing.fault_proxy import FaultProxy
from magicfs.testing.faults import Action, Rule
from proofs.doubles.servers import Server
from proofs.scenes.hadoop_jobs import HadoopJob
from proofs.scenes.known import all_ended
from proofs.scenes.s3_scene import S3Scene
from proofs.scenes.unfinished import died_in, written

pytestmark = pytest.mark.sample(most=1)

NO_LISTING = Rule("ListMultipartUploads", Action.ERROR, status=403, code="AccessDenied")
NO_PUT = Rule("PutObject", Action.ERROR, status=403, code="AccessDenied")
NO_SWAP = Rule("PutObject", Action.ERROR, status=403, code="AccessDenied", match=r"/job\.json")


class Scene(S3Scene):
    """A bucket that this test sees past the proxy, and that magicfs sees through it."""

    def __init__(self, server: Server, bucket: str, proxy: FaultProxy) -> None:
        super().__init__(server, bucket, proxy.endpoint)
        self.proxy = proxy
        self.url = f"s3://{bucket}/sales"

    @property
    def name(self) -> str:
        return self.bucket

    @property
    def direct(self) -> dict[str, Any]:
        """Storage options past the proxy."""
        return self.server.storage_options()

    def upload(self, key: str, body: bytes) -> tuple[str, str]:
        """Begin an upload of one part, as Hadoop does."""
        began = self.client.create_multipart_upload(Bucket=self.bucket, Key=key)["UploadId"]
        part = self.client.upload_part(Bucket=self.bucket, Key=key, UploadId=began, PartNumber=1, Body=body)
        return began, part["ETag"]

    def complete(self, key: str, upload_id: str, etag: str) -> None:
        """Complete it."""
        self.client.complete_multipart_upload(
            Bucket=self.bucket,
            Key=key,
            UploadId=upload_id,
            MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": etag}]},
        )

    def data(self) -> dict[str, bytes]:
        return {key: self.get(key) for key in self.server.visible_keys(self.bucket, "sales")}


@pytest.fixture
def proxy(ministack: Server) -> Iterator[FaultProxy]:
    with FaultProxy(ministack.endpoint) as running:
        yield running


@pytest.fixture
def scene(ministack: Server, bucket_factory: Callable[..., str], proxy: FaultProxy) -> Scene:
    return Scene(ministack, bucket_factory(ministack), proxy)


@pytest.fixture
def main(scene: Scene, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Run a command through the proxy."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", scene.server.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", scene.server.secret_key)
    options = {"endpoint_url": scene.proxy.endpoint, "client_kwargs": {"region_name": scene.server.region}}

    def run(*arguments: str) -> tuple[int, str, str]:
        code = cli.main([*arguments, "--storage-options", json.dumps(options)])
        said = capsys.readouterr()
        assert "Traceback" not in said.err
        return code, said.out, said.err

    return run


def test_no_such_bucket(main: Any) -> None:
    for command in (["recover"], ["recover", "--abort"], ["recover", "--abort", "--job", "x"]):
        code, out, err = main(*command, f"s3://no-{uuid4().hex[:12]}/sales")
        assert (code, out) == (3, "")
        assert "create the bucket first, or correct its name" in err


# -- conditional writes are denied -------------------------------------------------------------------------


@pytest.mark.parametrize("rule", [NO_PUT, NO_SWAP], ids=["put", "swap"])
@pytest.mark.parametrize(
    ("state", "command"),
    [
        (JobState.COMMITTING, ["recover", "--rollback"]),
        (JobState.OPEN, ["recover", "--abort"]),
        (JobState.OPEN, ["recover", "--commit", "--job"]),
    ],
)
def test_denied_writes_change_nothing(
    scene: Scene, main: Any, rule: Rule, state: JobState, command: list[str]
) -> None:
    scene.put("sales/old.bin", b"old")
    job = died_in(state, scene.url, storage_options=scene.direct, completed=1)
    before, uploads = scene.objects(), scene.uploads()
    scene.proxy.add(rule)
    given = [*command, job.id] if command[-1] == "--job" else command
    code, out, err = main(given[0], scene.url, *given[1:])
    assert (code, out) == (3, "")
    assert "denied" in err.lower()
    assert "credentials" in err
    after = scene.objects()
    assert {key: body for key, body in after.items() if "/facts/" not in key or key in before} == before
    assert scene.uploads() == uploads
    scene.proxy.clear()
    assert main("recover", scene.url, "--job", job.id, "--rollback")[0] == 0
    assert scene.objects() == {"sales/old.bin": b"old"}


def test_denied_writes_leave_a_committing_job_as_it_is(scene: Scene, main: Any) -> None:
    scene.put("sales/old.bin", b"old")
    died_in(JobState.COMMITTING, scene.url, storage_options=scene.direct, completed=1)
    before, uploads = scene.objects(), scene.uploads()
    scene.proxy.add(NO_PUT)
    code, _, err = main("recover", scene.url)
    assert code == 3
    assert "s3:PutObject" in err
    assert (scene.objects(), scene.uploads()) == (before, uploads)
    scene.proxy.clear()
    assert main("recover", scene.url)[0] == 0
    assert len(scene.data()) == 4


def test_setup_where_writes_are_denied_leaves_nothing(scene: Scene) -> None:
    scene.put("sales/old.bin", b"old")
    scene.proxy.add(NO_PUT)
    with pytest.raises(PermissionDenied, match="credentials"):
        magicfs.Job(scene.url, mode="overwrite", storage_options=scene.storage_options).setup()
    assert scene.objects() == {"sales/old.bin": b"old"}


# -- uploads may not be listed -----------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_a_job_is_finished_where_uploads_may_not_be_listed_and_warns(
    scene: Scene, main: Any, mode: str
) -> None:
    scene.put("sales/old.bin", b"old")
    died_in(JobState.COMMITTING, scene.url, storage_options=scene.direct, completed=1, mode=mode)
    scene.proxy.add(NO_LISTING)
    code, out, _ = main("recover", scene.url)
    assert code == 6
    assert "list_uploads" in out
    assert "credentials" in out
    assert len(scene.data()) == (4 if mode == "append" else 3)
    assert ("sales/old.bin" in scene.data()) == (mode == "append")
    assert not scene.uploads()


def test_what_cannot_be_known_is_not_swept(scene: Scene, main: Any) -> None:
    job = written(scene.url, storage_options=scene.direct)
    job.commit()
    zombie = magicfs.Task(job.spec, task_id("late")).setup()
    zombie.filesystem.pipe_file(f"{zombie.path}/late.bin", b"late")
    all_ended()
    before, uploads = scene.objects(), scene.uploads()
    scene.proxy.add(NO_LISTING)
    code, out, err = main("recover", "--abort", scene.url, "--job", job.id)
    assert (code, out) == (3, "")
    assert "list_uploads" in err
    assert (scene.objects(), scene.uploads()) == (before, uploads)
    scene.proxy.clear()
    assert main("recover", "--abort", scene.url, "--job", job.id)[0] == 0
    assert not scene.uploads()
    assert len(scene.data()) == 3


def test_an_open_job_is_aborted_as_far_as_its_documents_tell_and_says_so(scene: Scene, main: Any) -> None:
    scene.put("sales/old.bin", b"old")
    written(scene.url, storage_options=scene.direct)
    scene.proxy.add(NO_LISTING)
    code, out, _ = main("recover", "--abort", scene.url)
    assert code == 6
    assert "list_uploads" in out
    assert "left no record" in out
    assert not scene.uploads()
    assert scene.data() == {"sales/old.bin": b"old"}


# -- Hadoop's jobs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layout", "etag_format", "completed"),
    [("__magic", "string", 0), ("__magic_job", "string", 3), ("__magic_job", "object", 0)],
)
def test_a_dead_job_of_hadoops_is_published(
    seaweedfs: Server, bucket_factory: Callable[..., str], layout: str, etag_format: Any, completed: int
) -> None:
    with FaultProxy(seaweedfs.endpoint) as proxy:
        scene = Scene(seaweedfs, bucket_factory(seaweedfs), proxy)
        job = HadoopJob(scene, "sales", layout=layout, etag_format=etag_format)
        job.complete(completed)
        with pytest.raises(MagicError, match="--driver-is-dead"):
            commit(scene.url, job.id, storage_options=scene.storage_options)
        report = commit(scene.url, job.id, driver_is_dead=True, storage_options=scene.storage_options)
        assert (report.files, report.warnings) == (4, ())
        assert scene.data() == job.files
        assert not scene.uploads()
        assert not [key for key in scene.objects() if "__magic" in key]


def test_a_job_of_hadoops_with_an_upload_that_is_gone_is_not_published_and_can_be_discarded(
    scene: Scene, main: Any
) -> None:
    job = HadoopJob(scene, "sales")
    gone = scene.server.pending_uploads(scene.bucket)[0]
    scene.client.abort_multipart_upload(Bucket=scene.bucket, Key=gone["Key"], UploadId=gone["UploadId"])
    before = scene.data()
    code, _, err = main("recover", "--commit", scene.url, "--job", job.id, "--driver-is-dead")
    assert code == 3
    assert "nothing was changed" in err
    assert f"magicfs recover {scene.url} --job {job.id} --abort --driver-is-dead" in err
    assert scene.data() == before
    assert main("recover", "--abort", scene.url, "--job", job.id, "--driver-is-dead")[0] == 0
    assert scene.data() == before
    assert not scene.server.pending_uploads(scene.bucket)
