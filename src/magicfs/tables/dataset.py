"""``magicfs.Dataset``: what is published at a destination, and everything you can do with it.

Each verb is one function of another room, which is imported when you call the verb: a worker that reads needs
nothing of what maintains datasets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from os import PathLike
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from magicfs.errors import UsageError
from magicfs.protocol.period import NOT_SAID, NotSaid
from magicfs.report import html_table, human_bytes
from magicfs.runtime.twins import awaitable

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow.compute as pc
    import pyarrow.dataset as ds
    from fsspec.spec import AbstractFileSystem

    from magicfs.catalogs.port import Catalog
    from magicfs.catalogs.register import RegisterReport
    from magicfs.datasets.adopt import AdoptReport
    from magicfs.datasets.checkup import DoctorReport
    from magicfs.datasets.connection import Destination, Way
    from magicfs.datasets.finders import Cluster
    from magicfs.formats.footer import Footer
    from magicfs.past.compact import CompactReport
    from magicfs.past.drop import DropReport, Where
    from magicfs.past.expire import ExpireReport
    from magicfs.past.file_facts import PublishedFile
    from magicfs.past.history import History
    from magicfs.past.rollback import RollbackReport
    from magicfs.report import RecoverReport, VerifyReport
    from magicfs.tables.rewrite import RewriteReport

__all__ = ["Dataset"]

_TARGET_SIZE: Final = 128 * 2**20


@dataclass(frozen=True, slots=True)
class _Address:
    """Where a dataset is, and the way there."""

    url: str | PathLike[str]
    storage_options: Mapping[str, Any] | None = field(default=None, kw_only=True, repr=False, hash=False)
    filesystem: AbstractFileSystem | None = field(default=None, kw_only=True, repr=False, hash=False)

    def __post_init__(self) -> None:
        if self.filesystem is not None and self.storage_options:
            raise UsageError("give either filesystem or storage_options, not both")


class Dataset(_Address):
    """What is published at a destination: read it, look into its history, undo, repair, maintain.

    ::

        sales = magicfs.Dataset("s3://bucket/sales")
        sales.tag("audited")
        sales.to_pandas(as_of="audited")
        sales.rollback("audited", keep="7d")

    It is a value and opens nothing: it can be pickled, and two with equal arguments are equal. Every verb
    looks at the store anew, and trusts no cached listing. Every verb has a twin that you can await, with an
    ``a`` in front: ``await sales.ahistory()``. If you cancel the twin, the verb stops as it does on Ctrl-C.

    Every verb raises ``UsageError`` for a malformed URL or option, ``StoreError`` if the store refuses or
    does not answer, and ``FormatError`` if a manifest is broken or a newer magicfs wrote it. What else a verb
    raises stands with the verb. If ``rollback``, ``drop`` or ``rewrite`` raise ``CommitOutcomeUnknown``, the
    store did not answer; if they raise ``CommitUnfinished``, the job is published, but readers may not see it
    yet. Then call ``recover``.

    Args:
        url: The destination, such as ``s3://bucket/sales``.
        storage_options: Options of the store's fsspec filesystem, which pickles carry and ``repr`` hides.
        filesystem: That filesystem itself, in place of options.

    Raises:
        UsageError: Both ``storage_options`` and ``filesystem`` are given.
    """

    __slots__ = ()

    # -- reading ---------------------------------------------------------------------------------------------

    def files(
        self, *, job: str | None = None, last: bool = False, as_of: str | datetime | None = None
    ) -> list[PublishedFile]:
        """The published files by name, and no others: URLs, sizes, rows. Needs no pyarrow.

        A second call shows what was published meanwhile. Errors are those of ``to_arrow``.

        Args:
            job: The files that the job with this id brought, whether or not readers still see them.
            last: The files of the job that was published last.
            as_of: The dataset as it was then, as for ``to_arrow``.
        """
        from magicfs.datasets.read import files_of_dataset
        from magicfs.past.file_facts import published_file
        from magicfs.protocol.modes import is_data

        place = self._opened(last or job is not None, as_of)
        found = place.run(files_of_dataset, last, as_of, job)
        return [published_file(found[key], place.location) for key in sorted(found) if is_data(key, "")]

    def to_arrow(
        self,
        *,
        last: bool = False,
        as_of: str | datetime | None = None,
        schema: Any = None,
        format: Any = "parquet",  # noqa: A002 - as in pyarrow
        partitioning: Any = "hive",
    ) -> ds.Dataset:
        """The dataset for pyarrow, as it is at this moment, or was: the visible files of all published jobs.

        Files that are published or replaced later are not part of it. If a later job has deleted a file or
        written over it, reading that file raises ``FileNotFoundError``: call again. Nothing is changed.

        Args:
            last: Only the files of the job that was published last.
            as_of: The dataset as it was when that job had been published: a ``datetime`` with a time zone, or
                its text in ISO 8601; a job id, a run id or a tag. ``job:…``, ``run:…``, ``tag:…`` and
                ``time:…`` say which one you mean. You get all files of that time, or an error.
            schema: A pyarrow schema; by default that of the first file. Needed if there are no files.
            format: As for ``pyarrow.dataset.dataset``.
            partitioning: As for ``pyarrow.dataset.dataset``; taken from the names below the destination.

        Raises:
            ObjectNotFound: Nothing was published there, or not what ``as_of`` names; or files of that time
                were deleted or written over.
            UsageError: There are files from before the first job, which no manifest knows: ``adopt`` adds
                them; or no files and no schema; or ``as_of`` means several publications; or pyarrow is not
                installed.
        """
        try:
            import pyarrow.dataset as ds
            from pyarrow.fs import PyFileSystem

            from magicfs.datasets.arrow_files import PublishedFiles
        except ImportError as error:
            raise UsageError("to_arrow needs pyarrow; pip install 'magicfs[arrow]'") from error
        from magicfs.datasets.read import files_of_dataset
        from magicfs.protocol.modes import is_data
        from magicfs.protocol.paths import prefix_of

        place = self._opened(last, as_of)
        at = place.location
        files = place.run(files_of_dataset, last, as_of)
        found = {f"{prefix_of(at.path)}{key}": files[key] for key in sorted(files) if is_data(key, "")}
        if not found and schema is None:
            raise UsageError(f"the dataset {at.url} has no files; to_arrow(schema=…) reads it as empty")
        return ds.dataset(
            list(found),
            schema=schema,
            format=format,
            filesystem=PyFileSystem(PublishedFiles(place.filesystem, found, at)),
            partitioning=partitioning,
            partition_base_dir=at.path,
        )

    def to_pandas(
        self,
        *,
        as_of: str | datetime | None = None,
        columns: Sequence[str] | None = None,
        filter: pc.Expression | None = None,  # noqa: A002 - as in pyarrow
    ) -> pd.DataFrame:
        """The rows of the published Parquet files as a DataFrame. A second call reads them again.

        Errors are those of ``to_arrow``; a ``UsageError`` also says if pandas is not installed.

        Args:
            as_of: The dataset as it was then, as for ``to_arrow``.
            columns: Only these columns.
            filter: Only these rows, such as ``pyarrow.compute.field("day") == "2026-01-01"``. Files whose
                partitions or statistics rule them out are not read.
        """
        table = self.to_arrow(as_of=as_of).to_table(columns=columns and list(columns), filter=filter)
        try:
            return table.to_pandas()
        except ModuleNotFoundError as error:
            raise UsageError("to_pandas needs pandas; pip install pandas, or use to_arrow") from error

    def footers(self, *, last: bool = False, as_of: str | datetime | None = None) -> dict[str, Footer | None]:
        """What each file says about itself: rows, schema, statistics of columns. No file is opened.

        Jobs with option ``footers`` keep it, for Parquet, CSV and JSON lines. Arguments and errors are those
        of ``to_arrow``. A second call shows what was published meanwhile.

        Returns:
            A ``Footer`` for each file by its key, relative to the destination; None where nothing is known.
        """
        from magicfs.datasets.footers import footers_at

        return self._opened(last, as_of).run(footers_at, last=last, as_of=as_of)

    # -- the past --------------------------------------------------------------------------------------------

    def history(self, *, limit: int | None = None) -> History:
        """All publications, the newest first. Nothing is changed.

        You can read each with ``to_arrow(as_of=job_id)`` as long as its files are there. A second call shows
        what was published meanwhile.

        Args:
            limit: Only so many, the newest; by default all.

        Returns:
            The publications; an empty list if there are none. Jobs before a manifest that is gone are left
            out if a later job has replaced everything they published and no compaction had noted them.

        Raises:
            UsageError: ``limit`` is less than 1.
        """
        from magicfs.past.history import history

        return history(self.url, limit=limit, **self._way)

    def rollback(
        self,
        to: str | datetime,
        *,
        partitions: str | Sequence[str] | None = None,
        dry_run: bool = False,
        keep: str | timedelta | NotSaid | None = NOT_SAID,
        keep_in_place: bool = False,
        run_id: str | None = None,
        job_id: UUID | str | None = None,
    ) -> RollbackReport:
        """Publish the dataset as it was when a job had been published, as a new job, all or nothing.

        Everything that was published since is taken back, other days included, unless you name
        ``partitions``. A run that was taken back counts as not published: run it again, and it publishes.

        Files that are still there, because ``keep`` of the jobs since has kept them, are not copied.
        The store copies a file that a bucket keeps as an old version, under another name. If this process
        dies, ``recover`` brings the rollback to its end. A second call publishes one more job that shows the
        same; with the same ``run_id`` it changes nothing.

        Args:
            to: The publication: a job id, a run id, a tag or a time, as for ``to_arrow(as_of=…)``. A run id
                means the newest publication of the run.
            partitions: Directories relative to the destination, such as ``"day=2026-01-01"``, with all below:
                these go back, and everything else stays as it is. By default everything goes back.
            dry_run: Change nothing; report what would go and what would come back.
            keep: How long the files that go stay, such as ``"7d"``, so that you can undo this rollback; None
                deletes them for good. You can leave it out only if other jobs keep all of these files.
            keep_in_place: Whether they stay visible on a bucket with versions, too, for readers that know
                names and no versions, such as those of Iceberg and Delta tables.
            run_id: Name of the run: a second rollback with this name finds the first.
            job_id: An id for the new job that was never used; by default a random UUID.

        Returns:
            What was published, and what that changes: publications, files that go, files that come back.

        Raises:
            ObjectNotFound: No such publication, or files of that time were deleted or written over since;
                nothing was changed.
            UsageError: Files would be deleted for good, and ``keep`` was not given; or ``to`` means
                several publications, or what readers saw then is not known; or a partition is not there now
                and was not then; or ``keep_in_place`` came without ``keep``. Nothing was changed.
            CommitDenied: Another job is changing the destination; nothing was changed.
        """
        from magicfs.past.rollback import rollback

        return rollback(
            self.url,
            to=to,
            partitions=partitions,
            dry_run=dry_run,
            keep=keep,
            keep_in_place=keep_in_place,
            run_id=run_id,
            job_id=job_id,
            **self._way,
        )

    def drop(
        self,
        *,
        partitions: str | Sequence[str] | None = None,
        jobs: str | Sequence[str] | None = None,
        where: Where | None = None,
        dry_run: bool = False,
        keep: str | timedelta | NotSaid | None = NOT_SAID,
        keep_in_place: bool = False,
        run_id: str | None = None,
        job_id: UUID | str | None = None,
    ) -> DropReport:
        """Take files out of the dataset, as a job of its own, all or nothing.

        Give at least one of ``partitions``, ``jobs`` and ``where``; files that match all of them are dropped.
        Readers of manifests see all of these files before and none afterwards. What other jobs add at the
        same time stays. If this process dies before the commit point, nothing has changed, and
        ``recover(abort=True)`` cleans up; afterwards ``recover`` finishes it. A second call drops nothing.

        Args:
            partitions: Directories relative to the destination, such as ``"day=2026-01-01"``, with all below.
            jobs: Publications whose files you mean, if readers still see them: job ids, run ids or tags.
            where: A condition such as ``"day < '2026-01-01'"`` that all rows of a file meet. It may name Hive
                partitions, what manifests know of files (``file.size``, ``file.name``, ``file.key``) and, of
                jobs with option ``footers``, columns with statistics; dates are text. Or a function that
                takes a file, as ``files`` returns it.
            dry_run: Change nothing; report what would be dropped.
            keep: As for ``rollback``.
            keep_in_place: As for ``rollback``.
            run_id: As for ``rollback``.
            job_id: As for ``rollback``.

        Raises:
            UsageError: Files would be deleted for good, and ``keep`` was not given; or no choice was
                given, or it is malformed; or ``keep_in_place`` came without ``keep``; or files hold
                rows that meet ``where`` and others that do not, or may not; or there are files that no
                manifest knows. Nothing was changed.
            ObjectNotFound: Nothing was published there, or not what ``jobs`` names.
            CommitDenied: Another job is changing the same files, or has; nothing was changed.
        """
        from magicfs.past.drop import drop

        return drop(
            self.url,
            partitions=partitions,
            jobs=jobs,
            where=where,
            dry_run=dry_run,
            keep=keep,
            keep_in_place=keep_in_place,
            run_id=run_id,
            job_id=job_id,
            **self._way,
        )

    def tag(self, name: str, as_of: str | datetime | None = None, *, move: bool = False) -> str:
        """Name a publication, for ``to_arrow(as_of=name)`` and ``rollback(name)``.

        A tag keeps no file; ``keep`` of the jobs that replace them does. A second call changes nothing.

        Args:
            name: Letters, digits, ``.``, ``_`` and ``-``.
            as_of: The publication: a job id, a run id, another tag or a time; by default the newest.
            move: Let a tag that names another publication name this one.

        Returns:
            The id of the job that it names.

        Raises:
            ObjectNotFound: There is no such publication.
            UsageError: The name cannot be a tag, or names another publication and ``move`` is not given.
        """
        from magicfs.past.tags import tag

        return tag(self.url, name, as_of, move=move, **self._way)

    def untag(self, name: str) -> bool:
        """Remove a tag. The publication stays what it is.

        Args:
            name: The tag.

        Returns:
            Whether there was one; a second call returns False.

        Raises:
            UsageError: The name cannot be a tag.
        """
        from magicfs.past.tags import untag

        return untag(self.url, name, **self._way)

    # -- maintaining -----------------------------------------------------------------------------------------

    def rewrite(
        self,
        *,
        target_size: int = _TARGET_SIZE,
        partitions: str | Sequence[str] | None = None,
        dry_run: bool = False,
        keep: str | timedelta | None = None,
        keep_in_place: bool = False,
        run_id: str | None = None,
    ) -> RewriteReport:
        """Merge small Parquet files, as a job of its own, all or nothing.

        Neighbors in a directory become one file of about ``target_size``, with the same rows in the same
        order, the same schema and metadata, and the compression of the first. Readers of manifests see the
        old files or the new ones, never both. Bloom filters and page indexes are lost. A Spark stream that
        has not read all of the old files needs ``keep``.

        If this process dies before the commit point, nothing has changed, and ``recover(abort=True)`` cleans
        up; afterwards ``recover`` finishes it. A second call finds nothing to do, or merges what was added.
        With the same ``run_id`` it first ends a job that died: it finishes one that was past its commit
        point, and then does nothing; it aborts one that was not, and rewrites.

        Args:
            target_size: Bytes of the largest files to make; files of three quarters of it stay.
            partitions: Only these directories relative to the destination, with all below.
            dry_run: Change nothing; report what would be done.
            keep: How long the old files stay, such as ``"7d"``. By default they are deleted.
            keep_in_place: As for ``rollback``.
            run_id: Name of the run: a second rewrite of that name finds the first, if that changed anything.

        Raises:
            UsageError: There are files that no manifest knows; or ``keep_in_place`` came without
                ``keep``; or pyarrow is not installed. Nothing was changed.
            ObjectNotFound: Nothing was published there; or a file is gone.
            CommitDenied: Another job is changing the same files, or has; nothing was changed; call again.
        """
        from magicfs.tables.rewrite import rewrite

        return rewrite(
            self.url,
            target_size=target_size,
            partitions=partitions,
            dry_run=dry_run,
            keep=keep,
            keep_in_place=keep_in_place,
            run_id=run_id,
            **self._way,
        )

    def expire(self, *, dry_run: bool = False) -> ExpireReport:
        """Delete the replaced files that jobs kept with ``keep`` and whose time is over.

        No file is deleted before its time, none that a rollback shows again, and none that another job keeps
        longer. The clock of the store decides. Call it as often as you like, while jobs and readers are at
        work. A second call finds nothing to do.

        Args:
            dry_run: Change nothing; report what would be deleted.

        Raises:
            CommitDenied: A rollback is unfinished there; nothing was deleted.
            UsageError: The store ignores conditional writes.
            Unavailable: The store did not answer, or others kept moving the pointer: call again.
        """
        from magicfs.past.expire import expire

        return expire(self.url, dry_run=dry_run, **self._way)

    def compact(self, *, dry_run: bool = False) -> CompactReport:
        """Publish one manifest that stands for all before it. The dataset stays exactly what it was.

        No data file is touched, no manifest of a job is removed, and no job waits: call it as often as you
        like, while jobs, streams and other compactions are at work. If a job is published meanwhile, it
        starts again. A second call with no job in between finds nothing to do.

        Args:
            dry_run: Change nothing; report what would be done.

        Raises:
            ObjectNotFound: Nothing was published there.
            UsageError: The sum would be too large, or the store ignores conditional writes.
            Unavailable: Others published each time, or the store did not answer: call again.
        """
        from magicfs.past.compact import compact

        return compact(self.url, dry_run=dry_run, **self._way)

    def register(self, catalog: Catalog, *, force: bool = False) -> RegisterReport:
        """Let a table of a catalog show the dataset as it is published now, and nothing else.

        The table is created if it is not there. It may show any earlier publication, or none: files that came
        are added, files that were replaced or rolled back are removed, in one transaction if the catalog has
        transactions. Only footers of added files are read, and no file of the dataset is written or deleted.

        A second call changes nothing. If this process dies, call again. Any number of calls may run at once,
        also next to jobs: none takes a table back to an older publication.

        Args:
            catalog: ``magicfs.catalogs.Iceberg``, ``Delta``, ``DuckLake``, ``Glue``, ``Hive`` or
                ``SymlinkManifest``.
            force: Bring the table there even if others have added files to it or removed some. What they did
                is undone, as a further version of the table.

        Raises:
            ObjectNotFound: Nothing was published there, or a file that was opened is gone; the catalog was
                not changed.
            UsageError: The catalog cannot show these files, somebody else has changed the table, or its
                library is not installed; the catalog was not changed.
            Unavailable: Others kept changing the table; call again.

        Errors of the catalog's own library pass through. The table then shows what it did, or the dataset:
        call again.
        """
        from magicfs.catalogs.register import register

        return register(self.url, catalog, force=force, **self._way)

    # -- checking and repairing ------------------------------------------------------------------------------

    def verify(self, *, deep: bool = False) -> VerifyReport:
        """Compare the dataset with what the bucket holds. Nothing is changed, and a second call looks again.

        This takes one listing, and a HEAD for each file whose ETag is not that of its manifest: with the
        write id of the manifest it is the same file. Jobs that have not ended are named, too; they are no
        fault of the dataset.

        Args:
            deep: Check the content of all files, too. Jobs with option ``checksums`` have stored a checksum
                for each file; if the store reports the same one, the file is not read. Every other file is
                read from the first byte to the last and compared with its checksum, that of the store, or the
                MD5 in its ETag, as far as there is one. Parquet files must be whole.

        Raises:
            ObjectNotFound: Nothing was published there.
        """
        from magicfs.datasets.verify import verify

        return verify(self.url, deep=deep, **self._way)

    def doctor(self, *, read_only: bool = False) -> DoctorReport:
        """Check versions, credentials, permissions, the store's conditions, leftovers and unfinished jobs.

        Nothing stays changed: two small objects and an upload with random names are written and removed again
        (the directory of a destination on local disks stays). What the store refuses is a finding and raises
        nothing. A second call does the same again.

        Args:
            read_only: Write nothing; then permissions to write and conditions are not tried.
        """
        from magicfs.datasets.checkup import doctor

        return doctor(self.url, read_only=read_only, **self._way)

    def recover(
        self,
        *,
        job: str | None = None,
        rollback: bool = False,
        abort: bool = False,
        dry_run: bool = False,
        cluster: Cluster | str | None = None,
    ) -> RecoverReport:
        """Bring a job whose driver died to its end: exactly the new state, or exactly the old one.

        A job past its commit point is finished. One that is still open is left alone and reported, because
        its driver may be alive; so is a job of Hadoop. Probes of the store that died more than an hour ago
        are removed. You can call it while drivers or other recoveries run. A second call finds nothing.

        Args:
            job: Which job, if several are unfinished.
            rollback: Restore the old state instead. Possible until every file is visible.
            abort: Discard a job that is still open. Its driver, if it lives, can no longer commit it.
            dry_run: Change nothing; report what would be done.
            cluster: Where Hadoop's staging committers keep their work: their jobs are reported, too.

        Raises:
            UsageError: Several jobs are unfinished and none is named, or the named one is not there, or both
                ``rollback`` and ``abort`` are given. Nothing was changed.
            CommitDenied: The job can no longer be rolled back or aborted; nothing was changed.
            CommitFailed: The job cannot be brought to an end; the message says what to do.
            CommitOutcomeUnknown: The store did not answer; nothing was removed; call again.
            FormatError: The job object, or a fact that it names, is malformed; nothing was changed.
        """
        from magicfs.datasets import recover

        return recover(
            self.url, job=job, rollback=rollback, abort=abort, dry_run=dry_run, cluster=cluster, **self._way
        )

    def adopt(self, *, dry_run: bool = False) -> AdoptReport:
        """Add the visible files that no manifest names to the dataset, and repair its manifests.

        Use it for files from before the first job, and after somebody removed or overwrote a file below
        ``_magicfs``, while nobody writes there. No file is deleted, and none that readers saw is hidden. A
        second call finds nothing to do.

        * A lost pointer is made again from the manifests, even if a job is unfinished, which ``recover`` can
          finish then.
        * A lost manifest is replaced by what lies there, and ``lost`` of the report says what could not be
          recovered. If you have a backup of it, put that back instead.
        * A log of publications with a lost file is left. The next ``compact`` writes another one.

        Args:
            dry_run: Change nothing; report what would be done.

        Raises:
            UsageError: A job is unfinished there, or the directory belongs to a table format, or nobody can
                tell which files belong to the dataset, or a manifest is lost on a store that ignores
                conditional writes. Nothing was changed, except for a lost pointer.
            CommitDenied: A job was published meanwhile; nothing was changed.
            FormatError: A list of kept files is broken.
        """
        from magicfs.datasets.adopt import adopt

        return adopt(self.url, dry_run=dry_run, **self._way)

    # -- twins, and how it looks -----------------------------------------------------------------------------

    afiles: Final = awaitable(files)
    ato_arrow: Final = awaitable(to_arrow)
    ato_pandas: Final = awaitable(to_pandas)
    afooters: Final = awaitable(footers)
    ahistory: Final = awaitable(history)
    arollback: Final = awaitable(rollback)
    adrop: Final = awaitable(drop)
    atag: Final = awaitable(tag)
    auntag: Final = awaitable(untag)
    arewrite: Final = awaitable(rewrite)
    aexpire: Final = awaitable(expire)
    acompact: Final = awaitable(compact)
    aregister: Final = awaitable(register)
    averify: Final = awaitable(verify)
    adoctor: Final = awaitable(doctor)
    arecover: Final = awaitable(recover)
    aadopt: Final = awaitable(adopt)

    @property
    def _way(self) -> Way:
        return {"storage_options": self.storage_options, "filesystem": self.filesystem}

    def _opened(self, last: bool, as_of: str | datetime | None) -> Destination:
        from magicfs.datasets.connection import open_destination

        if last and as_of is not None:
            raise UsageError("give either as_of or one job, with last=True or job, not both")
        return open_destination(self.url, for_reading=True, **self._way)

    def __str__(self) -> str:
        return "\n".join(f"{name:<12}{value}" for name, value in self._screen())

    def _repr_html_(self) -> str:
        return html_table(self._screen())

    def _screen(self) -> list[tuple[str, str]]:
        """What is published, in a few lines. What cannot be read is shown in place of it, and not raised."""
        lines = [("dataset", str(self.url))]
        try:
            for one in self.history(limit=1):
                run = f", run {one.run_id}" if one.run_id else ""
                lines.append(("newest", f"job {one.job_id}{run}, {one.published:%Y-%m-%d %H:%M:%S} UTC"))
                files = self.files()
                rows = [file.rows for file in files]
                counted = "" if None in rows else f"{sum(filter(None, rows)):,} rows, "
                lines.append(("files", f"{len(files)} ({counted}{human_bytes(sum(f.size for f in files))})"))
            return lines if len(lines) > 1 else [*lines, ("newest", "nothing was published there")]
        except Exception as error:  # noqa: BLE001 - nobody has asked for a request
            return [*lines, ("problem", str(error))]
