"""What a job of Hadoop's manifest committer leaves when its driver dies before, or in, the job commit."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from magicfs.formats.hadoop_uri import encode
from magicfs.formats.task_manifest import DirectoryEntry, FileEntry, TaskManifest

__all__ = ["HadoopManifestJob"]


@dataclass
class HadoopManifestJob:
    """Two tasks of two files each, committed, on files of this machine.

    Attributes:
        destination: The destination, which is made.
        attempt: Number of the job attempt.
        id: The job's id.
        files: What it will publish, by names below the destination.
    """

    destination: Path
    attempt: int = 0
    id: str = field(default_factory=lambda: str(uuid4()))
    files: dict[str, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for task in range(2):
            self._commit(task)

    @property
    def work(self) -> Path:
        """The directory of its job attempt."""
        return self.destination / "_temporary" / self.id / f"{self.attempt:02d}"

    def manifest(self, task: int) -> Path:
        """A task's manifest."""
        return self.work / "manifests" / f"task_202601010000_0001_m_{task:06d}-manifest.json"

    def source(self, name: str) -> Path:
        """Where a file lies until it is renamed."""
        number = int(name.rpartition("part-")[2][:5])
        return self.work / "tasks" / f"attempt_202601010000_0001_m_{number // 2:06d}_0" / name

    def rename(self, files: int) -> None:
        """Publish the first files, as its driver does before it dies."""
        for name in list(self.files)[:files]:
            (self.destination / name).parent.mkdir(parents=True, exist_ok=True)
            self.source(name).rename(self.destination / name)

    def _commit(self, task: int) -> None:
        names = [f"día={number}/part-{number:05d} 50%.parquet" for number in range(2 * task, 2 * task + 2)]
        for number, name in enumerate(names, 2 * task):
            self.files[name] = b"%d" % number * 5
            self.source(name).parent.mkdir(parents=True, exist_ok=True)
            self.source(name).write_bytes(self.files[name])
        manifest = TaskManifest(
            job_id=self.id,
            job_attempt=self.attempt,
            task_id=f"task_202601010000_0001_m_{task:06d}",
            attempt_id=f"attempt_202601010000_0001_m_{task:06d}_0",
            attempt_directory=_uri(self.source(names[0]).parent.parent),
            files=tuple(
                FileEntry(_uri(self.source(name)), _uri(self.destination / name), len(self.files[name]))
                for name in names
            ),
            directories=tuple(DirectoryEntry(_uri((self.destination / name).parent), 1, 1) for name in names),
        )
        self.manifest(task).parent.mkdir(parents=True, exist_ok=True)
        self.manifest(task).write_bytes(manifest.to_bytes())


def _uri(path: Path) -> str:
    """As Hadoop writes the path of a local file."""
    return encode(f"file:{path}")
