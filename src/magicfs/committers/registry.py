"""Every committer by name: what is known of it before it is made, and making it.

The core has five; others are registered by entry points (``docs/adding-a-committer.md``). None is imported
before it is made.
"""

from __future__ import annotations

import getpass
import os
import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib import import_module
from importlib.util import find_spec
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from magicfs.errors import UsageError
from magicfs.protocol import ids
from magicfs.protocol.modes import WRITE_MODES, WriteMode
from magicfs.protocol.temporary import RENAMING
from magicfs.runtime import registered
from magicfs.stores import resolve

if TYPE_CHECKING:
    from magicfs.committers.base import Committer
    from magicfs.committers.work_places import MakesPlace
    from magicfs.engine import Engine
    from magicfs.stores.port import Store
    from magicfs.transaction.context import JobContext

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
                "does not support (Python has no module fcntl here); use committer='magic', or run the job "
                "on Linux or macOS; nothing was changed"
            )
        if self.hidden_files not in ("skip", "data"):
            raise UsageError(f"hidden_files={self.hidden_files!r} is unknown; choose one of skip, data")
        if self.work_directory is not None and not self.work_directory.startswith("/"):
            raise UsageError(
                f"work_directory={self.work_directory!r} is not the absolute path of a local directory; "
                "give one that is the same in every process of the job"
            )
        if not _NAME.fullmatch(self.cluster_user):
            raise UsageError(
                f"cluster_user={self.cluster_user!r} is not a valid directory name; use letters, digits, "
                "'.', '_', '@' and '-', not beginning with '.'"
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
        delete_target_files: Let ``mode="append"`` write over files of equal names.
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
            Hadoop does. By default such a job is refused before anything is changed, unless its mode
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


GROUP: Final = "magicfs.committers"
"""The group of entry points."""

# Uploads through ``MagicFileSystem``; files on the task's machine; below ``_temporary``; at the destination.
Writes = Literal["delayed uploads", "local files", "work files", "final files"]
# Multipart uploads that another process can complete; a rename that is one step.
Needs = Literal["uploads", "rename", "nothing"]


@dataclass(frozen=True, slots=True)
class CommitterInfo:
    """A committer from outside."""

    home: str  # module, and class or function that makes one of a ``JobContext`` and an ``Engine``
    writes: Writes  # what task attempts write
    needs: Needs  # what the store must have
    modes: tuple[WriteMode, ...] = WRITE_MODES
    options: type[CommitterOptions] = NoOptions
    driven: bool = False  # whether it works under a job object
    place: str = ""
    """Of final files: module, and function that makes the place of an attempt, a ``MakesPlace``."""
    variants: str = ""
    """The option whose values, other than the default, choose committers registered as ``<name>.<value>``."""
    refusal: str = ""
    """What users read who ask for another mode, ``{mode}``; by default which modes it has."""


_DIRECTORY: Final = CommitterInfo(
    home="magicfs.committers.staging.committer:DirectoryCommitter",
    writes="local files",
    needs="uploads",
    modes=("error", "append", "overwrite"),
    options=StagingOptions,
    driven=True,
)
CORE: Final[Mapping[str, CommitterInfo]] = MappingProxyType(
    {
        "magic": CommitterInfo(
            "magicfs.committers.magic:MagicCommitter", "delayed uploads", "uploads", driven=True
        ),
        "directory": _DIRECTORY,
        "partitioned": replace(
            _DIRECTORY,
            home="magicfs.committers.staging.committer:PartitionedCommitter",
            modes=("error", "append", "overwrite_partitions"),
        ),
        "manifest": CommitterInfo(
            home="magicfs.committers.renaming.manifest:ManifestCommitter",
            writes="work files",
            needs="rename",
            options=ManifestOptions,
            driven=True,
        ),
        "file": CommitterInfo(
            home="magicfs.committers.renaming.file:FileCommitter",
            writes="work files",
            needs="nothing",
            options=FileOptions,
            driven=True,
            variants="algorithm",
        ),
    }
)
"""The committers of the core by name, as Hadoop spells it where it has the committer."""


def committers() -> dict[str, CommitterInfo]:
    """Every committer that can be used here by name, those of the core first."""
    found = dict(CORE)
    for name in registered.names(GROUP):
        if "." not in name:
            with suppress(UsageError):  # one that cannot be loaded is none
                found[name] = _registered(name)
    return found


def committer_info(name: str, options: object = None) -> CommitterInfo:
    """What is known of a committer, or of the one that its options choose.

    Raises UsageError, with the choices, for an unknown name or an option that chooses none; and for one
    that is registered and cannot be loaded.
    """
    info = CORE.get(name)
    return _registered(_chosen(name, options)) if info is None or info.variants else info


def _chosen(name: str, options: object) -> str:
    """The name under which a committer with these options is registered, such as ``file.2``."""
    if "." in str(name):
        raise _unknown(name)
    info = _registered(name)
    if not info.variants or not isinstance(options, info.options):
        return name
    own, value = (getattr(one, info.variants) for one in (info.options(), options))
    if value == own:
        return name
    start = f"{name}."
    others = [one.removeprefix(start) for one in registered.names(GROUP) if one.startswith(start)]
    if type(value) is not type(own) or str(value) not in others:
        raise UsageError(f"{info.variants}={value!r} is unknown; choose {' or '.join([str(own), *others])}")
    return f"{name}.{value}"


def _registered(name: str) -> CommitterInfo:
    if (info := CORE.get(name)) is not None:
        return info
    if name not in registered.names(GROUP):
        raise _unknown(name)
    found = registered.load(GROUP, name)
    if not isinstance(found, CommitterInfo):
        raise registered.unusable(GROUP, name, f"it is a {type(found).__name__}, no CommitterInfo")
    if problem := _problem(name, found):
        raise registered.unusable(GROUP, name, problem)
    return found


def _problem(name: str, info: CommitterInfo) -> str:
    if info.driven and not ids.is_job_id(name):  # job objects are read strictly
        return "the name of a committer under a job object is one word"
    if info.driven and info.writes == "work files" and name.partition(".")[0] not in RENAMING:
        return "only file, manifest and their variants rename under a job object: recoveries know these"
    if info.writes == "final files" and not info.place:
        return "it writes final files and names no place for them"
    return ""


def _unknown(name: str) -> UsageError:
    return UsageError(
        f"committer={name!r} is unknown; choose one of {', '.join(committers())}; others come with packages "
        f"that register entry points of {GROUP!r}: install the package that has it"
    )


_LACKS = {
    "uploads": "has no multipart uploads that one process could open and another complete",
    "rename": (
        "renames by copying every byte and deleting one file after the other, so a job commit would be "
        "slow and could stop half-way"
    ),
    "folders": (
        "renames in one step only where the bucket has a hierarchical namespace; this one has none, or "
        "these credentials cannot see it; nothing was changed. Such renames are what"
    ),
}
_PREFERRED = ("magic", "manifest", "file")


def check_store(name: str, store: Store) -> None:
    """Raise UsageError, with the possible ones, for a committer that the store cannot carry."""
    needs = committer_info(name).needs
    if needs != "nothing" and not _has(store, needs):
        raise _refusal(name, store, f"{_LACKS[needs]}, which", ("uploads", "rename"))


def without_folders(name: str, store: Store) -> UsageError:
    """The same of a committer that needs rename, for a bucket that has turned out to have no folders."""
    return _refusal(name, store, _LACKS["folders"], ("uploads",))


def _refusal(name: str, store: Store, lacks: str, offered: Collection[str]) -> UsageError:
    able = [
        one
        for one, traits in committers().items()
        if traits.needs == "nothing" or (traits.needs in offered and _has(store, traits.needs))
    ]
    return UsageError(
        f"the store {store.name!r} {lacks} committer={name!r} needs; use committer={best_for(store)[0]!r}; "
        f"also possible are {', '.join(able)}"
    )


def best_for(store: Store) -> tuple[str, str]:
    """The committer to choose for a store, and why, in a sentence."""
    first = ("manifest",) if store.capabilities.prefers_rename else ()
    for name in (*first, *_PREFERRED):
        needs = committer_info(name).needs
        if needs == "nothing" or _has(store, needs):
            return name, _WHY[name].format(store=store.name)
    raise AssertionError("the last of the preferred committers needs nothing")


_WHY = {
    "magic": "{store} can delay uploads: nothing is copied or renamed, and an interrupted job commit can be "
    "finished",
    "manifest": "{store} renames in one step: each file is moved once, when the job commits",
    "file": "{store} can neither delay uploads nor rename in one step: files are copied when the job commits",
}


def _has(store: Store, needs: str) -> bool:
    capabilities = store.capabilities
    # Of a store whose buckets differ the committer asks when it is set up.
    return capabilities.uploads.delayed if needs == "uploads" else capabilities.rename != "copy"


def make(name: str, context: JobContext, engine: Engine) -> Committer:
    """The committer of a name for one job. Raises UsageError as ``committer_info`` and ``check_store`` do."""
    info = committer_info(name, context.committer_options)
    check_store(name, engine.store)
    kind = cast("type[Committer]", _at_home(info.home, name, context.committer_options))
    return kind(context, engine)


def maker_of_places(name: str) -> MakesPlace:
    """What makes the places where attempts of a committer with final files write."""
    return cast("MakesPlace", _at_home(committer_info(name).place, name))


def _at_home(home: str, name: str, options: object = None) -> object:
    """What a committer has in some module. Raises UsageError, which names the distribution, without it."""
    module, _, what = home.partition(":")
    try:
        return cast("object", getattr(import_module(module), what))
    except Exception as error:
        if (chosen := _chosen(name, options)) in CORE:
            raise
        raise registered.unusable(GROUP, chosen, f"{type(error).__name__}: {error}") from error
