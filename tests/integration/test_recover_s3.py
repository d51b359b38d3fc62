"""A driver that is killed after k of n completes on a real server, and ``Dataset.recover`` afterwards."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import magicfs
from magicfs.errors import CommitDenied, CommitUnfinished
from magicfs.formats.success import SuccessData
from magicfs.formats.task_commit import TaskCommit
from magicfs.testing.fault_proxy import FaultProxy
from magicfs.testing.faults import Action, Rule
from proofs.doubles.servers import Server
from proofs.scenes.arranged import arranged

pytestmark = pytest.mark.sample(most=1)

DESTINATION = "wäre house/sales%201 +#"
TASKS = (
    {"p=0/a.bin": b"new 0", "p=1/a.bin": b"new 1"},
    {"p=0/b.bin": b"new 2"},
    {"p=1/c.bin": b"new 3"},
)
NEW = [b"new 0", b"new 1", b"new 2", b"new 3"]
OLD = {"p=0/old.bin": b"old 0", "p=2/old.bin": b"old 2"}
WHOLE = {"append": [*NEW, b"old 0", b"old 2"], "overwrite_partitions": [*NEW, b"old 2"]}

DYING_COMMIT = """
import os, pickle, sys
from magicfs.report import Progress

job, after, commits = pickle.load(sys.stdin.buffer)

def die(progress: Progress) -> None:
    if progress.files_done == after:
        os.kill(os.getpid(), 9)

job._progress = die
job.commit(commits)
"""


@dataclass
class Place:
    """A destination on a server, seen by plain botocore."""

    server: Server
    bucket: str

    @property
    def url(self) -> str:
        return f"s3://{self.bucket}/{DESTINATION}"

    def job(self, mode: Any, **options: Any) -> magicfs.Job:
        how = {"concurrency": 1, "storage_options": self.server.storage_options(), **options}
        return magicfs.Job(self.url, mode=mode, **arranged(**how)).setup()

    def wrote(self, job: magicfs.Job) -> list[TaskCommit]:
        commits = []
        for number, files in enumerate(TASKS):
            with magicfs.Task(job.spec, job.task(number).id) as task:
                for name, body in files.items():
                    task.filesystem.pipe_file(f"{task.path}/{name}", body)
            assert task.committed is not None
            commits.append(task.committed)
        return commits

    def published(self) -> magicfs.Job:
        job = self.job("append")
        with job.task(0) as task:
            for name, body in OLD.items():
                task.filesystem.pipe_file(f"{task.path}/{name}", body)
        job.commit(job.commits)
        return job

    def killed(self, job: magicfs.Job, commits: list[TaskCommit], completes: int) -> None:
        """The commit in a process of its own, which is killed after so many completes."""
        secrets = {
            "AWS_ACCESS_KEY_ID": self.server.access_key,
            "AWS_SECRET_ACCESS_KEY": self.server.secret_key,
        }
        ended = subprocess.run(
            [sys.executable, "-c", DYING_COMMIT],
            input=pickle.dumps((job, completes, commits)),
            check=False,
            env={**os.environ, **secrets},
        )
        assert ended.returncode == -9
        assert len(set(self.bodies()) & set(NEW)) == completes

    def recover(self, **how: Any) -> Any:
        return magicfs.Dataset(self.url, storage_options=self.server.storage_options()).recover(**how)

    def read(self, key: str) -> bytes:
        body: bytes = self.server.s3_client().get_object(Bucket=self.bucket, Key=key)["Body"].read()
        return body

    def bodies(self) -> list[bytes]:
        return sorted(self.read(key) for key in self.server.visible_keys(self.bucket, f"{DESTINATION}/"))

    def success(self) -> str | None:
        key = f"{DESTINATION}/_SUCCESS"
        if key not in self.server.all_keys(self.bucket):
            return None
        return SuccessData.from_bytes(key, self.read(key)).job_id

    def everything(self) -> Any:
        listed = self.server.s3_client().list_objects_v2(Bucket=self.bucket).get("Contents", [])
        uploads = [(u["Key"], u["UploadId"]) for u in self.server.pending_uploads(self.bucket)]
        return [(one["Key"], one["ETag"]) for one in listed], uploads

    def assert_clean(self) -> None:
        assert [key for key in self.server.all_keys(self.bucket) if "/__magic" in key] == []
        assert self.server.pending_uploads(self.bucket) == []


@pytest.fixture
def place(ministack: Server, bucket_factory: Callable[..., str]) -> Place:
    return Place(ministack, bucket_factory(ministack, "recover"))


# tests/unit/test_recover.py has every mode, cut after any number of files.
@pytest.mark.parametrize(("mode", "completes"), [("append", 1), ("overwrite_partitions", 4)])
def test_recover_makes_the_dataset_whole(place: Place, mode: str, completes: int) -> None:
    place.published()
    job = place.job(mode)
    place.killed(job, place.wrote(job), completes)
    assert place.success() is None, "readers that wait for it wait"
    (recovered,) = place.recover().jobs
    assert (recovered.job_id, recovered.found, recovered.action) == (job.id, "committing", "finished")
    assert recovered.warnings == ()
    assert place.bodies() == WHOLE[mode]
    assert place.success() == job.id
    place.assert_clean()
    assert place.recover().jobs == ()


@pytest.mark.parametrize(("mode", "completes"), [("overwrite", 4), ("overwrite_partitions", 1)])
def test_rollback_restores_the_old_state(place: Place, mode: str, completes: int) -> None:
    old = place.published().id
    before = place.everything()
    job = place.job(mode)
    place.killed(job, place.wrote(job), completes)
    (recovered,) = place.recover(rollback=True).jobs
    assert (recovered.found, recovered.action, recovered.warnings) == ("committing", "reverted", ())
    assert place.bodies() == sorted(OLD.values())
    assert place.success() == old
    place.assert_clean()
    # But for _SUCCESS, which has another ETag, so that a late delete of the old one misses.
    assert [one for one in place.everything()[0] if not one[0].endswith("/_SUCCESS")] == [
        one for one in before[0] if not one[0].endswith("/_SUCCESS")
    ]


def test_rollback_of_a_completed_job_refuses_and_touches_nothing(place: Place) -> None:
    place.published()
    with FaultProxy(place.server.endpoint) as proxy:
        options = place.server.storage_options() | {"endpoint_url": proxy.endpoint}
        retries = {"config_kwargs": {"retries": {"total_max_attempts": 1}}}
        job = place.job("overwrite_partitions", storage_options={**options, **retries})
        commits = place.wrote(job)
        # Nothing is done any more once the manifest cannot be written.
        proxy.add(
            Rule("PutObject", Action.ERROR, match=rf"_magicfs/{job.id}", status=403, code="AccessDenied")
        )
        with pytest.raises(CommitUnfinished, match="the files are published but the job could not be fini"):
            job.commit(commits)
    before = place.everything()
    for how in ({"rollback": True}, {"abort": True}):
        with pytest.raises(CommitDenied, match="is completed and stays so: every file of it is visible"):
            place.recover(**how)
    assert place.everything() == before
    (recovered,) = place.recover().jobs
    assert (recovered.found, recovered.action) == ("completed", "finished")
    assert place.bodies() == WHOLE["overwrite_partitions"]
    place.assert_clean()
