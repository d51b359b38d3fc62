"""How the task attempts of a committer write, and what can be seen of them before their job commits."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Final

import fsspec

from magicfs.committers.staging import attempts as local_attempts
from magicfs.formats.task_manifest import TASK_MANIFEST_SUFFIX
from magicfs.job.task import Task
from magicfs.protocol.magic import PENDING_SET
from magicfs.protocol.paths import prefix_of
from proofs.committer_exam.bench import Bench
from proofs.scenes import staged_scene

__all__ = ["DelayedUploads", "LocalFiles", "Place", "WorkFiles", "place_of"]

Modes = Mapping[str, Mapping[str, Any]]

_CLUSTER: Final = "memory://magicfs-committer-exam"


class Place:
    """Where attempts write, by way of ``task.filesystem``: every committer has one.

    Attributes:
        modes: In which ways the committer keeps its work, as options of a job.
        bulk: Those modes in which jobs of many files run; the last one makes the fewest requests.
        is_uploaded_at_once: Whether a file is an upload once it is written; else once its task commits.
        makes_uploads: Whether files are uploads at all until their job commits.
        leaves_hidden_out: Whether files of hidden names are left out.
    """

    modes: ClassVar[Modes] = MappingProxyType({})
    bulk: ClassVar[tuple[str, ...]] = ()
    is_uploaded_at_once: ClassVar[bool] = True
    makes_uploads: ClassVar[bool] = True
    leaves_hidden_out: ClassVar[bool] = False

    def options(self) -> dict[str, Any]:
        """Options of the committer that every job has."""
        return {}

    def write(self, task: Task, files: Mapping[str, bytes]) -> None:
        """Write files, many at once, below a task's path."""
        task.filesystem.pipe({f"{task.path}/{name}": content for name, content in files.items()})

    def open(self, task: Task, name: str) -> Any:
        """Open a file below a task's path for writing."""
        return task.filesystem.open(f"{task.path}/{name}", "wb")

    def discard(self, stream: Any) -> None:
        """End the writing of a file whose attempt is given up."""
        stream.abort()

    def die(self, task: Task) -> None:
        """Let the process of an attempt end without a word."""

    def attempts(self) -> list[str]:
        """What attempts have on this machine, sorted."""
        return []

    def leftovers(self) -> list[str]:
        """What dead attempts have left on this machine."""
        return []

    def in_cluster(self) -> list[str]:
        """What lies in the filesystem of the cluster, sorted."""
        return []

    def sets(self, bench: Bench, destination: str) -> list[str]:
        """Where committed tasks have left their pending sets, sorted."""
        keys = bench.listed(f"{prefix_of(destination)}__magic")
        return [key for key in keys if key.endswith(PENDING_SET)]

    def read_set(self, bench: Bench, key: str) -> bytes:
        """A pending set."""
        return bench.read(key)

    def write_set(self, bench: Bench, key: str, raw: bytes) -> None:
        """Write a pending set, as somebody else would."""
        bench.write(key, raw)

    def close(self) -> None:
        """Remove what is left outside of the store."""


class DelayedUploads(Place):
    """Attempts write delayed uploads, whose records lie in the store or in memory."""

    modes = MappingProxyType(
        {
            "store": {},
            "store-plain-names": {"unique_names": False},
            "store-old-layout": {"form": {"layout": "__magic"}},
            "memory": {"tracking": "memory"},
            "memory-small-files": {"tracking": "memory", "small_files": 64 * 1024},
        }
    )
    bulk = ("store", "memory")


