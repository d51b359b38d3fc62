"""``MagicFileSystem``: an fsspec filesystem whose writes under magic paths are delayed.

Everything else passes through to the wrapped filesystem. ``protocol.magic`` interprets paths, and ``upload``
sends bytes. The base classes are in ``connection``, ``reading`` and ``writing``; this module creates and
removes.
"""

from __future__ import annotations

from glob import has_magic
from typing import TYPE_CHECKING, Any

from magicfs.errors import ObjectNotFound, UsageError
from magicfs.filesystem import listing
from magicfs.filesystem.ordinary import handed_over
from magicfs.filesystem.writing import Writing
from magicfs.protocol.magic import PENDING, MagicPath
from magicfs.runtime.interrupt import run_on
from magicfs.stores import resolve

if TYPE_CHECKING:
    from magicfs.protocol.modes import WriteMode
    from magicfs.report import PathReport


@handed_over
class MagicFileSystem(Writing):
    """Writes under ``DEST/__magic/…`` or ``DEST/__magic_job-<id>/…`` become delayed uploads.

    ``close()`` finishes the upload to the final key, which stays invisible until the job commits, and leaves
    a ``.pending`` file and a zero-byte marker at the path that you opened. In a task it does so in the
    background: the task commit waits, and names each file that failed. All other paths go unchanged to
    the wrapped filesystem. Below the path of a job's task, the settings of the job apply, which its setup
    stored: ``tracking``, ``unique_names``, ``part_size`` and ``hadoop`` have no effect there. fsspec caches
    instances: the same arguments give the same instance, before fsspec 2026.6 only in the same thread.

    Args:
        fs: The filesystem to wrap; or give ``target_protocol`` and ``target_options``.
        target_protocol: ``s3``, ``s3a``, ``memory``, ``file`` or ``local``.
        target_options: Options of the wrapped filesystem.
        fo: The path of a chained URL; not part of the instance.
        hadoop: Hadoop release whose tasks or driver read the files: ``"3.3"``, ``"3.4"`` (3.4.2 and later),
            ``"3.5"``, or a patch release such as ``"3.4.1"``. Only its magic directories apply, part ETags
            have its form, and names and records that it could not find are refused. By default, both
            ``__magic`` and ``__magic_job-<id>`` are magic.
        tracking: ``"memory"`` writes no marker and no ``.pending``: only this process knows the upload.
        unique_names: Whether final names contain task and job; only in a committer's own layout.
        part_size: Bytes of the first parts.
        job_object: False for jobs of committers without one: these options then apply in a process that
            does not know the job.
        allow_secrets_in_pickles: Whether pickles can contain inline secrets; otherwise they are dropped, and
            a wrapped instance that has some cannot be pickled.
        secrets_of: Written by ``to_dict``; do not use it.
        **kwargs: ``asynchronous``, ``loop``, ``batch_size`` and the other options of every fsspec filesystem.

    Raises:
        UsageError: The wrapped filesystem cannot delay uploads, or an option is unknown.
    """

    def __repr__(self) -> str:
        wrapped, *_ = resolve.protocols(self.fs)
        return f"<{type(self).__name__} around {wrapped}, tracking {self._settings.options.tracking}>"

    def __str__(self) -> str:
        return repr(self)

    def touch(self, path: str, truncate: bool = True, **kwargs: Any) -> Any:
        """Write an empty file; under a magic path a delayed one.

        Returns:
            The result of the wrapped filesystem; None under a magic path.

        Raises:
            UsageError: ``truncate=False`` under a magic path, where there is nothing to keep.
        """
        return run_on(self.loop, self._touch, path, truncate, **kwargs)

    async def _touch(self, path: str, truncate: bool = True, **kwargs: Any) -> Any:  # noqa: ARG002
        if self._delayed(path) is None:
            self._at_once(path)
        if not truncate:
            raise UsageError(f"{path}: touch(truncate=False) is not possible for a pending file; write it")
        return await self._pipe_file(path, b"")

    # -- magic paths that no job owns ------------------------------------------------------------------

    def publish(self, path: str, *, mode: WriteMode = "append", dry_run: bool = False) -> PathReport:
        """Publish the files below your own magic path, all or nothing.

        For paths that no job owns, such as ``DEST/__magic/mine/__base/…`` or a directory of them. This sets
        up a job that commits the recorded files: if this process dies past its commit point,
        ``Dataset.recover`` finishes it; before, nothing was changed, so call again. A second call does
        nothing. If another call publishes the files meanwhile, the report says ``published before``, and
        nothing is replaced. Files that are still being written belong to the next call.

        Args:
            path: A file or directory, with or without its scheme.
            mode: As for ``Job``. ``append`` refuses a name that is taken.
            dry_run: Change nothing; report what would be published.

        Raises:
            UsageError: It is not a magic path, or belongs to a job, or has no recorded files, or a file is
                not closed, or two files have the same name. Nothing was changed.
            FormatError: A record is malformed, or names another place. Nothing was changed.
            OutputExists: The mode does not allow publishing onto existing data; nothing was changed.
            CommitDenied: Another process is publishing or discarding the same path or names. If a discard
                died, call ``discard`` again first.
            CommitFailed: A file could not be published; files that had become visible were removed again, and
                all files of the path are discarded.
            CommitOutcomeUnknown: The store did not answer; nothing was removed; call ``Dataset.recover``.
            CommitUnfinished: It is published, but readers may not see it yet; call ``Dataset.recover``.
            StoreError: The store refused or failed before the commit point; call again.
        """
        from magicfs.datasets import own_paths

        return own_paths.publish(path, mode=mode, dry_run=dry_run, filesystem=self)

    def discard(self, path: str, *, dry_run: bool = False) -> PathReport:
        """Discard the files below your own magic path: their uploads, records and markers.

        Published files stay. A second call does nothing.

        Args:
            path: As for ``publish``.
            dry_run: Change nothing; report what would be discarded.

        Raises:
            UsageError: It is not a magic path, or belongs to a job, or a file is still open. Nothing was
                changed.
            FormatError: A record is malformed, or names another place. Nothing was changed.
            CommitDenied: The path is being published, or was discarded meanwhile; nothing was changed.
            StoreError: Something could not be discarded; call again.
        """
        from magicfs.datasets import own_paths

        return own_paths.discard(path, dry_run=dry_run, filesystem=self)

    # -- directories -----------------------------------------------------------------------------------

    # Those below magic paths are only names; s3fs would create the bucket.

    async def _mkdir(self, path: str, create_parents: bool = True, **kwargs: Any) -> None:
        """Make a directory; under a magic path there is nothing to make."""

    async def _makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Make a directory; under a magic path there is nothing to make."""

    def rmdir(self, path: str, **kwargs: Any) -> None:
        """Remove an empty directory; under a magic path there is nothing to remove."""

    async def _rmdir(self, path: str, **kwargs: Any) -> None:
        """Remove an empty directory; under a magic path there is nothing to remove."""

    # -- removing --------------------------------------------------------------------------------------

    async def _rm_file(self, path: str, **kwargs: Any) -> None:
        # A .pending file without its upload would be an upload that nobody finds: they go together.
        magic = self._delayed(path) or self._delayed(self._strip_protocol(path).removesuffix(PENDING))
        if magic is None:
            self.warn_outside(path)
            await self.coroutines._rm_file(self._strip_protocol(path), **kwargs)
            return
        store = self.store(magic.bucket)
        if (pending := self._in_memory(await self._settled(magic))) is not None:
            await listing.abort_remembered(store, magic, pending)
            return
        try:
            await listing.abort_recorded(store, magic)
        except ObjectNotFound:
            await self.coroutines._rm_file(magic.path, **kwargs)
            return
        await store.delete([magic.pending_key, magic.key])

    async def _rm(
        self,
        path: Any,
        recursive: bool = False,
        batch_size: int | None = None,  # noqa: ARG002 - fsspec's signature
        maxdepth: int | None = None,
        **kwargs: Any,
    ) -> Any:
        named = [path] if isinstance(path, str) else list(path)
        located = [(one, self.locate(one)) for one in named]
        ordinary = [self._strip_protocol(one) for one, magic in located if magic is None]
        removed = None
        if ordinary:
            self.warn_outside(ordinary[0])
            removed = await self.coroutines._rm(ordinary, recursive=recursive, maxdepth=maxdepth, **kwargs)
        for _, magic in located:
            if magic is not None:
                removed = [*(removed or ()), *await self._rm_magic(magic, recursive, maxdepth)]
        return removed

    async def _rm_magic(self, magic: MagicPath, recursive: bool, maxdepth: int | None) -> list[str]:
        """Remove what a magic path names, a pattern perhaps; returns the paths."""
        if recursive and maxdepth is None and await self._isdir(magic.path):
            return await listing.remove_tree(self.store(magic.bucket), magic, self._remembered(magic))
        is_name = maxdepth is None and (
            not (recursive or has_magic(magic.path)) or await self._exists(magic.path)
        )
        found = [magic.path]
        if not is_name:
            found = await self._expand_path(magic.path, recursive=recursive, maxdepth=maxdepth)
        for one in found:
            await self._rm_file(one)
        return found
