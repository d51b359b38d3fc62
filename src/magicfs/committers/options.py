"""The options of each committer, checked when the job is made."""

from __future__ import annotations

import getpass
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from importlib.util import find_spec
from typing import Any, Literal

from magicfs.errors import UsageError
from magicfs.stores import resolve

__all__ = [
    "CommitterOptions",
    "FileOptions",
    "ManifestOptions",
    "NoOptions",
    "StagingOptions",
    "options_from",
]

_NAME = re.compile(r"[\w@-][\w.@-]*")


def _user() -> str:
    try:
        found = getpass.getuser()
    except (KeyError, OSError, ImportError):  # a container's user without a name
        found = f"uid-{os.getuid()}" if hasattr(os, "getuid") else "user"
    return re.sub(r"[^\w.@-]", "_", found).lstrip(".") or "user"


@dataclass(frozen=True, kw_only=True)
class CommitterOptions:
    """The options of any committer: each has a dataclass of its own, with defaults."""


@dataclass(frozen=True, kw_only=True)
class NoOptions(CommitterOptions):
    """The options of a committer that has none."""


@dataclass(frozen=True, kw_only=True)
class StagingOptions(CommitterOptions):
    """Options of the staging committers, ``directory`` and ``partitioned``.

    Attributes:
        work_directory: A local directory, on every machine that runs tasks, in which attempts write
            (``fs.s3a.buffer.dir``); by default ``magicfs-<uid>`` in the system's directory for temporary
            files, which is this user's alone.
        cluster_directory: fsspec URL of a directory that every process of the job can reach, through which
            committed tasks hand their pending sets to the job (``fs.s3a.committer.staging.tmp.path``); by
            default they go to the destination's store.
        cluster_storage_options: Options of that filesystem, as for fsspec.
        cluster_user: What the directory of one user's jobs there is called; by default after the one who
            makes the job.
        hidden_files: Whether files whose names begin with ``_`` or a dot are left out, with a warning, as by
            Hadoop's committers (``"skip"``), or published as all others (``"data"``).
    """

    work_directory: str | None = None
    cluster_directory: str | None = None
    cluster_storage_options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    # Found out once: a task's process may belong to another user, and must find the same directory.
    cluster_user: str = field(default_factory=_user)
    hidden_files: Literal["skip", "data"] = "skip"

    def __post_init__(self) -> None:
        if find_spec("fcntl") is None:
            raise UsageError(
                "the committers 'directory' and 'partitioned' lock local directories, which this system "
                "cannot do (Python has no module fcntl here); use committer='magic', or run the job on Linux "
                "or macOS; nothing was changed"
            )
        if self.hidden_files not in ("skip", "data"):
            raise UsageError(f"hidden_files={self.hidden_files!r} is unknown; choose one of skip, data")
        if self.work_directory is not None and not self.work_directory.startswith("/"):
            raise UsageError(
                f"work_directory={self.work_directory!r} is no absolute path of a local directory; "
                "give one that is the same in every process of the job"
            )
        if not _NAME.fullmatch(self.cluster_user):
            raise UsageError(
                f"cluster_user={self.cluster_user!r} is no name of a directory; use letters, digits, '.', "
                "'_', '@' and '-', not beginning with '.'"
            )

    def __getstate__(self) -> dict[str, Any]:
        # No pickle carries a secret: other processes find theirs in their environment.
        plain = resolve.without_secrets(self.cluster_storage_options)
        return {**self.__dict__, "cluster_storage_options": plain}


@dataclass(frozen=True, kw_only=True)
class FileOptions(CommitterOptions):
    """Options of the file committer.

    Attributes:
        algorithm: ``mapreduce.fileoutputcommitter.algorithm.version``. 1 moves a task's files to the
            destination when the job commits; others are registered as ``file.<algorithm>``.
        delete_obstacles: Delete what is in the place of the job's files and directories, a directory with all
            that is in it, as Hadoop does. By default such a commit is refused before anything is changed.
    """

    algorithm: int = 1
    delete_obstacles: bool = False


@dataclass(frozen=True, kw_only=True)
class ManifestOptions(CommitterOptions):
    """Options of the manifest committer, ``mapreduce.manifest.committer.*``.

    Attributes:
        validate_output: Once all files are renamed, and before ``_SUCCESS``, look at every one and compare
            its size and ETag.
        delete_target_files: Let ``conflict="append"`` write over files of equal names.
        cleanup_parallel_delete: Hadoop's name, without effect: the directories of task attempts are always
            deleted in parallel before the job's.
        cleanup_parallel_delete_base_first: Hadoop's name, without effect.
        cleanup_skipped: Leave the work where it is.
        cleanup_failures_ignored: Let a job end whose work could not be removed. By default it stays, with a
            warning in its report, until ``magicfs recover`` has removed the work.
        summary_report_directory: fsspec URL or key below the destination's bucket where a report of every
            job, failed ones included, is kept; empty for none.
        diagnostics_manifest_directory: Directory of the same store, as URL or key, to which the manifests
            are moved before the cleanup; empty for none.
        save_attempts: How often saving a task's manifest is tried, at least 1.
        writer_queue_capacity: Hadoop's name, without effect, at least 1.
        renames_per_second: Most renames a second; 0 for no limit (``fs.azure.io.rate.limit``).
        delete_obstacles: Delete a file that is in the place of one of the job's files or directories, as
            Hadoop does. By default such a job is refused before anything is changed, unless its conflict mode
            replaces.
    """

    validate_output: bool = False
    delete_target_files: bool = False
    cleanup_parallel_delete: bool = True
    cleanup_parallel_delete_base_first: bool = False
    cleanup_skipped: bool = False
    cleanup_failures_ignored: bool = False
    summary_report_directory: str = ""
    diagnostics_manifest_directory: str = ""
    save_attempts: int = 5
    writer_queue_capacity: int = 32
    renames_per_second: int = 0
    delete_obstacles: bool = False

    def __post_init__(self) -> None:
        for name in ("writer_queue_capacity", "save_attempts"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name}={getattr(self, name)} must be at least 1")
        if self.renames_per_second < 0:
            raise UsageError(f"renames_per_second={self.renames_per_second} must not be negative")


def options_from(kind: type[CommitterOptions], committer: str, given: Mapping[str, Any]) -> CommitterOptions:
    """The options of a committer from those that a caller named.

    Raises:
        UsageError: An unknown name, with the known ones; or a value that cannot be right.
    """
    known = [one.name for one in fields(kind)]
    if unknown := sorted(set(given) - set(known)):
        choices = f"it knows {', '.join(known)}" if known else "it has none"
        if unknown == ["target_directories"]:
            choices = "use conflict='fail', 'replace' or 'replace_partitions' in its place"
        raise UsageError(f"committer_options {', '.join(unknown)} of {committer!r} are unknown; {choices}")
    return kind(**given)
