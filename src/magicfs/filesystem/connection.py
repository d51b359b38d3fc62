"""The connection: the wrapped filesystem and its loop, pickling, what a path means, transactions.

One spelling of a path, however it was given: without scheme, and without the slashes around it.

Where a store has buckets ``/bucket/key`` is ``bucket/key``, as in s3fs. Local files have none: their paths
are absolute and keep their first slash. Which it is, an instance knows by the filesystem that it wraps, and
its class by the scheme alone.

fsspec's transactions on a shared instance: each thread and task has its own.

Libraries such as pyarrow open files in threads of their own making, which know nothing of the thread that
asked for them. Such a file joins the transaction that has looked at the same task attempt (or magic
directory), or else the only one that has looked at none yet. Threads that Python started join nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import inspect
import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar, get_args

from fsspec.asyn import AsyncFileSystem, get_loop, mirror_sync_methods
from fsspec.implementations.chained import ChainedFileSystem
from fsspec.spec import AbstractFileSystem
from fsspec.transaction import Transaction
from fsspec.utils import stringify_path

from magicfs.errors import UsageError
from magicfs.filesystem import options
from magicfs.filesystem.job_settings import (
    WriteSettings,
    known_jobs,
    read_settings,
    refuse_if_lost,
    warn_if_ignored,
)
from magicfs.filesystem.ordinary import Coroutines
from magicfs.filesystem.tracking import name_in, settled
from magicfs.formats.job_options import Hadoop, JobOptions, Tracking
from magicfs.protocol import paths
from magicfs.protocol.magic import PENDING, PENDING_SET, Dialect, MagicPath, PathOwner, locate
from magicfs.protocol.parts import DEFAULT_PART_SIZE
from magicfs.runtime.interrupt import run_on
from magicfs.stores import resolve
from magicfs.stores.port import Store

_LOOKS = frozenset({"url", "metadata", "get_tags", "object_version_info", "split_path", "islink"})
_CHANGES = frozenset({"setxattr", "setxattrs", "chmod", "put_tags"})


def on_stripped_path(method: Callable[..., Any], strip: Callable[[str], str]) -> Callable[..., Any]:
    """The method for paths as ``strip`` takes them: s3fs knows no ``magic::s3://``."""
    if not inspect.iscoroutinefunction(method):

        @functools.wraps(method)
        def call(path: str, *args: Any, **kwargs: Any) -> Any:
            return method(strip(path), *args, **kwargs)

        return call

    @functools.wraps(method)
    async def work(path: str, *args: Any, **kwargs: Any) -> Any:
        return await method(strip(path), *args, **kwargs)

    return work


class _MagicTransaction(Transaction):
    """fsspec's, known to its filesystem's ``_Transactions`` while it is open.

    ``scopes``: what its own thread has looked at, by the names that the tracker uses. ``ended``: whether
    files can no longer join.
    """

    fs: Any

    def __init__(self, fs: Any, **kwargs: Any) -> None:
        super().__init__(fs, **kwargs)
        self.scopes: set[str] = set()
        self.ended: bool = False

    def start(self) -> None:
        super().start()
        self.ended = False
        self.fs._transactions.opened(self)

    def complete(self, commit: bool = True) -> None:
        """Record every file, or abort every one; after one that fails, the others are aborted.

        fsspec's own leaves them, and the transaction open, before release 2026.9.
        """
        self.ended = True
        self.fs._transactions.closed(self)
        try:
            while self.files:
                if commit:
                    self.files[0].commit()
                else:
                    self.files[0].discard()
                self.files.popleft()
        finally:
            for file in self.files:
                with contextlib.suppress(Exception):
                    file.discard()
            self.files.clear()
            self.fs._intrans = False
            self.fs._transaction = None
            self.fs = None


