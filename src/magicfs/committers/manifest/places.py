"""Where the files of a job are: keys, their URIs in manifests, and which of them a manifest may name."""

from __future__ import annotations

from dataclasses import dataclass

from magicfs.errors import UsageError
from magicfs.formats.hadoop_uri import decode, encode
from magicfs.formats.task_manifest import TASK_MANIFEST_SUFFIX
from magicfs.protocol import ids, paths
from magicfs.protocol.conflict import is_reserved
from magicfs.protocol.ids import AttemptId, TaskId
from magicfs.protocol.temporary import TemporaryLayout

__all__ = ["Places"]


@dataclass(frozen=True, slots=True)
class Places:
    """The keys of one job attempt, and their URIs."""

    scheme: str
    bucket: str
    layout: TemporaryLayout

    @property
    def destination(self) -> str:
        """The destination directory."""
        return self.layout.destination

    @property
    def attempt_directory(self) -> str:
        """The job attempt's directory."""
        return self.layout.attempt_directory()

    @property
    def open_manifests(self) -> str:
        """Where tasks commit their manifests. The job commit removes it and so stops them: see ``setup``."""
        return self.layout.manifests_directory

    @property
    def claimed_manifests(self) -> str:
        """The same directory while the job is being committed."""
        return f"{self.open_manifests}-committing"

    @property
    def published_manifests(self) -> str:
        """The same directory once the job is published."""
        return f"{self.open_manifests}-published"

    def superseded_manifests(self, number: int) -> str:
        """The same directory of an earlier job attempt, once a later one has been set up."""
        return f"{self.layout.attempt_directory(number)}/manifests-superseded"

    def manifest_name(self, task: TaskId) -> str:
        """Name of a task's manifest in any of these."""
        return f"{task}{TASK_MANIFEST_SUFFIX}"

    def task_of(self, name: str) -> TaskId | None:
        """The task whose manifest has this name; None for a file of another kind. Raises UsageError if it is
        named like a manifest, but after no task.
        """
        if not name.endswith(TASK_MANIFEST_SUFFIX):
            return None
        return ids.task_id(name.removesuffix(TASK_MANIFEST_SUFFIX))

    def temporary_manifest(self, attempt: AttemptId) -> str:
        """Where an attempt writes its manifest before it renames it.

        Beside the manifests' directory, not in it: a write would bring that back once it is claimed.
        """
        return f"{self.attempt_directory}/{attempt}{TASK_MANIFEST_SUFFIX}.tmp"

    def uri(self, key: str) -> str:
        """What a manifest calls a key."""
        return encode(paths.Location(self.scheme, self.bucket, key).url)

    def key(self, uri: str) -> str:
        """The key that a manifest means. Hadoop writes ``file:/tmp/x`` for ``file:///tmp/x``. Raises
        UsageError for another store or bucket, or an element that is empty, ``.`` or ``..``.
        """
        text, short = decode(uri), f"{self.scheme}:/"
        if text.startswith(short) and not text.startswith(f"{short}/"):
            text = f"{self.scheme}://{text[len(short) - 1 :]}"
        prefix = f"{self.scheme}://{self.bucket}/"
        key = text[len(prefix) :].rstrip("/")
        if not text.startswith(prefix) or not key:
            raise UsageError(f"{text!r} does not lie in {prefix}; find out who wrote the manifest")
        elements = f"/{key}/"
        if "//" in elements or "/./" in elements or "/../" in elements:
            raise UsageError(f"{text!r} is a malformed path; find out who wrote the manifest")
        return key

    def destination_key(self, uri: str) -> str:
        """The key of a file or directory that the job may put there. Raises UsageError if it lies outside the
        destination, or where committers keep their work.
        """
        key = self.key(uri)
        if not paths.is_under(key, self.destination) or is_reserved(paths.relative_to(key, self.destination)):
            raise UsageError(f"{key!r} is no place for data of {self.destination!r}; write below it")
        return key
