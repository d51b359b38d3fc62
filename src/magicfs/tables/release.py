"""``magicfs.Release``: several datasets that readers see together."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias, Unpack, cast

from magicfs.errors import CommitDenied, ProtocolViolation, UsageError
from magicfs.protocol.period import parse_period
from magicfs.releases.reading import Pinned, as_released, read_record, refuse_foreign
from magicfs.releases.record import Released, check_name
from magicfs.report import Report, html_table, text_table
from magicfs.runtime.interrupt import Twins, awaitable

if TYPE_CHECKING:
    from magicfs.datasets.connection import Destination, Way
    from magicfs.job.job import Job
    from magicfs.releases.record import Record
    from magicfs.report import JobReport
    from magicfs.tables.dataset import Dataset

    Place: TypeAlias = str | PathLike[str] | Dataset

_TRIES: Final = 10
_KEEP: Final = "1d"
_REPLACES: Final = ("overwrite", "overwrite_partitions")


@dataclass(frozen=True, slots=True)
class PublishedRelease(Pinned):
    """A release as it was published. Read all datasets from it, so that they belong together.

    It is a value, and does not follow later releases. Get one from ``Release.latest``.
    """

    @property
    def id(self) -> str:
        """Its id."""
        return self.released.id

    @property
    def number(self) -> int:
        """Its number: each release has a higher one than those before it."""
        return self.released.number

    @property
    def published(self) -> datetime:
        """When it was published, by the clock of its driver, in UTC."""
        from magicfs.past.as_of import moment

        return moment(self.released.published_ms)

    @property
    def jobs(self) -> dict[str, str]:
        """The job of each dataset, by the dataset's name in the release."""
        return {one.name: one.job_id for one in self.released.members}

    def dataset(self, name: str, **way: Unpack[Way]) -> Dataset:
        """Return a dataset as this release shows it. Nothing is read before you use it.

        Args:
            name: Its name in the release.
            **way: ``storage_options`` or ``filesystem``, if they are not those of the release.

        Raises:
            UsageError: The release has no dataset of this name, or the dataset lies in another bucket that
                you did not name in ``buckets``.
        """
        from magicfs.protocol.paths import parse_url
        from magicfs.tables.dataset import Dataset

        one = self.released.member(name)
        if one is None:
            names = ", ".join(self.jobs) or "none"
            raise UsageError(f"release {self.number} of {self.url} has no dataset {name!r}; it has {names}")
        refuse_foreign(parse_url(self.url), one, self.buckets)
        return Dataset(one.url, release=self, **(way or self.way))

    def to_dict(self) -> dict[str, object]:
        """Plain values, ready for JSON."""
        return {
            "url": self.url,
            "release": self.id,
            "number": self.number,
            "published": self.published.isoformat(timespec="milliseconds"),
            "run_id": self.released.run_id,
            "restores": self.released.restores,
            "datasets": [
                {"name": one.name, "url": one.url, "job_id": one.job_id} for one in self.released.members
            ],
        }


class Releases(list[PublishedRelease]):
    """Releases, the newest first: a list that prints as a table."""

    HEADER = ("NUMBER", "PUBLISHED", "DATASETS", "TAGS", "RUN", "RELEASE")

    def __init__(self, found: Sequence[PublishedRelease] = (), tags: Mapping[str, str] | None = None) -> None:
        super().__init__(found)
        self.tags = dict(tags or {})

    def rows(self) -> list[tuple[str, ...]]:
        """What stands below ``HEADER``."""
        return [
            (
                str(one.number),
                f"{one.published:%Y-%m-%d %H:%M:%S} UTC",
                " ".join(one.jobs),
                " ".join(name for name, release in self.tags.items() if release == one.id),
                one.released.run_id or ("rollback" if one.released.restores else ""),
                one.id,
            )
            for one in self
        ]

    def __str__(self) -> str:
        return "\n".join(text_table(self.rows(), self.HEADER))

    def _repr_html_(self) -> str:
        return html_table(self.rows(), self.HEADER)


@dataclass(frozen=True, slots=True)
class ExpiredReleases(Report):
    """The result of ``Release.expire``.

    Attributes:
        url: The release.
        releases: The numbers of the releases that are kept no longer.
        holds: How many holds ended at the datasets; with ``dry_run``, would end.
        datasets: The datasets where they did. ``Dataset.expire`` of each deletes the files.
    """

    url: str
    releases: tuple[int, ...] = ()
    holds: int = 0
    datasets: tuple[str, ...] = ()


