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

    def task_of(self, name: str) -> TaskId | None:
        """The task whose manifest has this name: ours are named after attempts, Hadoop's after tasks. None
        for a file of another kind. Raises UsageError if it is named like a manifest, but after neither.
        """
        if "/" in name or not name.endswith(TASK_MANIFEST_SUFFIX):
            return None
        stem = name.removesuffix(TASK_MANIFEST_SUFFIX)
        return ids.task_of_attempt(stem) if ids.is_attempt_of_ours(stem) else ids.task_id(stem)

    def temporary_manifest(self, attempt: AttemptId) -> str:
        """Where an attempt writes its manifest before it renames it.

        Beside the manifests' directory, not in it: a write would bring that back once the job has ended.
        """
        return f"{self.layout.attempt_directory()}/{attempt}{TASK_MANIFEST_SUFFIX}.tmp"

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