class _Transactions:
    """The transactions of one filesystem instance."""

    def __init__(self) -> None:
        self.current: contextvars.ContextVar[_MagicTransaction | None]
        self.current = contextvars.ContextVar("transaction", default=None)
        self.active = contextvars.ContextVar("in_transaction", default=False)
        self._open: list[_MagicTransaction] = []
        self._lock = threading.Lock()

    def opened(self, transaction: _MagicTransaction) -> None:
        with self._lock:
            self._open.append(transaction)

    def closed(self, transaction: _MagicTransaction) -> None:
        """A second call does nothing."""
        with self._lock, contextlib.suppress(ValueError):
            self._open.remove(transaction)

    def looked_at(self, scope: str) -> None:
        """The thread that runs here has looked at a scope."""
        if self.active.get() and (current := self.current.get()) is not None:
            current.scopes.add(scope)

    def to_join(self, scope: str, path: str) -> _MagicTransaction | None:
        """The transaction to which a file belongs that a thread of unknown origin opens; None for none.

        Raises UsageError if it could be any of several.
        """
        # Python's own threads say what they are; these are stand-ins for threads of C libraries.
        if self.active.get() or not isinstance(threading.current_thread(), threading._DummyThread):
            return None
        with self._lock:
            candidates = [one for one in self._open if scope in one.scopes]
            candidates = candidates or [one for one in self._open if not one.scopes]
        if len(candidates) > 1:
            raise UsageError(
                f"{path}: the file could belong to any of {len(candidates)} transactions that are open; "
                "first access its directory inside its transaction, with filesystem.exists"
            )
        return candidates[0] if candidates else None

    @contextlib.contextmanager
    def joined(self, transaction: _MagicTransaction, scope: str) -> Iterator[None]:
        """Run as a part of another thread's transaction, to open a file of a scope."""
        transaction.scopes.add(scope)
        current, active = self.current.set(transaction), self.active.set(True)
        try:
            yield
        finally:
            self.current.reset(current)
            self.active.reset(active)


_T = TypeVar("_T")


class either(Generic[_T]):  # noqa: N801 - a decorator, as classmethod
    """A method of the instance, and where there is none of the class: fsspec calls some on both."""

    def __init__(self, method: Callable[..., _T]) -> None:
        self._method = method
        functools.update_wrapper(self, method)  # type: ignore[arg-type]

    def __get__(self, instance: object, owner: type | None = None) -> Callable[..., _T]:
        return functools.partial(self._method, owner if instance is None else instance)


def has_buckets(instance_or_class: Any) -> bool:
    """Whether paths begin with a bucket; a class cannot know, and takes it for so."""
    return bool(getattr(instance_or_class, "_has_buckets", True))


def stripped(path: Any, buckets: bool) -> Any:
    """A path, or a list of them, without scheme and without slashes at its ends, but the first of files."""
    if isinstance(path, list):
        return [stripped(one, buckets) for one in path]
    text = _without_ours(stringify_path(path))
    scheme, separator, _ = text.partition("://")
    if separator and scheme in resolve.SCHEMES:
        text = resolve.split(text)[0].partition("://")[2]
        buckets = buckets and resolve.scheme_has_buckets(scheme)
    if buckets:
        return text.strip("/")
    return text.rstrip("/") or "/"


def handed(path: Any) -> Any:
    """A path, or several of them, without the schemes of magicfs: as the wrapped filesystem reads it."""
    if isinstance(path, dict):
        return {handed(one): value for one, value in path.items()}
    if isinstance(path, list | tuple | set):
        return type(path)(handed(one) for one in path)
    text = stringify_path(path)
    return path if not isinstance(text, str) or (plain := _without_ours(text)) == text else plain


def _without_ours(text: str) -> str:
    return text.removeprefix("magic::").removeprefix("magic://").removeprefix("magic+")


def rooted(found: Any) -> Any:
    """What lists files, names or entries of them, with a slash before each name."""
    if isinstance(found, str):
        return f"/{found}"
    if isinstance(found, list):
        return [rooted(one) for one in found]
    if "name" in found and isinstance(found["name"], str):
        return {**found, "name": f"/{found['name']}"}
    return {f"/{name}": rooted(entry) for name, entry in found.items()}


def parent(path: Any, buckets: bool) -> str:
    """The directory that holds a path; of a bucket nothing, of the root itself."""
    above, slash, _ = stripped(path, buckets).rpartition("/")
    return above or ("" if buckets else slash)