class Release(Twins):
    """Publishes several datasets together: readers of the release see all of one release, or all of another.

    ::

        with magicfs.Release("s3://bucket/releases/marts") as release:
            with release.job("s3://bucket/sales", mode="overwrite") as job:
                ...
            release.add("s3://bucket/customers")
        marts = magicfs.Release.latest("s3://bucket/releases/marts")
        marts.dataset("sales").to_pandas()

    Each job publishes its dataset as always. At the end of the ``with`` block one compare-and-swap moves the
    release. If the body raises, or the driver dies, readers keep the release before; run it again. A release
    keeps the files of its datasets until ``expire`` gives it up, whatever jobs do there. A dataset that you
    neither publish nor add stays as the release before shows it.

    Args:
        url: The place of the release, such as ``s3://bucket/releases/marts``: a directory of its own.
        run_id: Name of the run: a second release with this name changes nothing.
        buckets: Other buckets in which datasets of the release may lie, such as ``["s3://other"]``. A URL
            that only the release's record names is not followed elsewhere.
        **way: ``storage_options`` of the store's fsspec filesystem, for the datasets, too; or the
            ``filesystem`` itself.

    Raises:
        UsageError: An argument is wrong.
    """

    def __init__(
        self,
        url: str | PathLike[str],
        *,
        run_id: str | None = None,
        buckets: Collection[str] = (),
        **way: Unpack[Way],
    ) -> None:
        from magicfs.datasets.connection import open_destination

        if isinstance(buckets, str):
            raise UsageError(f"buckets={buckets!r} is text; give a list, such as [{buckets!r}]")
        self._way = way
        self._buckets = tuple(buckets)
        self._place = open_destination(url, **way)
        if not self._place.location.key:
            raise UsageError(f"{url!r} is a whole bucket; name a directory in it for the release")
        self._run_id = run_id
        self._base: Record | None = None
        self._jobs: dict[str, Job] = {}
        self._added: dict[str, tuple[Destination, str | None]] = {}
        self._left_out: set[str] = set()
        self._published: PublishedRelease | None = None

    def __repr__(self) -> str:
        state = "to be published" if self._published is None else f"published as {self._published.number}"
        return f"<Release {self.url}, {state}>"

    @property
    def url(self) -> str:
        """Where it is."""
        return self._place.location.url

    @property
    def published(self) -> PublishedRelease:
        """What was released.

        Raises:
            ProtocolViolation: Nothing was released yet.
        """
        if self._published is None:
            raise ProtocolViolation(f"nothing was released at {self.url} yet; call commit() first")
        return self._published

    # -- publishing --------------------------------------------------------------------------------------

    def job(self, dataset: Place, *, name: str | None = None, **how: Any) -> Job:
        """Return a job that publishes a dataset, and whose publication is released with the others.

        Args:
            dataset: Its URL, or the ``Dataset``.
            name: Its name in the release; by default the last element of the URL.
            **how: Arguments of ``Job``: ``mode``, ``run_id``, ``options`` … A job that replaces files keeps
                them for a day, unless you give ``keep``, so that two drivers at once do not undo each other.

        Raises:
            UsageError: An argument is wrong, or the release has another dataset of this name.
        """
        from magicfs.job.job import Job

        given = {
            "storage_options": how.pop("storage_options", None),
            "filesystem": how.pop("filesystem", None),
        }
        url, way = self._way_to(dataset, cast("Way", given))
        place, key = self._named(url, way, name)
        if how.get("mode") in _REPLACES and "keep" not in how:
            how |= {"keep": _KEEP, "options": {"keep_in_place": True} | dict(how.get("options") or {})}
        made = Job(url, **way, **how)
        self._jobs[key], self._added[key] = made, (place, None)
        return made

    def add(
        self, dataset: Place, publication: str | None = None, *, name: str | None = None, **way: Unpack[Way]
    ) -> None:
        """Release what another process has published.

        Args:
            dataset: The URL, or the ``Dataset``.
            publication: The job's id, its run, or a tag; by default the newest publication.
            name: As for ``job``.
            **way: ``storage_options`` or ``filesystem``, if they are not those of the release.

        Raises:
            ObjectNotFound: There is no such publication.
            UsageError: The name matches several publications, or the release has another such dataset.
        """
        from magicfs.releases.publish import publication as found

        url, way = self._way_to(dataset, way)
        place, key = self._named(url, way, name)
        self._added[key] = (place, place.run(found, publication))

    def leave_out(self, name: str) -> None:
        """Release without a dataset that the release before shows. The dataset itself does not change."""
        self._began()
        self._left_out.add(name)

    def commit(self) -> PublishedRelease:
        """Release everything that was published here or added, in one step. A second call does nothing.

        Raises:
            ProtocolViolation: A job is not committed; nothing was released.
            CommitDenied: Another driver has released one of these datasets meanwhile, or a job is replacing
                files and does not end. Nothing was released.
            ObjectNotFound: Files of a publication are gone. Nothing was released.
            UsageError: There is nothing to release, or files of a dataset are in no manifest.
            Unavailable: The store did not report the result: call again.
        """
        from magicfs.releases.publish import Wanted, published

        base = self._began()
        open_jobs = [name for name in self._jobs if not self._is_published(name)]
        if open_jobs:
            raise ProtocolViolation(
                f"the job of {open_jobs[0]!r} is not committed; nothing was released; commit it first, or "
                "use it in a with block"
            )
        if not (self._added or self._left_out):
            raise UsageError(
                f"there is nothing to release at {self.url}; nothing was changed; publish with "
                "release.job(url), or name what is published with release.add(url)"
            )
        wanted = [
            Wanted(name, place, job or self._jobs[name].report.job_id)
            for name, (place, job) in self._added.items()
        ]
        done = published(self._place, wanted, base=base, without=self._left_out, run_id=self._run_id)
        self._published = self._found(done)
        return self._published

    def __enter__(self) -> Self:
        self._began()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if exc_type is None and self._published is None:
            self.commit()

    # -- reading, and the past ---------------------------------------------------------------------------

    @classmethod
    def latest(
        cls,
        url: str | PathLike[str],
        as_of: str | None = None,
        *,
        buckets: Collection[str] = (),
        **way: Unpack[Way],
    ) -> PublishedRelease:
        """Return the newest release, or an older one. One request; nothing is changed.

        Args:
            url: The place of the release.
            as_of: Another release: its id, its number, a run id, a tag, or a time such as
                ``"2026-03-31T12:00Z"``. Prefix ``run:``, ``tag:`` or ``time:`` to be explicit.
            buckets: As for ``Release``.
            **way: As for ``Release``.

        Raises:
            ObjectNotFound: Nothing was released there, or no such release is kept.
            UsageError: ``as_of`` matches several releases.
            FormatError: The record of the release is malformed or forged.
        """
        one = cls(url, buckets=buckets, **way)
        record, _ = one._place.run(read_record)
        return one._found(as_released(one._place.location, record, as_of))

    def history(self) -> Releases:
        """Return all releases that are kept, the newest first; empty before the first."""
        record, _ = self._place.run(read_record)
        return Releases([self._found(one) for one in reversed(record.releases)], record.tags)

    def rollback(self, to: str) -> PublishedRelease:
        """Release once more, for all datasets, what an older release shows. The datasets do not change.

        Args:
            to: The release, as ``as_of`` of ``latest``.

        Raises:
            ObjectNotFound: No such release is kept.
            UsageError: ``to`` matches several releases.
        """
        from magicfs.releases.publish import restored

        return self._found(restored(self._place, to))

    def tag(self, name: str, as_of: str | None = None, *, move: bool = False) -> PublishedRelease:
        """Name a release, which is then kept until you remove the tag.

        Args:
            name: Letters, digits, ``.``, ``_`` and ``-``.
            as_of: The release, as for ``latest``; by default the newest.
            move: Move the tag if it names another release.

        Raises:
            ObjectNotFound: No such release is kept.
            UsageError: The name is not valid, or names another release and ``move`` is False.
        """
        from magicfs.releases.publish import tagged

        return self._found(tagged(self._place, name, as_of, move=move))

    def untag(self, name: str) -> bool:
        """Remove a tag. Returns whether there was one; a second call returns False."""
        from magicfs.releases.publish import untagged

        return untagged(self._place, name)

    def expire(
        self,
        keep: str | timedelta,
        *,
        last: int = 1,
        datasets: Sequence[str | PathLike[str]] = (),
        dry_run: bool = False,
    ) -> ExpiredReleases:
        """Give up releases that were replaced more than ``keep`` ago. Their readers must have finished.

        The newest release stays, and each that has a tag. ``expire`` of each dataset (``magicfs maintain``)
        then deletes the files that no release shows any more. This call deletes none; it only ends the holds
        at the datasets, and those of drivers that died.

        Args:
            keep: For how long replaced releases stay, such as ``"30d"``.
            last: Keep at least this many of the newest.
            datasets: More datasets to look at, which no kept release names, such as after somebody has
                removed the release's record.
            dry_run: Change nothing; report what would be done.

        Raises:
            UsageError: A dataset lies in another bucket that you did not name in ``buckets``; nothing was
                changed.
            Unavailable: Other processes kept moving the release: call again.
        """
        from magicfs.releases import publish

        if last < 1:
            raise UsageError(f"last={last}; give 1 or more: the newest release is always kept")
        before_ms = int(time.time() * 1000) - parse_period("keep", keep)
        for _ in range(_TRIES):
            base, gone = publish.expired(self._place, before_ms, last=last)
            places = self._datasets_of(base, datasets)
            stray = publish.stray_holds(self._place, places, base, gone)
            ended: int | None = sum(len(names) for _, names in stray)
            if not dry_run:
                ended = publish.end_holds(self._place, base, gone, stray)
            if ended is not None:
                urls = tuple(place.location.url for place, _ in stray)
                return ExpiredReleases(self.url, tuple(one.number for one in gone), ended, urls)
        raise CommitDenied(f"others kept moving release {self.url}; nothing was changed; call again")

    acommit: Final = awaitable(commit)
    ahistory: Final = awaitable(history)
    arollback: Final = awaitable(rollback)
    atag: Final = awaitable(tag)
    auntag: Final = awaitable(untag)
    aexpire: Final = awaitable(expire)

    # -- what it is made of ------------------------------------------------------------------------------

    def _began(self) -> Record:
        """The record as it was before anything of this release was published."""
        if self._base is None:
            self._base, _ = self._place.run(read_record)
        return self._base

    def _datasets_of(self, record: Record, more: Sequence[str | PathLike[str]]) -> list[Destination]:
        """Every dataset that a record names and the caller allows, and others that the caller names."""
        from magicfs.datasets.connection import open_destination

        members = {one.url: one for each in record.releases for one in each.members}
        for one in members.values():
            refuse_foreign(self._place.location, one, self._buckets)
        return [open_destination(url, **self._way) for url in dict.fromkeys([*members, *more])]

    def _found(self, one: Released) -> PublishedRelease:
        return PublishedRelease(self.url, one, self._buckets, self._way)

    def _is_published(self, name: str) -> bool:
        try:
            return bool(self._jobs[name].report.job_id)
        except ProtocolViolation:
            return False

    def _way_to(self, dataset: Place, given: Way) -> tuple[str | PathLike[str], Way]:
        from magicfs.tables.dataset import Dataset

        given = given if any(given.values()) else {}
        if not isinstance(dataset, Dataset):
            return dataset, given or self._way
        own: Way = {"storage_options": dataset.storage_options, "filesystem": dataset.filesystem}
        return dataset.url, given or (own if any(own.values()) else self._way)

    def _named(self, url: str | PathLike[str], way: Way, name: str | None) -> tuple[Destination, str]:
        """The way to a dataset, and its name in the release."""
        from magicfs.datasets.connection import open_destination
        from magicfs.releases.reading import same_place

        base, place = self._began(), open_destination(url, **way)
        location = place.location
        key = check_name(location.key.rpartition("/")[2] or location.bucket if name is None else name)
        shown = base.newest.member(key) if base.newest is not None else None
        if key in self._added or (shown is not None and not same_place(shown.location, location)):
            other = self._added[key][0].location.url if key in self._added else shown and shown.url
            raise UsageError(
                f"{key!r} is the name of {other} in release {self.url}; give name= to {location.url}, "
                "or leave_out(name) the other one first"
            )
        return place, key


def released_with(
    report: JobReport, release: str | PathLike[str] | Release, url: str, **way: Unpack[Way]
) -> None:
    """Release what a job has published: by itself, or with what a release that was begun has."""
    if isinstance(release, Release):
        release.add(url, f"job:{report.job_id}", **way)
        return
    one = Release(release, **way)
    one.add(url, f"job:{report.job_id}")
    one.commit()