class LocalFiles(Place):
    """Attempts write local files, as any program would, and commit them through the store or a cluster."""

    modes = MappingProxyType(
        {
            "store": {},
            "store-plain-names": {"unique_names": False},
            "cluster": {"committer_options": {"cluster_directory": _CLUSTER}},
            "cluster-old-layout": {
                "committer_options": {"cluster_directory": _CLUSTER},
                "form": {"layout": "__magic"},
            },
            "cluster-plain-names": {
                "committer_options": {"cluster_directory": _CLUSTER},
                "unique_names": False,
            },
        }
    )
    bulk = ("store",)
    is_uploaded_at_once = False
    leaves_hidden_out = True

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="magicfs-committer-exam-"))
        self._cluster = fsspec.filesystem("memory")

    def options(self) -> dict[str, Any]:
        return {"work_directory": str(self.directory)}

    def write(self, task: Task, files: Mapping[str, bytes]) -> None:
        staged_scene.write(task.path, files)

    def open(self, task: Task, name: str) -> Any:
        return Path(task.path, name).open("wb")

    def discard(self, stream: Any) -> None:
        stream.close()

    def die(self, task: Task) -> None:
        """As the kernel does, which lets go of the lock; nobody else removes anything."""
        os.close(self._locks().pop(task.path))

    def attempts(self) -> list[str]:
        """Directories and locks of attempts."""
        return sorted(path.name for path in self.directory.iterdir())

    def leftovers(self) -> list[str]:
        """Those of attempts that do not live."""
        alive = {Path(directory).name for directory in self._locks()}
        return [name for name in self.attempts() if name.removesuffix(".lock") not in alive]

    def in_cluster(self) -> list[str]:
        root = self._cluster._strip_protocol(_CLUSTER)  # noqa: SLF001 - fsspec has no other name for it
        return sorted(str(path).removeprefix(f"{root}/") for path in self._cluster.find(_CLUSTER))

    def sets(self, bench: Bench, destination: str) -> list[str]:
        # DIR/<user>/<job>/staging-uploads/_temporary/<N>/<task>, beside _temporary/<N>/_temporary of attempts
        committed = [key for key in self.in_cluster() if key.count("/_temporary/") == 1]
        return committed or super().sets(bench, destination)

    def read_set(self, bench: Bench, key: str) -> bytes:
        if not self._cluster.isfile(self._at(key)):
            return super().read_set(bench, key)
        raw: bytes = self._cluster.cat_file(self._at(key))
        return raw

    def write_set(self, bench: Bench, key: str, raw: bytes) -> None:
        if self._cluster.isfile(self._at(key)):
            self._cluster.pipe_file(self._at(key), raw)
        else:
            super().write_set(bench, key, raw)

    def close(self) -> None:
        for directory in [one for one in self._locks() if Path(one).parent == self.directory]:
            os.close(self._locks().pop(directory))
        shutil.rmtree(self.directory)
        if self._cluster.isdir(_CLUSTER):
            self._cluster.rm(_CLUSTER, recursive=True)

    def _locks(self) -> dict[str, int]:
        return local_attempts._locks  # noqa: SLF001 - what a process holds, only its death lets go

    def _at(self, key: str) -> str:
        return f"{_CLUSTER}/{key}"


class WorkFiles(Place):
    """Attempts write files below ``_temporary``, and commit them by manifests."""

    modes = MappingProxyType(
        {
            "store": {},
            "store-plain-names": {"unique_names": False},
        }
    )
    bulk = ("store",)
    is_uploaded_at_once = False
    makes_uploads = False

    def open(self, task: Task, name: str) -> Any:
        path = f"{task.path}/{name}"
        task.filesystem.makedirs(path.rpartition("/")[0], exist_ok=True)
        return task.filesystem.open(path, "wb")

    def discard(self, stream: Any) -> None:
        stream.close()

    def sets(self, bench: Bench, destination: str) -> list[str]:
        keys = bench.listed(f"{prefix_of(destination)}_temporary")
        return [key for key in keys if key.endswith(TASK_MANIFEST_SUFFIX)]


def place_of(writes: str) -> type[Place]:
    """The place of attempts that write so, as ``magicfs.committers.registry`` says it."""
    places: dict[str, type[Place]] = {
        "delayed uploads": DelayedUploads,
        "local files": LocalFiles,
        "work files": WorkFiles,
    }
    return places.get(writes, Place)
