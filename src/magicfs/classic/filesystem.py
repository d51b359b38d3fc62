"""A filesystem for tasks that write at the destination at once, under names of their own.

What a file is called there is in ``protocol.final_names``, how its bytes travel in ``final.writing``,
and who remembers it in ``final.tracking``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial
from typing import Any

from fsspec.implementations.local import LocalFileSystem
from fsspec.spec import AbstractFileSystem
from fsspec.utils import stringify_path

from magicfs.classic.tracking import Scope, Written, final_tracker
from magicfs.classic.writing import FinalFile, LocalTarget, StoreTarget, Target
from magicfs.committers.work_places import WorkPlace
from magicfs.errors import UsageError
from magicfs.filesystem import options, wrapped_files
from magicfs.protocol import paths
from magicfs.protocol.final_names import unique_name
from magicfs.protocol.ids import AttemptId, JobId, TaskId
from magicfs.stores import resolve
from magicfs.stores.object_settings import options_of
from magicfs.transaction.context import JobContext

_CHUNK = 8 * 2**20
# What s3fs takes for the end of a key.
_VERSION = "?versionId="


class FinalFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """What a task sees of its destination: nothing but what it writes there, visible to all at once.

    Paths are full ones below the destination, ``root`` (``bucket/key``). A file that is written gets
    ``suffix``, ``-<label>-<job>``, into its name; with None names stay, and do not show their task.
    Directories keep their names, and a hidden name stays hidden. In this process a file can be read,
    described and removed under the name that it was given, too; listings show final names. Other files can be
    read under their names, but are neither listed nor removed: a task that clears its directory first, as
    ``pyarrow.dataset.write_dataset`` can, must not clear the destination.

    A file is published when it is closed, whole: on object stores by the request that ends it, on local disks
    by renaming a hidden file. One whose own ``with`` body raises, in text mode and compressed, too, is
    discarded; so is one that is collected unclosed. Wrappers that only call ``close()`` (pandas, pyarrow)
    publish what they have written so far, though their source has failed: only ``abort`` removes that.

    ``fs`` is the filesystem of the store: sync, or async with a loop of its own.
    """

    protocol = "final"
    cachable = False

    def __init__(
        self, fs: AbstractFileSystem, root: str, suffix: tuple[str, str] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.fs = fs
        self.root: str = self._strip_protocol(root)
        self._suffix = suffix
        label, job = suffix or ("", "")
        store = resolve.open_store(fs, self.root.partition("/")[0])
        self._scope = Scope(store.identity, self.root, job, label)
        self._local = isinstance(fs, LocalFileSystem)

    def __reduce__(self) -> Any:
        given = options_of(self.fs)
        if not resolve.secrets_of(given):
            return super().__reduce__()
        return _rebuilt, (type(self), type(self.fs), resolve.without_secrets(given), self.root, self._suffix)

    def to_dict(self, *, include_password: bool = True) -> dict[str, Any]:  # noqa: ARG002
        """As fsspec's, without secrets, whatever is asked for."""
        return options.described(self)

    # -- names -----------------------------------------------------------------------------------------

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        text = stringify_path(path)
        scheme, separator, rest = text.partition("://")
        if separator and "/" not in scheme:
            text = rest
        return text.rstrip("/")

    def unstrip_protocol(self, name: str) -> str:
        """The URL of a path, such as ``s3://bucket/key``."""
        return str(self.fs.unstrip_protocol(self._strip_protocol(name)))

    def final_path(self, path: Any) -> str:
        """Where a file goes that is written to a path. Raises UsageError if that is no file below the
        destination, or one that cannot be written.
        """
        path = self._strip_protocol(path)
        elements = paths.elements(paths.relative_to(path, self.root))
        if any(element in {".", ".."} for element in elements):
            raise UsageError(f"{path!r} contains a '.' or '..' element; write the full path")
        if _VERSION in path:
            raise UsageError(f"{path!r} contains {_VERSION!r}, which s3fs cuts off; choose another name")
        if self._suffix is not None:
            label, job = self._suffix
            elements = unique_name(elements, label, JobId(job))
        final = "/".join((self.root, *elements))
        if not self._local:
            key = final.partition("/")[2]
            paths.check_length(key, "the final key", "shorten the name, or its directories")
        return final

    def _real(self, path: Any) -> str:
        """The path of a file that is to be read: a final one if it was written here."""
        return self._own(path) or str(self._strip_protocol(path))

    def _own(self, path: Any) -> str | None:
        """The final path of a file that was written here; None for any other."""
        with contextlib.suppress(UsageError):
            final = self.final_path(path)
            return final if final_tracker().wrote(self._scope, final) else None
        return None

    @property
    def written(self) -> Written:
        """What was written here, by final paths, until its task commits or aborts."""
        return final_tracker().snapshot(self._scope)

    # -- writing ---------------------------------------------------------------------------------------

    def open(self, path: Any, mode: str = "rb", **kwargs: Any) -> Any:
        """Open a file: ``r``, or to publish it ``w`` or ``x``, in text mode or binary."""
        if "r" in mode or ("b" in mode and kwargs.get("compression") is None):
            return super().open(path, mode, **kwargs)
        path = self._strip_protocol(path)
        others = {name: value for name, value in kwargs.items() if name not in wrapped_files.WRAPPING}
        return wrapped_files.open_wrapped(partial(super().open, path, **others), path, mode, kwargs)

    def _open(self, path: str, mode: str = "rb", autocommit: bool = True, **kwargs: Any) -> Any:
        if mode == "rb":
            return self.fs.open(self._real(path), mode, **kwargs)
        if mode not in {"wb", "xb"}:
            raise UsageError(f"{path}: mode {mode!r} would change a file that readers see; use 'wb'")
        final = self.final_path(path)
        target: Target
        if self._local:
            label, job = self._suffix or ("", "")
            target = LocalTarget(final, label, job, if_absent=mode == "xb")
        else:
            file = self.fs._open(final, mode=mode, autocommit=autocommit, **kwargs)  # noqa: SLF001
            target = StoreTarget(file, autocommit=autocommit)
        return FinalFile(target, final, self._scope, autocommit=autocommit)

    def touch(self, path: Any, truncate: bool = True, **kwargs: Any) -> None:
        """Publish an empty file; with ``truncate=False`` one that is there is given a new date, if it can."""
        if truncate or not self.exists(path):
            self.pipe_file(path, b"")
        else:
            self.fs.touch(self._real(path), truncate=False, **kwargs)

    def cp_file(self, path1: Any, path2: Any, **kwargs: Any) -> None:
        """Copy a file, on object stores without reading it; a directory is not copied."""
        if self.isdir(path1):
            return
        if not self._local:
            with self._recorded(path2) as final:
                self.fs.cp_file(self._real(path1), final, **kwargs)
            return
        with self.open(path1, "rb") as source, self.open(path2, "wb") as copy:
            while chunk := source.read(_CHUNK):
                copy.write(chunk)

    @contextlib.contextmanager
    def _recorded(self, path: Any) -> Iterator[str]:
        tracker, final = final_tracker(), self.final_path(path)
        ticket = tracker.opened(self._scope, final)
        try:
            yield final
        except FileNotFoundError:
            tracker.discarded(self._scope, ticket)
            raise
        except BaseException:
            tracker.discarded(self._scope, ticket)
            tracker.doubtful(self._scope, [final])
            raise
        tracker.finished(self._scope, ticket, final)

    # -- directories -----------------------------------------------------------------------------------

    def mkdir(self, path: Any, create_parents: bool = True, **kwargs: Any) -> None:
        """Make a local directory; on object stores they are only names, and a bucket is never created."""
        if self._local:
            self.fs.mkdir(self._strip_protocol(path), create_parents=create_parents, **kwargs)

    def makedirs(self, path: Any, exist_ok: bool = False) -> None:
        """As ``mkdir``, with parents."""
        if self._local:
            self.fs.makedirs(self._strip_protocol(path), exist_ok=exist_ok)

    def rmdir(self, path: Any) -> None:
        """Remove an empty local directory; on object stores there is nothing to remove."""
        if self._local:
            self.fs.rmdir(self._strip_protocol(path))

    # -- removing --------------------------------------------------------------------------------------

    def rm_file(self, path: Any) -> None:
        """Delete a file that was written here. Raises UsageError if it is not this task's."""
        final = self._own(path)
        if final is None:
            self.info(path)
            raise UsageError(
                f"{path} was not written by this task, and was not removed; remove it through the store's "
                "own filesystem if nobody needs it"
            )
        self.fs.rm_file(final)
        final_tracker().removed(self._scope, final)

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        """Delete files that were written here; of a directory nothing else."""
        for one in path if isinstance(path, list) else [path]:
            if self._own(one) is not None:
                self.rm_file(one)
                continue
            found = self.expand_path(one, recursive=recursive, maxdepth=maxdepth)
            for name in found:
                if not (recursive and self.isdir(name)):
                    self.rm_file(name)

    # -- looking and reading ---------------------------------------------------------------------------

    def info(self, path: Any, **kwargs: Any) -> dict[str, Any]:
        """Describe a file or directory, under its final name."""
        found: dict[str, Any] = self.fs.info(self._real(path), **kwargs)
        return found

    def exists(self, path: Any, **kwargs: Any) -> bool:
        return bool(self.fs.exists(self._real(path), **kwargs))

    def ls(self, path: Any, detail: bool = True, **kwargs: Any) -> list[Any]:  # noqa: ARG002
        """What was written here in a directory: final names, and one request for each file in detail."""
        path = self._strip_protocol(path)
        entries: dict[str, bool] = {}
        for final in sorted(self.written.finished):
            if paths.is_under(final, path):
                name, slash, _ = paths.relative_to(final, path).partition("/")
                entries[f"{path}/{name}"] = bool(slash)
        if not entries:
            found = self.info(path)
            entries = {} if found["type"] == "directory" else {found["name"]: False}
        if not detail:
            return list(entries)
        return [
            {"name": name, "size": 0, "type": "directory"} if is_directory else self.info(name)
            for name, is_directory in entries.items()
        ]

    def cat_file(self, path: Any, start: int | None = None, end: int | None = None, **kwargs: Any) -> bytes:
        body: bytes = self.fs.cat_file(self._real(path), start=start, end=end, **kwargs)
        return body

    def get_file(self, rpath: Any, lpath: Any, **kwargs: Any) -> None:
        self.fs.get_file(self._real(rpath), lpath, **kwargs)

    def created(self, path: Any) -> Any:
        return self.fs.created(self._real(path))

    def modified(self, path: Any) -> Any:
        return self.fs.modified(self._real(path))

    def checksum(self, path: Any) -> Any:
        return self.fs.checksum(self._real(path))

    def sign(self, path: Any, expiration: int = 100, **kwargs: Any) -> Any:
        return self.fs.sign(self._real(path), expiration=expiration, **kwargs)

    def invalidate_cache(self, path: Any = None) -> None:
        self.fs.invalidate_cache(path)


def _rebuilt(
    cls: type[FinalFileSystem],
    wrapped: type[AbstractFileSystem],
    given: dict[str, Any],
    root: str,
    suffix: tuple[str, str] | None,
) -> FinalFileSystem:
    return cls(wrapped(**given), root, suffix)


def of_task(
    root: str, filesystem: AbstractFileSystem, context: JobContext, task: TaskId, _: AttemptId
) -> WorkPlace:
    """Where an attempt writes whose files bear the task in their names."""
    return _place(root, filesystem, context, task)


def of_attempt(
    root: str, filesystem: AbstractFileSystem, context: JobContext, _: TaskId, attempt: AttemptId
) -> WorkPlace:
    """Where an attempt writes whose files bear its own name."""
    return _place(root, filesystem, context, attempt)


def _place(root: str, filesystem: AbstractFileSystem, context: JobContext, label: str) -> WorkPlace:
    suffix = (label, context.job) if context.options.unique_names else None
    return WorkPlace(root, "", partial(FinalFileSystem, filesystem, root, suffix), None)