_LOGGER = logging.getLogger("magicfs")
# An open file of s3fs reads its ranges through this method of its filesystem.
_OF_JOBS = ("unique_names", "tracking", "part_size")
"""Options that each job has of its own."""
_ASKED_BY_FILES = frozenset({"_call_s3"})


class Connection(AsyncFileSystem, ChainedFileSystem):
    """What ``MagicFileSystem`` is before it reads or writes; see there for the arguments."""

    protocol: str | tuple[str, ...] = "magic"  # of an instance also those of its URLs, which DuckDB asks for
    transaction_type: type[Transaction] = _MagicTransaction
    _pid: int
    _strip_tokenize_options = ("fo",)

    def __init__(
        self,
        fs: AbstractFileSystem | None = None,
        *,
        target_protocol: str | None = None,
        target_options: Mapping[str, Any] | None = None,
        fo: Any = None,  # noqa: ARG002 - given by fsspec for chained URLs
        hadoop: str | None = None,
        tracking: Tracking = "store",
        unique_names: bool = False,
        part_size: int | None = None,
        job_object: bool = True,
        allow_secrets_in_pickles: bool = False,
        secrets_of: str | None = None,
        **kwargs: Any,
    ) -> None:
        if getattr(self, "_cached", False):
            return
        own, target = options.split(kwargs, target_protocol, target_options or {})
        target = options.with_kept_secrets(target, secrets_of)
        options.check_choice("tracking", tracking, get_args(Tracking))
        release = options.release_of(hadoop, tracking=tracking, unique_names=unique_names)
        self._transactions = _Transactions()
        self._wrapped = options.wrapped(
            fs, target_protocol, target, asynchronous=own.get("asynchronous", False)
        )
        resolve.check(self._wrapped)
        if own.get("loop") is None and not own.get("asynchronous"):
            own["loop"] = resolve.loop_of(self._wrapped)
        super().__init__(**own)
        self.protocol = ("magic", *(f"magic+{one}" for one in resolve.protocols(self._wrapped)))
        self.root_marker: str = self._wrapped.root_marker
        self.blocksize: int = self._wrapped.blocksize
        self._has_buckets = resolve.has_buckets(self._wrapped)
        self._chains_with_slash = resolve.chains_with_slash(self._wrapped)
        self._given = fs is not None
        self._release = release
        self._dialect = Dialect.of_layout(None if release is None else release.layout)
        self._settings = WriteSettings(
            JobOptions(
                committer="magic",
                mode="append",
                unique_names=unique_names,
                tracking=tracking,
                part_size=DEFAULT_PART_SIZE if part_size is None else part_size,
                hadoop=Hadoop() if release is None else Hadoop(etag_format=release.etag_format),
            )
        )
        self._job_object = job_object
        self._allow_secrets = allow_secrets_in_pickles
        self._fork_lock = threading.Lock()
        self.is_guarded = False
        """Whether a task was given this filesystem: writes that no job publishes are warned about."""
        self._warned: set[str] = set()

    @property
    def mirror_sync_methods(self) -> bool:
        """Whether fsspec has to make blocking methods of the coroutines, as it asks for each new instance.

        It has not: they are made here, so that an interruption stops the coroutine.
        """
        mirror_sync_methods(self)
        for name, mirrored in list(vars(self).items()):
            work = getattr(self, f"_{name}", None)
            if callable(mirrored) and inspect.iscoroutinefunction(work):
                setattr(self, name, self._blocking(work))
        return False

    def _blocking(self, work: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(work)
        def call(*args: Any, **kwargs: Any) -> Any:
            return run_on(self.loop, functools.partial(work, *args, **kwargs))

        return call

    # -- the wrapped filesystem ------------------------------------------------------------------------

    @property
    def fs(self) -> AbstractFileSystem:
        """The wrapped filesystem; after a fork a new one of the same arguments."""
        if self._pid != os.getpid():
            self._renew_after_fork()
        return self._wrapped

    @property
    def coroutines(self) -> Any:
        """The wrapped filesystem by its coroutines, ``_info`` and others."""
        return Coroutines(self.fs)

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop on which the wrapped filesystem works."""
        if self._pid != os.getpid():
            self._renew_after_fork()
        return self._loop  # type: ignore[no-any-return]

    @property
    def dircache(self) -> Any:
        """The listing cache of the wrapped filesystem; nothing under a magic path comes from it."""
        return self.fs.dircache

    @dircache.setter
    def dircache(self, _value: Any) -> None:
        """FSSpec sets one for every filesystem; the wrapped one has its own."""

    def _renew_after_fork(self) -> None:
        with self._fork_lock:
            if self._pid == os.getpid():
                return
            # Kept: s3fs would close the parent's connections when it is collected here.
            old = self._inherited = self._wrapped
            self._wrapped = type(old)(*old.storage_args, **old.storage_options)
            if not self.asynchronous:
                self._loop = get_loop()
            self._pid = os.getpid()

    def store(self, bucket: str) -> Store:
        """The store of one bucket behind the wrapped filesystem."""
        return resolve.open_store(self.fs, bucket)

    def invalidate_cache(self, path: str | None = None) -> None:
        """Drop cached listings of the wrapped filesystem."""
        self.fs.invalidate_cache(None if path is None else self._strip_protocol(path))

    def __getattr__(self, name: str) -> Any:
        # Extras of the wrapped filesystem, such as s3fs's ``url`` or ``call_s3``; its files ask, too.
        method = name.removeprefix("_")
        takes_path = method in _LOOKS | _CHANGES
        hidden = name.startswith("_") and not takes_path and name not in _ASKED_BY_FILES
        if hidden or "_wrapped" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        found = getattr(self.fs, name)
        if not takes_path:
            return found
        return on_stripped_path(found, self._strip_changed if method in _CHANGES else self._strip_protocol)

    def _strip_changed(self, path: str) -> str:
        """The path of an object whose metadata, tags or ACL are changed at once."""
        if self._delayed(path) is not None:
            raise UsageError(
                f"{path} is pending: its object does not exist yet, so its metadata, tags and ACL cannot be "
                "changed; change them after the job has committed"
            )
        self.warn_outside(path)
        stripped: str = self._strip_protocol(path)
        return stripped

    def __reduce__(self) -> Any:
        rebuild, (cls, args, kwargs) = super().__reduce__()
        return rebuild, (
            cls,
            args,
            options.without_secrets(self._wrapped, kwargs, self._given, self._allow_secrets),
        )

    def to_dict(self, *, include_password: bool = True) -> dict[str, Any]:
        """As fsspec's, for ``from_dict``; ``to_json`` and ``from_json`` likewise.

        Secrets are never in it, unlike in fsspec's own and s3fs's. In the same process the filesystem that is
        made of it has them all the same, as zarr needs for its asynchronous copy; with
        ``include_password=False``, and in other processes, it finds its own, as after a pickle.

        Raises:
            UsageError: A secret cannot be left out, such as a key of customer-provided encryption.
        """
        found = options.described(self)
        by_protocol = options.described_by_protocol(self._wrapped)
        if self._given and by_protocol:
            del found["fs"]
            found |= by_protocol
        return found | (options.keep_secrets(self._wrapped) if include_password and by_protocol else {})

    # -- paths -----------------------------------------------------------------------------------------

    @either
    def _strip_protocol(self, path: Any) -> Any:
        if isinstance(path, list):
            return [self._strip_protocol(one) for one in path]
        if isinstance(self, type) or self.locate(path) is not None:
            return stripped(path, has_buckets(self))
        return self.fs._strip_protocol(self.handed(path))

    @either
    def _parent(self, path: Any) -> Any:
        if isinstance(self, type) or self.locate(path) is not None:
            return parent(path, has_buckets(self))
        return self.fs._parent(self.handed(path))

    def handed(self, path: Any) -> Any:
        """An ordinary path, or several, as the wrapped filesystem is given them: only without our schemes."""
        return handed(path)

    def unstrip_protocol(self, name: str) -> str:
        """``magic::s3://bucket/key``."""
        return f"magic::{self.fs.unstrip_protocol(self._strip_protocol(name))}"

    def locate(self, path: str | os.PathLike[str]) -> MagicPath | None:
        """What a path means to this filesystem; None for an ordinary one.

        Raises UsageError for a magic path with two slashes in a row, as everywhere else.
        """
        inside = stripped(path, self._has_buckets)
        located = locate(inside, self._dialect)
        if located is not None:
            paths.parse_path(inside, has_buckets=self._has_buckets)
            self._transactions.looked_at(located.scope)
        return located

    async def _magic(self, path: str) -> MagicPath:
        """What a path below a magic one means, once all that was closed there is recorded."""
        located = self.locate(path)
        assert located is not None, f"{path} is ordinary"
        return await self._settled(located)

    async def _settled(self, path: MagicPath) -> MagicPath:
        await settled(name_in(self.store(path.bucket), path.path))
        return path

    async def _settings_of(self, path: MagicPath) -> WriteSettings:
        """How a file at a magic path is written: as its job's setup has settled, else as the options say.

        Raises ProtocolViolation if nobody would publish the file.
        """
        if (known := self._known_settings(path)) is not None:
            return known
        owner = path.owner
        assert owner is not None
        return self._counting(path, owner, await read_settings(self.store(path.bucket), path, owner))

    def _known_settings(self, path: MagicPath) -> WriteSettings | None:
        """As ``_settings_of``; None if it takes a request.

        Raises UsageError if the Hadoop that was named could not complete the upload.
        """
        owner = path.owner
        if owner is None or not owner.is_ours:
            if self._release is not None:
                self._release.check_checksum(self.store(path.bucket).capabilities.checksums.of_parts)
            return self._settings
        known = known_jobs().find(name_in(self.store(path.bucket), owner.job_directory))
        if known is None and not self._job_object:
            known = self._settings
        return known and self._counting(path, owner, known)

    def _counting(self, path: MagicPath, owner: PathOwner, settings: WriteSettings) -> WriteSettings:
        """A job's settings, which count, whatever options somebody gave."""
        names = [name for name in _OF_JOBS if self.storage_options.get(name) is not None]
        given = {name: getattr(self._settings.options, name) for name in names}
        store = self.store(path.bucket)
        warn_if_ignored(store, path, owner, settings, given)
        refuse_if_lost(store, path, owner, settings)
        return settings

    def _delayed(self, path: str) -> MagicPath | None:
        """The magic path of a file whose write is delayed; None for ordinary writes."""
        located = self.locate(path)
        return located if located is not None and located.is_delayed else None

    def _at_once(self, path: str) -> None:
        """Before an ordinary write: refuse the name of a record, and warn as ``warn_outside`` does."""
        if self.locate(path) is not None:
            raise UsageError(
                f"{path}: below a magic path, names that end in {PENDING} or {PENDING_SET} are reserved for "
                "records of uploads, and a task cannot publish them; nothing was written; choose another "
                "name"
            )
        self.warn_outside(path)

    def warn_outside(self, path: str | os.PathLike[str]) -> None:
        """Warn about a change of an ordinary path, once for each directory, if tasks write here."""
        if not self.is_guarded:
            return
        directory = self._strip_protocol(path).rpartition("/")[0]
        if directory not in self._warned:
            self._warned.add(directory)
            _LOGGER.warning(
                "%s is outside the task's directory: it was changed at once, and stays changed even if the "
                "job is aborted; write below task.path, or use a separate filesystem for it",
                path,
            )

    # -- transactions: per thread and task, although instances are shared ------------------------------

    @property
    def _intrans(self) -> bool:
        return self._transactions.active.get()

    @_intrans.setter
    def _intrans(self, value: bool) -> None:
        self._transactions.active.set(value)

    @property
    def _transaction(self) -> _MagicTransaction | None:
        return self._transactions.current.get()

    @_transaction.setter
    def _transaction(self, value: _MagicTransaction | None) -> None:
        self._transactions.current.set(value)
