"""What a job of Hadoop's S3A magic committer leaves when its driver dies before the job commit."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Protocol
from uuid import uuid4

from magicfs.formats.pending import EtagFormat, Pending
from magicfs.formats.pendingset import PendingSet
from magicfs.formats.plain_pending import UploadedPart

__all__ = ["HadoopJob", "UploadingBucket"]


class UploadingBucket(Protocol):
    """A bucket that such a job can be put into.

    Attributes:
        name: The bucket.
    """

    name: str

    def put(self, key: str, body: bytes = b"") -> None:
        """Write an object."""

    def upload(self, key: str, body: bytes) -> tuple[str, str]:
        """Begin an upload of one part; returns its id and the part's ETag."""

    def complete(self, key: str, upload_id: str, etag: str) -> None:
        """Complete it."""


@dataclass
class HadoopJob:
    """Two tasks of two files each, committed; as Hadoop 3.4 and later, or with ``__magic`` as 3.3.

    Attributes:
        bucket: Where it lies.
        destination: Its destination.
        layout: Which directory layout.
        attempt: Number of the job attempt.
        etag_format: Which generation of Hadoop wrote the files.
        id: The job's id.
        files: What it will publish.
    """

    bucket: UploadingBucket
    destination: str
    layout: str = "__magic_job"
    attempt: int = 0
    etag_format: EtagFormat = "object"
    id: str = field(default_factory=lambda: str(uuid4()))
    files: dict[str, bytes] = field(default_factory=dict)
    _uploads: dict[str, tuple[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        work = f"{self.work}/"
        if self.layout == "__magic_job":
            self.bucket.put(f"{self.destination}/__magic_job-{self.id}/")
        self.bucket.put(work)
        for task in range(2):
            name = f"202601010000_0001_m_{task:06d}"
            commits = [
                self._pending(f"{work}tasks/attempt_{name}_0/__base/", f"attempt_{name}_0", number)
                for number in range(2 * task, 2 * task + 2)
            ]
            one = PendingSet(job_id=self.id, commits=tuple(commits))
            self.bucket.put(f"{work}task_{name}.pendingset", one.to_bytes(self.etag_format))

    @property
    def work(self) -> str:
        """Key of the directory of its job attempt."""
        element = f"__magic_job-{self.id}" if self.layout == "__magic_job" else "__magic"
        return f"{self.destination}/{element}/job-{self.id}/{self.attempt:02d}"

    def leave(self, task: int, number: int, job_id: str | None = None) -> None:
        """Let another attempt of a task write a file and not commit.

        ``job_id``: whose the record says that it is; by default this job's.
        """
        attempt = f"attempt_202601010000_0001_m_{task:06d}_1"
        base = f"{self.work}/tasks/{attempt}/__base/"
        one = replace(self._pending(base, attempt, number), job_id=self.id if job_id is None else job_id)
        del self.files[one.destination_key]
        marker = f"{base}{one.destination_key.removeprefix(f'{self.destination}/')}"
        self.bucket.put(marker)
        self.bucket.put(f"{marker}.pending", one.to_bytes(self.etag_format))

    def complete(self, files: int) -> None:
        """Publish the first files, as its driver does before it dies."""
        for key in list(self.files)[:files]:
            self.bucket.complete(key, *self._uploads[key])

    def _pending(self, base: str, attempt: str, number: int) -> Pending:
        relative = f"día={number}/part-{number:05d}.c000.snappy.parquet"
        key, body = f"{self.destination}/{relative}", b"%d" % number * 5
        upload_id, etag = self.bucket.upload(key, body)
        self.files[key], self._uploads[key] = body, (upload_id, etag)
        return Pending(
            upload_id=upload_id,
            bucket=self.bucket.name,
            destination_key=key,
            parts=(UploadedPart(etag),),
            length=len(body),
            uri=f"s3a://{self.bucket.name}/{base}{relative}",
            created_ms=1_700_000_000_000,
            saved_ms=1_700_000_000_000,
            job_id=self.id,
            task_id=attempt,
        )
