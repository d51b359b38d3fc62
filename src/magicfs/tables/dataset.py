"""``magicfs.Dataset``: a published dataset, and everything you can do with it.

Each verb imports its implementation when you call it: a worker that only reads loads no maintenance code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID, uuid4

from magicfs.errors import UsageError
from magicfs.protocol import ids
from magicfs.protocol.period import NOT_SAID, NotSaid, Period, kept_for
from magicfs.report import html_table
from magicfs.runtime.interrupt import awaitable

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow.compute as pc
    import pyarrow.dataset as ds
    from fsspec.spec import AbstractFileSystem

    from magicfs.catalogs.port import Catalog
    from magicfs.catalogs.register import RegisterReport
    from magicfs.datasets.connection import Destination, Way
    from magicfs.datasets.finders import Cluster
    from magicfs.formats.footer import Footer
    from magicfs.formats.manifest import ManifestFile
    from magicfs.operate.adopt import AdoptReport
    from magicfs.operate.checkup import DoctorReport
    from magicfs.operate.status import DatasetStatus
    from magicfs.past.compact import CompactReport
    from magicfs.past.difference import DiffReport
    from magicfs.past.drop import DropReport, Where
    from magicfs.past.expire import ExpireReport
    from magicfs.past.file_facts import PublishedFile
    from magicfs.past.history import History
    from magicfs.past.retention import Keep
    from magicfs.past.rollback import RollbackReport
    from magicfs.releases.reading import Pinned
    from magicfs.report import RecoverReport, VerifyReport
    from magicfs.tables.rewrite import RewriteReport

_TARGET_SIZE: Final = 128 * 2**20


@dataclass(frozen=True, slots=True)
class _Address:
    """Where a dataset is, and the way there."""

    url: str | PathLike[str]
    storage_options: Mapping[str, Any] | None = field(default=None, kw_only=True, repr=False, hash=False)
    filesystem: AbstractFileSystem | None = field(default=None, kw_only=True, repr=False, hash=False)
    release: str | PathLike[str] | Pinned | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.filesystem is not None and self.storage_options:
            raise UsageError("give either filesystem or storage_options, not both")


class Dataset(_Address):
    """A published dataset: read it, list its history, undo, repair, maintain.

    ::

        sales = magicfs.Dataset("s3://bucket/sales")
        sales.tag("audited")
        sales.to_pandas(as_of="audited")
        sales.rollback("audited", keep="7d")

    It is a value and opens nothing: you can pickle it, and two with equal arguments are equal. Every verb
    reads the store again and uses no cached listing. Every verb has an awaitable twin with an ``a`` in front:
    ``await sales.ahistory()``. If you cancel the twin, the verb stops as it does on Ctrl-C.

    Every verb raises ``UsageError`` for a malformed URL or option, ``StoreError`` if the store refuses or
    does not answer, and ``FormatError`` if a manifest is broken or a newer magicfs wrote it. Each verb lists
    its other errors. If ``rollback``, ``drop`` or ``rewrite`` raise ``CommitOutcomeUnknown``, the store did
    not answer; if they raise ``CommitUnfinished``, the job is published, but readers may not see it yet. In
    both cases call ``recover``.

    Args:
        url: The destination, such as ``s3://bucket/sales``.
        storage_options: Options of the store's fsspec filesystem, which pickles carry and ``repr`` hides.
        filesystem: The filesystem itself, instead of options.
        release: Read the dataset as this release shows it: the URL of a ``Release``, for the newest one at
            each call, or a ``PublishedRelease``. Verbs that change the dataset refuse it.

    Raises:
        UsageError: You gave both ``storage_options`` and ``filesystem``.
    """

    __slots__ = ()

    # -- reading ---------------------------------------------------------------------------------------------

    def files(
        self, *, job: str | None = None, last: bool = False, as_of: str | datetime | None = None
    ) -> list[PublishedFile]:
        """Return exactly the published files: URLs, sizes, rows. Does not need pyarrow.

        A second call includes files published since. Errors are those of ``to_arrow``.

        Args:
            job: Only the files that the job with this id or run id added, whether or not readers still see
                them.
            last: Only the files of the job that was published last.
            as_of: The dataset as it was then, as for ``to_arrow``.
        """
        from magicfs.past.file_facts import published_file
        from magicfs.protocol.modes import is_data

        place, as_of = self._opened(last or job is not None, as_of)
        found = _files_of(place, last, as_of, job)
        return [published_file(found[key], place.location, key) for key in sorted(found) if is_data(key, "")]

    def to_arrow(
        self,
        *,
        last: bool = False,
        as_of: str | datetime | None = None,
        schema: Any = None,
        format: Any = "parquet",  # noqa: A002 - as in pyarrow
        partitioning: Any = "hive",
    ) -> ds.Dataset:
        """Return the dataset for pyarrow, as it is now or was: the visible files of all published jobs.

        It does not follow later jobs. If a later job deletes or overwrites a file, reading that file raises
        ``FileNotFoundError``: call again. Nothing is changed.

        Args:
            last: Only the files of the job that was published last.
            as_of: The dataset as of a publication: a ``datetime`` with a time zone, or the same as text in
                ISO 8601; a job id, a run id or a tag. Prefix ``job:``, ``run:``, ``tag:`` or ``time:`` to be
                explicit. You get all files of that moment, or an error.
            schema: A pyarrow schema; by default the columns of one file of each of the last 16 jobs.
            format: As for ``pyarrow.dataset.dataset``.
            partitioning: As for ``pyarrow.dataset.dataset``; taken from the names below the destination. With
                ``"hive"`` a column is ``int32`` or ``int64`` if all values are whole numbers, else text.
                ``02134`` is text.

        Raises:
            ObjectNotFound: Nothing is published there, or ``as_of`` does not exist, or files of that moment
                were deleted or overwritten.
            UsageError: There are files from before the first job, in no manifest: ``adopt`` adds them; or
                there are no files and no schema; or ``as_of`` matches several publications; or pyarrow is not
                installed.
        """
        try:
            from pyarrow.fs import PyFileSystem

            from magicfs.reading.arrow_files import PublishedFiles
            from magicfs.tables.arrow_dataset import arrow_dataset
        except ImportError as error:
            raise UsageError("to_arrow needs pyarrow; pip install 'magicfs[arrow]'") from error
        from magicfs.protocol.modes import is_data
        from magicfs.protocol.paths import prefix_of

        place, as_of = self._opened(last, as_of)
        at, files = place.location, _files_of(place, last, as_of)
        found = {key: one for key, one in files.items() if is_data(key, "")}
        if not found and schema is None:
            raise UsageError(
                f"the dataset {at.url} has no files; to_arrow(schema=…) reads it as empty, and for pandas "
                "to_arrow(schema=pyarrow.Schema.from_pandas(df)).to_table().to_pandas()"
            )
        base = prefix_of(at.path)
        named = {f"{base}{key}": one for key, one in found.items()}
        places = {f"{base}{key}": f"{base}{one.key}" for key, one in found.items() if one.key != key}
        filesystem = PyFileSystem(PublishedFiles(place.filesystem, named, at, places))
        how = {"schema": schema, "partitioning": partitioning, "format": format, "filesystem": filesystem}
        return arrow_dataset(list(found), at.path, **how)

    def to_pandas(
        self,
        *,
        as_of: str | datetime | None = None,
        columns: Sequence[str] | None = None,
        filter: pc.Expression | None = None,  # noqa: A002 - as in pyarrow
        filters: object = None,
    ) -> pd.DataFrame:
        """Return the rows of the published Parquet files as a DataFrame. A second call reads them again.

        Errors are those of ``to_arrow``, and ``UsageError`` without pandas or if ``filter`` is no expression.

        Args:
            as_of: The dataset as it was then, as for ``to_arrow``.
            columns: Only these columns.
            filter: Only these rows, such as ``pyarrow.compute.field("day") == "2026-01-01"``. Files whose
                partitions or statistics rule them out are not read.
            filters: Not taken: write ``filter``.
        """
        dataset = self.to_arrow(as_of=as_of)
        from pyarrow.compute import Expression

        if filters is not None or not isinstance(filter, Expression | None):
            raise UsageError(
                f"filter={filter!a} is no pyarrow expression, or filters= was given; nothing was read; write "
                'it like filter=pyarrow.compute.field("day") == "2026-01-01"'
            )
        try:
            return dataset.to_table(columns=columns and list(columns), filter=filter).to_pandas()
        except ModuleNotFoundError as error:
            raise UsageError("to_pandas needs pandas; pip install pandas, or use to_arrow") from error

    def footers(self, *, last: bool = False, as_of: str | datetime | None = None) -> dict[str, Footer | None]:
        """Return rows, schema and column statistics of each file, without opening it.

        Jobs with option ``footers`` record them, for Parquet, CSV and JSON lines. Arguments and errors are
        those of ``to_arrow``. A second call includes files published since.

        Returns:
            A ``Footer`` for each file by its key, relative to the destination; None if none is recorded.
        """
        from magicfs.past.footers_at import footers_at

        place, as_of = self._opened(last, as_of)
        return place.run(footers_at, last=last, as_of=as_of)

    # -- the past --------------------------------------------------------------------------------------------

    def history(self, *, limit: int | None = None) -> History:
        """Return all publications, the newest first. Nothing is changed.

        You can read each with ``to_arrow(as_of=job_id)`` as long as its files exist. A second call includes
        later publications.

        Args:
            limit: Only this many, the newest; by default all.

        Returns:
            The publications; an empty list if there are none. If a manifest is missing, jobs before it are
            left out if a later job replaced all of their files and no compaction had recorded them.

        Raises:
            UsageError: ``limit`` is less than 1.
        """
        from magicfs.past.history import history

        return history(self.url, limit=limit, **self._access)

    def diff(self, a: str | datetime, b: str | datetime | None = None) -> DiffReport:
        """Return what differs between two publications: files, rows, bytes, partitions, columns.

        It reads manifests only, and no file. A copy that a rollback made counts as the file that it copied.
        A second call compares again.

        Args:
            a: The first publication: a job id, a run id, a tag or a time, as for ``to_arrow(as_of=…)``.
            b: The second one; by default the dataset as it is now.

        Raises:
            ObjectNotFound: There is no such publication.
            UsageError: The name matches several publications, or the state at that time is not known.
        """
        from magicfs.datasets.connection import on_destination
        from magicfs.past.difference import difference

        return on_destination(difference, self.url, **self._way, a=a, b=b)

    def cherry_pick(
        self,
        which: str,
        *,
        dry_run: bool = False,
        run_id: str | None = None,
        job_id: UUID | str | None = None,
    ) -> RollbackReport:
        """Publish again the files that one earlier job added, next to today's, as a new job that appends.

        Files that the dataset still shows, also as copies, are left out. The others are copied under new
        names: from their places, from where later jobs moved them, or from old versions of the bucket.
        Nothing is removed. If this process dies, ``recover`` finishes the job or reports it. A second call
        adds nothing and raises ``UsageError``; where two may run at once, give both the same ``run_id``.

        Args:
            which: The publication: a job id, a run id or a tag.
            dry_run: Change nothing; report which files would be added.
            run_id: Name of the run: a second call with this name does nothing.
            job_id: An unused id for the new job; by default a random UUID.

        Raises:
            ObjectNotFound: There is no such publication, or its files were deleted or overwritten since.
            UsageError: The dataset shows all of its files already. Nothing was changed.
        """
        from magicfs.datasets.connection import on_destination
        from magicfs.past.cherry_pick import cherry_pick

        job = ids.job_id(uuid4() if job_id is None else job_id)
        how = partial(cherry_pick, which=which, dry_run=dry_run, run_id=run_id, job=job)
        return on_destination(how, self.url, **self._way)

    def rollback(
        self,
        to: str | datetime,
        *,
        partitions: str | Sequence[str] | None = None,
        where: str | None = None,
        dry_run: bool = False,
        keep: Period | NotSaid | None = NOT_SAID,
        keep_in_place: bool = False,
        run_id: str | None = None,
        job_id: UUID | str | None = None,
    ) -> RollbackReport:
        """Publish an earlier state of the dataset again, atomically, as a new job.

        This takes back everything published since, including other days, unless you name ``partitions``. A
        run that was taken back counts as not published: if you run it again, it publishes.

        Files that are still in their places are not copied. A file that a later job moved aside, or that is
        only an old version, is copied under another name. If this process dies, ``recover`` finishes the
        rollback. A second call publishes the same state once more; with the same
        ``run_id`` it changes nothing.

        Args:
            to: The publication: a job id, a run id, a tag or a time, as for ``to_arrow(as_of=…)``. A run id
                means the newest publication of the run.
            partitions: Roll back only these directories, relative to the destination, such as
                ``"day=2026-01-01"``, with everything below them. By default, everything is rolled back.
            where: Roll back only the partitions that meet this condition on Hive partition values, such as
                ``"day >= '2026-01-01'"``, instead of ``partitions``.
            dry_run: Change nothing; report which files would be removed and which restored.
            keep: How long removed files are kept, such as ``"7d"``, so that you can undo this rollback; None
                deletes them for good. By default as long as the newest job that still keeps files does, or
                7 days.
            keep_in_place: Whether they stay where they are, for readers that know only names, such as those
                of Iceberg and Delta tables. Without ``keep``, this is the default for a
                ``magicfs.catalogs.Delta`` table.
            run_id: Name of the run: a second rollback with this name does nothing.
            job_id: An unused id for the new job; by default a random UUID.

        Returns:
            What was published, and its changes: publications, removed files, restored files.

        Raises:
            ObjectNotFound: There is no such publication, or its files were deleted or overwritten since;
                nothing was changed.
            UsageError: ``to`` matches several publications, or the state at that time is not known; or a
                partition exists neither now nor then; or you gave ``keep_in_place`` with ``keep=None``.
                Nothing was changed.
            CommitDenied: Another job is changing the destination; nothing was changed.
        """
        from magicfs.datasets.connection import on_destination
        from magicfs.past.effects import partition_names
        from magicfs.past.rollback import look_and_roll_back
        from magicfs.past.row_condition import parse_condition

        how = self._new_job(keep, keep_in_place, run_id, job_id)
        if where is not None and partitions is not None:
            raise UsageError("give partitions or where, not both; nothing was changed")
        how |= {"to": to, "partitions": partition_names(partitions), "dry_run": dry_run}
        how |= {"where": None if where is None else parse_condition(where)}
        return on_destination(look_and_roll_back, self.url, verb="rollback", **how)

    def drop(
        self,
        *,
        partitions: str | Sequence[str] | None = None,
        jobs: str | Sequence[str] | None = None,
        where: Where | None = None,
        dry_run: bool = False,
        keep: Period | NotSaid | None = NOT_SAID,
        keep_in_place: bool = False,
        run_id: str | None = None,
        job_id: UUID | str | None = None,
    ) -> DropReport:
        """Remove files from the dataset, atomically, as a new job.

        Give at least one of ``partitions``, ``jobs`` and ``where``; files that match all of them are removed.
        Readers of manifests see all of these files before and none afterwards. Files that other jobs add at
        the same time stay. If this process dies before the commit point, nothing was changed, and
        ``recover(abort=True)`` cleans up; after it, ``recover`` finishes the job. A second call does nothing.

        Args:
            partitions: Directories relative to the destination, such as ``"day=2026-01-01"``, with everything
                below them.
            jobs: Publications whose files to remove: job ids, run ids or tags.
            where: A condition such as ``"day < '2026-01-01'"`` that all rows of a file meet. It can use Hive
                partitions, file attributes (``file.size``, ``file.name``, ``file.key``) and, for jobs with
                option ``footers``, columns with statistics; dates are text. Or a function that gets a file as
                ``files`` returns it.
            dry_run: Change nothing; report what would be dropped.
            keep: As for ``rollback``.
            keep_in_place: As for ``rollback``.
            run_id: As for ``rollback``.
            job_id: As for ``rollback``.

        Raises:
            UsageError: You chose no files, or the choice is malformed; or you gave ``keep_in_place`` with
                ``keep=None``; or files have, or may have, both rows that match ``where`` and rows that do
                not; or files are in no manifest. Nothing was changed.
            ObjectNotFound: Nothing is published there, or a publication in ``jobs`` does not exist.
            CommitDenied: Another job is changing or has changed the same files; nothing was changed.
        """
        from magicfs.datasets.connection import on_destination
        from magicfs.past.drop import Order, drop_files

        how = self._new_job(keep, keep_in_place, run_id, job_id)
        how |= {"order": Order.of(partitions, jobs, where), "look": True, "dry_run": dry_run}
        return on_destination(drop_files, self.url, verb="drop", **how)

    def tag(
        self, name: str, as_of: str | datetime | None = None, *, move: bool = False, keep: bool = False
    ) -> str:
        """Name a publication, for ``to_arrow(as_of=name)`` and ``rollback(name)``.

        A second call changes nothing. If this process dies, call again.

        Args:
            name: Letters, digits, ``.``, ``_`` and ``-``.
            as_of: The publication: a job id, a run id, another tag or a time; by default the newest.
            move: Move the tag if it names another publication.
            keep: Keep the files of the publication as long as the tag names it, whatever jobs replace them.
                Otherwise only ``keep`` of those jobs does. After ``untag``, ``expire`` deletes what has been
                replaced.

        Returns:
            The id of the job that the tag names.

        Raises:
            ObjectNotFound: There is no such publication, or with ``keep``, a file of it is gone.
            UsageError: The name is not valid, or names another publication and ``move`` is False.
            CommitDenied: With ``keep``, a job is replacing files at this moment; nothing was tagged.
        """
        from magicfs.past.tags import tag

        return tag(self.url, name, as_of, move=move, keep=keep, **self._way)

    def untag(self, name: str) -> bool:
        """Remove a tag. The publication itself does not change.

        Args:
            name: The tag.

        Returns:
            Whether there was one; a second call returns False.

        Raises:
            UsageError: The name is not valid.
        """
        from magicfs.past.tags import untag

        return untag(self.url, name, **self._way)

    # -- maintaining -----------------------------------------------------------------------------------------

    def rewrite(
        self,
        *,
        target_size: int | str = _TARGET_SIZE,
        partitions: str | Sequence[str] | None = None,
        dry_run: bool = False,
        keep: Period | None = None,
        keep_in_place: bool = False,
        run_id: str | None = None,
    ) -> RewriteReport:
        """Merge small Parquet files, atomically, as a new job.

        Adjacent files of a directory become one file of about ``target_size``, with the same rows in the same
        order, the same schema and metadata, and the compression of the first. Readers of manifests see either
        the old files or the new ones. Bloom filters and page indexes are lost. A Spark stream that has not
        read all of the old files needs ``keep``.

        If this process dies before the commit point, nothing was changed, and ``recover(abort=True)`` cleans
        up; after it, ``recover`` finishes the job. A second call does nothing, or merges new files. With the
        same ``run_id`` it first ends a job that died: it finishes a job past its commit point and then does
        nothing, or aborts it and rewrites.

        Args:
            target_size: Size of the new files, in bytes or as ``"128M"``; files of at least 3/4 of it stay.
            partitions: Only these directories relative to the destination, with everything below them.
            dry_run: Change nothing; report what would be done.
            keep: How long the old files stay, such as ``"7d"``. By default they are deleted.
            keep_in_place: As for ``rollback``.
            run_id: Name of the run: a second rewrite with this name does nothing if the first changed files.

        Raises:
            UsageError: Files are in no manifest; or you gave ``keep_in_place`` without ``keep``; or pyarrow
                is not installed. Nothing was changed.
            ObjectNotFound: Nothing is published there, or a file is missing.
            CommitDenied: Another job is changing or has changed the same files; nothing was changed.
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

    def expire(self, *, keep: Keep | None = None, dry_run: bool = False) -> ExpireReport:
        """Delete replaced files that jobs kept with ``keep`` and that have expired.

        It never deletes a file early, a file that a rollback restored, or one that another job, a tag or a
        rule keeps longer. The store's clock decides. You can call it at any time, while jobs and readers are
        running. A second call does nothing.

        Args:
            keep: A rule for expired files, such as ``magicfs.Keep(daily=7, weekly=5)``: files of publications
                that it keeps stay. What one job replaced stays or goes together.
            dry_run: Change nothing; report what would be deleted.

        Raises:
            CommitDenied: A rollback is unfinished there; nothing was deleted.
            UsageError: The store ignores conditional writes.
            Unavailable: The store did not answer, or others kept changing the pointer: call again.
        """
        from magicfs.past.expire import expire

        return expire(self.url, keep=keep, dry_run=dry_run, **self._way)

    def compact(self, *, dry_run: bool = False) -> CompactReport:
        """Merge all manifests into one, so that readers start faster. The dataset does not change.

        It touches no data file, removes no manifest of a job and blocks no job: you can call it at any time,
        while jobs, streams and other compactions are running. If a job is published meanwhile, it starts
        over. A second call with no job in between does nothing.

        Args:
            dry_run: Change nothing; report what would be done.

        Raises:
            ObjectNotFound: Nothing is published there.
            UsageError: The manifest would be too large, or the store ignores conditional writes.
            Unavailable: Other jobs were published each time, or the store did not answer: call again.
        """
        from magicfs.past.compact import compact

        return compact(self.url, dry_run=dry_run, **self._way)

    def register(self, catalog: Catalog, *, force: bool = False) -> RegisterReport:
        """Make a table of a catalog show exactly the dataset as it is published now.

        Creates the table if it does not exist, or updates it from any earlier publication: adds new files and
        removes replaced ones, in one transaction if the catalog has transactions. It reads only the footers
        of added files, and writes or deletes no file of the dataset.

        A second call changes nothing. If this process dies, call again. Any number of calls can run at once,
        even while jobs are running: none takes a table back to an older publication.

        Args:
            catalog: ``magicfs.catalogs.Iceberg``, ``Delta``, ``DuckLake``, ``Glue``, ``Hive`` or
                ``SymlinkManifest``.
            force: Update the table even if others added or removed files. This undoes their changes, as a new
                version of the table.

        Raises:
            ObjectNotFound: Nothing is published there, or a file is missing; the catalog was not changed.
            UsageError: The catalog does not support these files, another program changed the table, or the
                catalog's library is not installed; the catalog was not changed.
            Unavailable: Others kept changing the table; call again.

        Errors of the catalog's own library pass through. The table then shows its old state or the dataset:
        call again.
        """
        from magicfs.catalogs.register import register

        return register(self.url, catalog, force=force, **self._way)

    # -- checking and repairing ------------------------------------------------------------------------------

    def verify(self, *, deep: bool = False) -> VerifyReport:
        """Compare the dataset with the bucket. Nothing is changed, and a second call compares again.

        Sends one listing, and a HEAD for each file whose ETag differs from its manifest's: if it has the
        manifest's write id, it is the same file. The report also names jobs that have not ended; they are not
        an error of the dataset.

        Args:
            deep: Also check the content of all files. Jobs with option ``checksums`` record a checksum for
                each file; if the store reports the same one, the file is not read. Every other file is read
                completely and compared with its checksum, that of the store, or the MD5 in its ETag, if there
                is one. Parquet files have to be complete.

        Raises:
            ObjectNotFound: Nothing is published there.
        """
        from magicfs.operate.verify import verify

        return verify(self.url, deep=deep, **self._access)

    def doctor(self, *, read_only: bool = False) -> DoctorReport:
        """Check versions, credentials, permissions, the store's conditions, leftovers and unfinished jobs.

        It writes two small objects and an upload with random names and removes them again (on a local disk,
        the destination's directory stays). A refusal of the store is a finding, not an error. A second call
        does the same again.

        Args:
            read_only: Write nothing; then write permissions and conditions are not checked.
        """
        from magicfs.operate.checkup import doctor

        return doctor(self.url, read_only=read_only, **self._access)

    def status(self, *, price: float | None = None) -> DatasetStatus:
        """Return unfinished work: open jobs and uploads, kept files, tables that lag behind, and their cost.

        Nothing is changed, and a second call looks again. What cannot be read is listed under ``problems``.

        Args:
            price: Dollars per GiB and month; by default from a price list.
        """
        from magicfs.operate.prices import price_of
        from magicfs.operate.status import dataset_status

        place, _ = self._opened(last=True, as_of=None)
        return place.run(dataset_status, price_of(place.engine.store.name, price))

    def recover(
        self,
        *,
        job: str | None = None,
        rollback: bool = False,
        abort: bool = False,
        dry_run: bool = False,
        reason: str | None = None,
        cluster: Cluster | str | None = None,
    ) -> RecoverReport:
        """Finish or undo a job whose driver died: afterwards the dataset is exactly new, or exactly old.

        Finishes a job that is past its commit point. Leaves and reports an open job, because its driver may
        be running, and Hadoop jobs. Also removes probe objects that are older than an hour. You can call it
        while drivers or other recoveries are running. A second call does nothing.

        Args:
            job: Which job; ``rollback`` and ``abort`` need it if several jobs are unfinished.
            rollback: Restore the old state instead. Possible until every file is visible.
            abort: Discard a job that is still open. If its driver is running, it can no longer commit.
            dry_run: Change nothing; report what would be done.
            reason: Why you abort it or roll it back. ``magicfs log --all`` then shows it, with your name.
            cluster: Where Hadoop's staging committers keep their work, to report their jobs, too.

        Raises:
            UsageError: Several jobs are unfinished, and you named none to roll back or abort; or the job does
                not exist, or you gave both ``rollback`` and ``abort``. Nothing was changed.
            CommitDenied: The job can no longer be rolled back or aborted; nothing was changed.
            CommitFailed: The job cannot be finished; the message says what to do.
            CommitOutcomeUnknown: The store did not answer; nothing was removed; call again.
            FormatError: The job object, or a file that it names, is malformed; nothing was changed.
        """
        from magicfs.datasets import recover

        asked = {"rollback": rollback, "abort": abort, "dry_run": dry_run}
        return recover(self.url, job=job, reason=reason, cluster=cluster, **asked, **self._way)

    def adopt(self, *, dry_run: bool = False) -> AdoptReport:
        """Add visible files that are in no manifest to the dataset, and repair its manifests.

        Use it for files from before the first job, or after somebody removed or overwrote a file below
        ``_magicfs``, while no job is running there. It deletes no file, and hides none from readers. A second
        call does nothing.

        * Rebuilds a missing pointer from the manifests, even if a job is unfinished; ``recover`` can then
          finish that job.
        * Links the jobs again that an older copy of the pointer does not lead to. If others were published
          since, it adds the files of those jobs, and their runs count as published.
        * Replaces a missing manifest by the files that exist, and ``lost`` of the report lists what could not
          be recovered. If you have a backup of the manifest, restore that instead.
        * Ignores a log of publications with a missing file. The next ``compact`` writes a new one.

        Args:
            dry_run: Change nothing; report what would be done.

        Raises:
            UsageError: A job is unfinished there, or the directory belongs to a table format, or it is not
                known which files belong to the dataset, or a manifest is missing on a store that ignores
                conditional writes. Nothing was changed, except that the pointer may lead to jobs again.
            CommitDenied: A job was published meanwhile; the same.
            FormatError: A list of kept files is broken.
        """
        from magicfs.operate.adopt import adopt

        return adopt(self.url, dry_run=dry_run, **self._way)

    # -- twins, and how it looks -----------------------------------------------------------------------------

    afiles: Final = awaitable(files)
    ato_arrow: Final = awaitable(to_arrow)
    ato_pandas: Final = awaitable(to_pandas)
    afooters: Final = awaitable(footers)
    ahistory: Final = awaitable(history)
    adiff: Final = awaitable(diff)
    acherry_pick: Final = awaitable(cherry_pick)
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
    astatus: Final = awaitable(status)
    arecover: Final = awaitable(recover)
    aadopt: Final = awaitable(adopt)

    @property
    def _access(self) -> Way:
        return {"storage_options": self.storage_options, "filesystem": self.filesystem}

    @property
    def _way(self) -> Way:
        """The same for verbs that change the dataset."""
        if self.release is not None:
            raise UsageError(
                "a dataset of a release can only be read; nothing was changed; leave release= out to change "
                f"the dataset {self.url} itself"
            )
        return self._access

    def _new_job(self, keep: Any, keep_in_place: bool, run_id: str | None, job_id: Any) -> dict[str, Any]:
        """What verbs take that publish a job."""
        return {
            "keep_ms": keep if keep is NOT_SAID else kept_for(keep, keep_in_place=keep_in_place),
            "keep_in_place": keep_in_place,
            "keep_rule": getattr(keep, "rule", ""),
            "run_id": run_id,
            "job": ids.job_id(uuid4() if job_id is None else job_id),
            **self._way,
        }

    def _opened(self, last: bool, as_of: str | datetime | None) -> tuple[Destination, str | datetime | None]:
        """The way to the store, and as of when to read."""
        from magicfs.datasets.connection import open_destination

        if last and as_of is not None:
            raise UsageError("give either as_of or one job, with last=True or job, not both")
        place = open_destination(self.url, for_reading=True, **self._access)
        if self.release is None:
            return place, as_of
        from magicfs.releases.reading import job_in

        if last or as_of is not None:
            raise UsageError("a release fixes what is read: leave out as_of, last and job, or release")
        return place, f"job:{job_in(self.release, place, self._access)}"

    def __str__(self) -> str:
        return "\n".join(f"{name:<12}{value}" for name, value in self._screen())

    def _repr_html_(self) -> str:
        return html_table(self._screen())

    def _screen(self) -> list[tuple[str, str]]:
        """The short form of ``status``. What cannot be read is shown in place of it, and not raised."""
        try:
            return self.status().short()
        except Exception as error:  # noqa: BLE001 - nobody has asked for a request
            return [("dataset", str(self.url)), ("problem", str(error))]


def _files_of(
    place: Destination, last: bool, as_of: str | datetime | None, job: str | None = None
) -> Mapping[str, ManifestFile]:
    """The files by relative keys, each with the key where it lies now."""
    from magicfs.datasets.read import files_of_dataset
    from magicfs.past.earlier_files import files_as_of

    if as_of is not None:
        return place.run(files_as_of, as_of)
    return place.run(files_of_dataset, last, job)
