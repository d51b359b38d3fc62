"""``Job``, the API for programs and engines; ``Task`` is its part that runs on workers."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from inspect import signature
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Never, Self
from uuid import UUID, uuid4

from magicfs.errors import ProtocolViolation
from magicfs.formats.job_options import Audits, JobOptions, Places, Rerun
from magicfs.formats.task_commit import TaskCommit
from magicfs.job import commit as job_commit
from magicfs.job.checks import check_words, given_options, keep_of, settled
from magicfs.job.commit import log_found
from magicfs.job.map import Maps
from magicfs.job.spec import JobSpec, choose_committer, destination_of, keys_of, other_keys_of
from magicfs.job.task import OpenAttempts, Task
from magicfs.protocol import ids
from magicfs.protocol.modes import WriteMode
from magicfs.protocol.period import Period
from magicfs.report import JobReport, ProgressCallback
from magicfs.runtime import registered, watchers
from magicfs.runtime.interrupt import Call, Twins, awaitable
from magicfs.transaction.context import JobSetup

if TYPE_CHECKING:
    from fsspec.spec import AbstractFileSystem

    from magicfs.job.commit import GivenRule

_LOGGER = logging.getLogger("magicfs")


class Job(Twins, Maps):
    """Publishes what many tasks write below one URL, all or nothing.

    As a context manager it sets itself up, commits its committed tasks, and aborts if the body raises. You
    can pickle a job, without secrets and its progress callback: the copy can set up tasks and commit. A fork
    of the process that set it up can only run tasks. Ctrl-C aborts the job; past its commit point, it waits
    until the job is published. ``async with`` and the twins ``asetup``, ``amap``, ``acommit`` and ``aabort``
    do the same without blocking your event loop.

    Args:
        url: The destination directory, such as ``s3://bucket/sales``, or a path of ``pathlib`` or
            ``upath``.
        mode: What to do about existing data. ``error`` publishes only where there is none, ``append`` leaves
            it as it is, ``overwrite`` removes all of it once the new files are visible,
            ``overwrite_partitions`` removes it from the partitions that the job writes to.
        run_id: Name of the run, such as a scheduler's. Setup finishes an earlier job of the same run if that
            had started to publish, and aborts it otherwise. If the run is already published, see ``rerun``.
        rerun: What to do if the run is already published (``found.published``): ``skip`` discards the
            tasks' files, and the report and the log say so; ``overwrite``, with ``mode="overwrite"`` or
            ``"overwrite_partitions"``, publishes again and removes the files that the run published before;
            ``error`` raises at setup. A run that you rolled back or dropped does not count as published.
        keep: How long replaced files stay, such as ``"7d"`` or ``magicfs.Keep(daily=7)``. Until then, readers
            of manifests can use an older list of files, you can read the dataset ``as_of`` an earlier moment,
            and roll back to it. The job moves the files to ``_magicfs/kept``, where most readers do not look;
            an S3 bucket with versioning keeps them as hidden versions. ``Dataset.expire`` deletes them
            afterwards. By default, the job deletes them as soon as the new files are visible.
        audit: Rules of ``magicfs.audit``, or functions, that check the files before they are published, by
            their statistics: ``docs/audit.md``. They imply option ``footers``, and are pickled with the job.
            The job object records them: if the driver dies before the audit, only a job that has rules, or
            ``magicfs recover --accept``, can publish.
        catalogs: Tables that ``commit`` updates as soon as the job is published, such as
            ``[magicfs.catalogs.Delta()]``, as ``Dataset.register`` does. A failure is only a warning in the
            report, because the job is published. They stay in the driver and are not pickled. If the driver
            dies first, ``magicfs recover`` registers those that can be found by name.
        storage_options: Options of the wrapped filesystem, as for fsspec (``{"endpoint_url": …}``).
        filesystem: The fsspec filesystem to use, instead of ``storage_options``.
        committer: Name of the committer; ``"auto"`` takes the best one that the store supports, and
            ``spec.reason`` and the log ``magicfs`` say why.
        concurrency: Maximum number of requests at once, in tasks and in the job commit. With the default, the
            job commit starts there, and adapts: more while that is faster, fewer if the store throttles.
        progress: Called with a ``Progress`` after every file, on the I/O thread; it must be quick. True
            shows a progress bar on stderr, with rich or tqdm if installed, otherwise as plain lines.
        job_id: An id that your engine chose and never uses again; by default a random UUID.
        options: Everything else, by name, such as ``{"footers": True, "part_size": 64 << 20}``: the options
            in ``docs/job-options.md``, and those of the committer.

    Raises:
        UsageError: An argument is wrong. Nothing was changed.
    """

    def __init__(
        self,
        url: str | os.PathLike[str],
        *,
        mode: WriteMode = "error",
        run_id: str | None = None,
        rerun: Rerun = "skip",
        keep: Period | None = None,
        audit: Sequence[GivenRule] = (),
        catalogs: Sequence[job_commit.ShowsDatasets] = (),
        storage_options: Mapping[str, Any] | None = None,
        filesystem: AbstractFileSystem | None = None,
        committer: str = "magic",
        concurrency: int = 32,
        progress: ProgressCallback | bool | None = None,
        job_id: UUID | str | None = None,
        options: Mapping[str, Any] | None = None,
        **unknown: Never,
    ) -> None:
        if unknown:
            check_words("magicfs.Job", unknown, signature(Job).parameters)
        location, of_store = destination_of(url, storage_options, filesystem)
        committer, reason = choose_committer(committer, location, of_store, filesystem)
        given, own, of_committer = given_options(options, committer)
        job = ids.job_id(uuid4() if job_id is None else job_id)
        found_by_name = given.get("unique_names", True) and ids.is_random(job)
        extra, others = given.pop("extra_destinations", ()), given.pop("also_overwrite", ())
        in_place = given.pop("keep_in_place", False)
        asked = JobOptions.asked(
            given | ({"footers": True} if audit else {}),
            committer=committer,
            mode=mode,
            run_id=run_id,
            rerun=rerun,
            keep=keep_of(keep, in_place=in_place, has_catalogs=bool(catalogs)),
            audit=Audits(rules=job_commit.names_of(audit)),
            places=Places(
                extra=keys_of(extra, location, committer, uploads_found_by_name=found_by_name)
                if extra
                else (),
                also_overwrite=other_keys_of(others, location, mode) if others else (),
            ),
            hadoop=settled(own["hadoop"], committer),
        )
        self.spec: JobSpec = JobSpec(
            location=location,
            job=job,
            options=asked,
            attempt=own["attempt"],
            concurrency=concurrency,
            hadoop=own["hadoop"],
            file_checks=job_commit.content_checks(audit),
            committer_options=of_committer,
            reason=reason,
            storage_options=of_store,
            filesystem=filesystem,
        )
        self._catalogs = job_commit.shown_in(catalogs, own["after"], self.spec)
        self._audit, self._audit_failure = tuple(audit), own["audit_failure"]
        bar = registered.load(job_commit.BARS, "bar")() if progress is True else None
        self._bar: job_commit.NoBar = bar or job_commit.NoBar()
        self._progress: ProgressCallback | None = progress if callable(progress) else bar
        self._is_current_driver = own["is_current_driver"]
        self._state: job_commit.JobState = "new"
        self._process: int | None = None  # the one that set the job up, or loaded it from a pickle
        self._call: Call[JobReport] | None = None  # the last commit
        self._attempts = OpenAttempts()
        self._commits: list[TaskCommit] = []
        self._report: JobReport | None = None
        self._found: JobSetup | None = None
        self._lock = threading.Lock()

    @property
    def id(self) -> str:
        """The job's id."""
        return self.spec.job

    @property
    def url(self) -> str:
        """The destination."""
        return self.spec.location.url

    @property
    def report(self) -> JobReport:
        """What the job commit did.

        Raises:
            ProtocolViolation: The job is not committed.
        """
        self._look()
        if self._report is None:
            raise ProtocolViolation(f"job {self.id} has no report: {job_commit.NO_REPORT[self._state]}")
        return self._report

    @property
    def found(self) -> JobSetup:
        """What ``setup`` found at the destination: unfinished jobs and pending uploads, with their dates.

        Raises:
            ProtocolViolation: The job is not set up.
        """
        if self._found is None:
            raise ProtocolViolation(f"job {self.id} is not set up; call setup() first, or use a with block")
        return self._found

    def setup(self) -> Self:
        """Check the destination and write the job object. Existing data stays as it is.

        ``found``, and the log ``magicfs`` at INFO, list what is there. A second call does nothing. If you set
        up another ``Job`` with the same ``job_id``, it takes over, and only that one can commit.

        Raises:
            UsageError: The destination is a file, or a Delta Lake or Apache Iceberg table; or the job
                would delete files of another dataset or of an unfinished job, below or above it.
            OutputExists: Data exists and ``mode="error"``, or the run is published and ``rerun="error"``.
            CommitDenied: A job with this id is past its commit point.
            ObjectNotFound: The bucket does not exist; magicfs does not create it.
            PermissionDenied: The credentials do not work.
        """
        if self._state == "new":
            self._process = os.getpid()
            call = Call(self.spec.loop, self.spec.make_committer().setup_job)
            try:
                with watchers.work("setup", **self.spec.facts):
                    found = call.run()
            except BaseException as error:
                if call.succeeded:  # the interruption came too late to stop it
                    self._found, self._state = call.result(), "open"
                    self._abort_after(error)
                job_commit.tell_interruption(call, self.spec, self._state)
                raise
            self._found, self._state = found, "open"
            self.spec.tell_filesystem()
            log_found(self.url, self.id, found, self.spec)
        self._require_open("setup")
        return self

    def task(self, task: int | str) -> Task:
        """Return a task of this job, to use here or to pickle and run elsewhere.

        Args:
            task: A number from 0, or text that is safe in a key.
        """
        if self._state == "open" and self._is_forked:
            return Task(self.spec, ids.task_id(task), is_elsewhere=True)  # as one that was pickled
        self._require_open("task")
        spec, note = self.spec, self._attempts.note
        return Task(spec, ids.task_id(task), on_commit=self.add, check=self._require_state, on_state=note)

    def add(self, commit: TaskCommit) -> None:
        """Add a commit that another process returned, to be published at the end of the ``with`` block.

        Raises:
            ProtocolViolation: The job has ended, or the commit belongs to another job.
        """
        self._require_open("add")
        if commit.job_id != self.id:
            raise ProtocolViolation(
                f"task {commit.task_id} was committed for job {commit.job_id}, not {self.id}"
            )
        with self._lock:
            self._commits.append(commit)
        self._bar.committed(commit)

    @property
    def commits(self) -> tuple[TaskCommit, ...]:
        """All commits so far, from tasks of this process and from ``add``."""
        with self._lock:
            return tuple(self._commits)

    def commit(
        self,
        commits: Iterable[TaskCommit] | None = None,
        *,
        tasks: int | None = None,
        audit: Sequence[GivenRule] = (),
    ) -> JobReport:
        """Publish exactly the given commits; without an argument, all that a listing finds.

        If a listing finds several committed attempts of a task, the last one counts, by the second. A second
        call continues where the first one stopped.

        Args:
            commits: The commits that your engine accepted.
            tasks: The number of tasks that must have committed, if you know it.
            audit: More rules, in addition to those of the job; they need its option ``footers``, and none can
                be a ``FileCheck``, because the tasks have already run.

        Raises:
            UsageError: The tasks of the job did not have a rule of the audit; nothing was changed.
            ProtocolViolation: The job has ended, or commits are missing or do not belong together.
            OutputExists: The mode does not allow publishing onto existing data; nothing was changed.
            CommitDenied: Another driver or job was faster, or the engine has replaced this driver; no file of
                this job is visible. Or another process ended the job without all of these commits: the
                message names the missing files.
            AuditFailed: The audit failed. No file is visible; the job is in quarantine or aborted, depending
                on ``audit_failure``.
            CommitFailed: The commit failed; files that had become visible were removed again.
            CommitOutcomeUnknown: The store did not answer; nothing was removed; call again, or recover.
            CommitUnfinished: Every file is visible, but readers of manifests may not see them; call again, or
                recover.
            StoreError: The commits could not be read; nothing was changed; call again or abort.
        """
        self._look()
        if self._state not in {"undecided", "unfinished"}:
            self._require_open("commit")
        chosen = None if commits is None else list(commits)
        if self.found.published is None:
            self._attempts.require_some(self.id, chosen, allow_empty=self.spec.options.allow_empty)
        if self._catalogs:
            job_commit.shows().note(self.spec, self._catalogs)
        self._call = call = job_commit.commit_call(
            self.spec,
            self.found,
            chosen,
            tasks,
            progress=self._progress,
            is_current_driver=self._is_current_driver,
            warnings=lambda: self._attempts.warnings(self.commits if chosen is None else chosen),
            audit=((*self._audit, *audit), self._audit_failure),
        )
        try:
            with watchers.work("commit", **self.spec.facts):
                call.run()
        except BaseException as error:
            self._look()
            if call.interrupted:
                if self._state == "open":
                    self._abort_after(error)
                job_commit.tell(error, self.spec, self._state)
            raise
        if self._catalogs:
            self._report = job_commit.shows().shown_by(self.report, self.spec, self._catalogs)
        return self.report

    def _look(self) -> None:
        """Take over what has become of the last commit, which may have gone on after an interruption."""
        call = self._call
        if call is not None:
            self._state = job_commit.state_after(call)
            if (report := job_commit.report_of(call)) is not None:
                self._report = report
                self.spec.wrapped().invalidate_cache()
            if call.ended:
                self._bar.close()
                self._call = None

    def abort(self) -> None:
        """Discard everything of the job, including files that an interrupted commit made visible.

        A second call does nothing.

        Raises:
            ProtocolViolation: The job is committed, here or elsewhere.
            CommitDenied: Another driver took over the job, or the engine has replaced this driver.
            StoreError: Something could not be discarded; call again.
        """
        self._look()
        if self._state == "aborted":
            return
        self._require_own_process("abort")
        if self._state in {"committed", "unfinished"}:
            raise ProtocolViolation(f"job {self.id} is published and can no longer be aborted")
        # In quarantine it has another one.
        driver = None if self._found is None or self._state == "quarantined" else self._found.driver
        asking = {"is_current_driver": self._is_current_driver}
        abort = partial(self.spec.make_committer().abort_job, self.commits, driver, **asking)
        waiting = f"job {self.id} is being aborted, waiting for it to finish; interrupt again to stop waiting"
        call = Call(self.spec.loop, abort, whole=True, waiting=waiting)
        try:
            with watchers.work("abort", **self.spec.facts):
                call.run()
        finally:
            self._bar.close()
            if call.succeeded:
                self._state = "aborted"
                if self._catalogs:
                    job_commit.shows().forget(self.spec, self._catalogs)
            job_commit.tell_interruption(call, self.spec, self._state)

    asetup: Final = awaitable(setup)
    acommit: Final = awaitable(commit)
    aabort: Final = awaitable(abort)

    def __enter__(self) -> Self:
        return self.setup()

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._look()
        if self._state != "open":
            return
        if self._is_forked:
            _LOGGER.warning("job %s: a forked process left the with block; nothing was done there", self.id)
            return
        if exc is None:
            try:
                job_commit.require_complete(self.spec, self.commits)
                self.commit(self.commits)
            except BaseException as error:
                if self._state == "open":
                    self._end_by(error)
                raise
            return
        self._end_by(exc)

    def __getstate__(self) -> dict[str, Any]:
        self._look()
        state = {name: value for name, value in self.__dict__.items() if name not in job_commit.NOT_PICKLED}
        # What lay at the destination is the driver's to know.
        state["_found"] = self._found and JobSetup(self._found.driver, published=self._found.published)
        return state | {"_commits": list(self.commits)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock, self._progress, self._is_current_driver = threading.Lock(), None, None
        self._bar = job_commit.NoBar()
        self._attempts, self._call, self._process, self._catalogs = OpenAttempts(), None, os.getpid(), ()

    def _repr_html_(self) -> str:
        self._look()
        return job_commit.html_of_job(self.spec, self._state, self.commits, self._report)

    def __repr__(self) -> str:
        self._look()
        return f"<Job {self.id} to {self.url}, {self._state}>"

    @property
    def _is_forked(self) -> bool:
        return self._process is not None and self._process != os.getpid()

    def _require_own_process(self, call: str) -> None:
        if self._is_forked:
            raise ProtocolViolation(
                f"job {self.id} was set up by process {self._process}, of which this process is a fork; "
                f"only that process may call {call}(); nothing was changed; return the result of "
                "task.commit to it"
            )

    def _require_open(self, call: str) -> None:
        self._require_own_process(call)
        self._require_state(call)

    def _require_state(self, call: str) -> None:
        self._look()
        if self._state != "open":
            raise job_commit.out_of_order(self.id, self._state, call)

    def _end_by(self, error: BaseException) -> None:
        """Abort; Ctrl-C and whatever else is no error of the body says what has become of the job."""
        self._abort_after(error)
        if not isinstance(error, Exception):
            job_commit.tell(error, self.spec, self._state)

    def _abort_after(self, error: BaseException) -> None:
        try:
            self.abort()
        except Exception as second:  # noqa: BLE001 - the first error must not be hidden
            error.add_note(f"and job {self.id} could not be fully aborted: {second}")
