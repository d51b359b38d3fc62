"""What a job of Hadoop's staging committers leaves when its driver dies before the job commit."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from magicfs.formats.pending import EtagFormat, Pending
from magicfs.formats.pendingset import PendingSet
from magicfs.formats.plain_pending import UploadedPart
from proofs.scenes.hadoop_jobs import UploadingBucket

__all__ = ["HadoopStagedJob"]


@dataclass
class HadoopStagedJob:
    """Two tasks of two files each, committed; their sets lie in a directory of this machine.

    Attributes:
        bucket: Where its destination lies.
        destination: The destination.
        cluster: Directory that stands for the cluster's.
        user: Whose job it is.
        attempt: Number of the job attempt.
        etag_format: Which generation of Hadoop wrote the sets.
        id: The job's id.
        files: What it will publish.
    """

    bucket: UploadingBucket
    destination: str
    cluster: Path
    user: str = "etl"
    attempt: int = 0
    etag_format: EtagFormat = "object"
    id: str = field(default_factory=lambda: str(uuid4()))
    files: dict[str, bytes] = field(default_factory=dict)
    uploads: dict[str, tuple[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.work.mkdir(parents=True)
        for task in range(2):
            commits = [self._pending(number) for number in range(2 * task, 2 * task + 2)]
            one = PendingSet(job_id="", commits=tuple(commits))
            name = f"task_202601010000_0001_m_{task:06d}"
            (self.work / name).write_bytes(one.to_bytes(self.etag_format))
            (self.work / f".{name}.crc").write_bytes(b"crc")

    @property
    def work(self) -> Path:
        """The directory of its job attempt."""
        return self.cluster / self.user / self.id / "staging-uploads" / "_temporary" / str(self.attempt)

    def complete(self, files: int) -> None:
        """Publish the first files, as its driver does before it dies."""
        for key in list(self.files)[:files]:
            self.bucket.complete(key, *self.uploads[key])

    def _pending(self, number: int) -> Pending:
        below = f"día={number}/" if number else ""
        # As Spark calls its files: the job's id is not where unique names of ours have it.
        key = f"{self.destination}/{below}part-{number:05d}-{self.id}-c000.snappy.parquet"
        body = b"%d" % number * 5
        upload_id, etag = self.bucket.upload(key, body)
        self.files[key], self.uploads[key] = body, (upload_id, etag)
        return Pending(
            upload_id=upload_id,
            bucket=self.bucket.name,
            destination_key=key,
            parts=(UploadedPart(etag),),
            length=len(body),
            uri=f"s3a://{self.bucket.name}/{key}",
            created_ms=1_700_000_000_000,
            saved_ms=1_700_000_000_000,
            text=f"partition: {below.rstrip('/')}" if below else "",
        )
