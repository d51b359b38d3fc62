"""Taking files out of a dataset: one job more, which brings nothing and names what it replaces."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from os import PathLike
from types import MappingProxyType
from typing import Any, Final

from magicfs.datasets.commit import commit_or_abort
from magicfs.datasets.connection import told_as_newest
from magicfs.datasets.read import current_view, shown_files
from magicfs.engine import Engine
from magicfs.errors import UsageError
from magicfs.formats.footer import Footer
from magicfs.formats.job_options import JobOptions
from magicfs.formats.manifest import ManifestFile
from magicfs.manifests import chain
from magicfs.manifests.chain import READING, View
from magicfs.past.as_of import job_as_of
from magicfs.past.effects import Effects, log_effects, of_drop, partition_names
from magicfs.past.file_facts import PublishedFile, columns_of, published_file
from magicfs.past.footers_at import footers_of_view
from magicfs.past.promise import keep_of
from magicfs.past.row_condition import Condition, parse_condition
from magicfs.protocol import ids
from magicfs.protocol.layout import WorkLayout
from magicfs.protocol.modes import is_data
from magicfs.protocol.paths import Location
from magicfs.protocol.period import NotSaid
from magicfs.report import Report
from magicfs.transaction.context import JobContext
from magicfs.transaction.driver import JobTransaction
from magicfs.transaction.output import JobOutput
from magicfs.transaction.planning import naming
from magicfs.transaction.taken_back import run_in_effect

Where = str | Callable[[PublishedFile], bool]
"""Which files: a condition that all of their rows meet, or a function of what the manifests know of one."""

_NAMED_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class DropReport(Report):
    """The result of ``drop``.

    Attributes:
        url: The destination.
        job_id: The job that dropped the files; None if there was nothing to drop, or with ``dry_run``.
        files: How many files are no longer part of the dataset.
        bytes: Their size.
        keys: The first 100 of them, relative to the destination.
        kept: Whether they are kept for a time, according to ``keep``.
        published_before: Whether an earlier job with this ``run_id`` made this drop; this call did nothing.
        warnings: Problems after the files were dropped; ``magicfs recover`` finishes the rest.
        effects: The planned changes, with the publications that added these files, and the files that are
            deleted for good; empty if there was nothing to do.
    """

    url: str | PathLike[str]
    job_id: str | None
    files: int = 0
    bytes: int = 0
    keys: tuple[str, ...] = ()
    kept: bool = False
    published_before: bool = False
    warnings: tuple[str, ...] = ()
    effects: Effects = field(default_factory=Effects)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {**asdict(replace(self, effects=Effects())), "effects": self.effects.to_dict()}

    def _rows(self) -> Iterable[tuple[str, object]]:
        shown = {**self.to_dict(), "effects": None, "keys": None, **dict(self.effects.lines())}
        return [one for one in shown.items() if one[1] not in (None, "", [], ())]


@dataclass(frozen=True, slots=True)
class Order:
    """What somebody wants dropped."""

    partitions: tuple[str, ...] = ()
    jobs: tuple[str, ...] = ()
    condition: Condition | None = None
    function: Callable[[PublishedFile], bool] | None = None

    @classmethod
    def of(
        cls,
        partitions: str | Sequence[str] | None = None,
        jobs: str | Sequence[str] | None = None,
        where: Where | None = None,
    ) -> Order:
        """The order of the arguments of ``drop``, checked."""
        if partitions is None and jobs is None and where is None:
            raise UsageError(
                "give partitions, jobs or where to choose what to drop; a job with mode='overwrite' and "
                "options={'allow_empty': True} empties a dataset"
            )
        return cls(
            partition_names(partitions) or (),
            tuple([jobs] if isinstance(jobs, str) else jobs or ()),
            parse_condition(where) if isinstance(where, str) else None,
            where if callable(where) else None,
        ).checked(jobs)

    def checked(self, jobs: object) -> Order:
        """The same; raises UsageError for an empty list, which may not have been meant."""
        if jobs is not None and not self.jobs:
            raise UsageError("jobs=[] is empty; nothing was changed; name at least one, or leave it out")
        return self


async def drop_files(
    engine: Engine,
    location: Location,
    *,
    order: Order,
    dry_run: bool = False,
    look: bool = False,
    keep_ms: int | NotSaid | None = None,
    keep_in_place: bool = False,
    keep_rule: str = "",
    run_id: str | None = None,
    job: ids.JobId,
) -> DropReport:
    """``drop``, on the store's loop. ``look``: whether to find out first what it changes."""
    of_jobs = await _files_of_jobs(engine, location, order.jobs) if order.jobs else None
    view = await current_view(engine, location)
    known = await _footers(engine, location, order, view)
    keep = await keep_of(engine, location, keep_ms, in_place=keep_in_place, rule=keep_rule)

    def choice(shown: Mapping[str, ManifestFile]) -> dict[str, ManifestFile]:
        return choose(location, order, shown, of_jobs, known)

    def report(job: str | None, files: Mapping[str, ManifestFile], **how: Any) -> DropReport:
        names, size = tuple(sorted(files)[:_NAMED_MAX]), sum(one.size for one in files.values())
        return DropReport(location.url, job, len(files), size, names, keep.ms is not None, **how)

    found = choice(shown_files(location, view))
    if not found and (dry_run or run_id is None):
        return report(None, found)
    context = JobContext(
        url=location.url,
        layout=WorkLayout(location.key, job),
        options=JobOptions(committer="magic", mode="drop", run_id=run_id, keep=keep),
    )
    effects = Effects()
    if dry_run or (look and found and not await _is_done(engine, location, run_id)):
        effects = await of_drop(engine, location, context, choice)
        if dry_run:
            return report(None, found, effects=effects)
        log_effects(effects, location.url, "dropping files of")
    transaction = JobTransaction(await told_as_newest(engine, location), context)
    setup = await transaction.set_up()
    if setup.published is not None or not found:
        await transaction.abort((), setup.driver, given=False)
        return report(setup.published, {}, published_before=setup.published is not None)
    last = _Last(choice)

    async def load() -> JobOutput:
        return JobOutput(planner=naming(last))

    done = await commit_or_abort(transaction, load, setup.driver)
    return report(done.job_id, last.files, warnings=done.warnings, effects=effects)


async def _is_done(engine: Engine, location: Location, run_id: str | None) -> bool:
    if run_id is None:
        return False
    return await run_in_effect(engine.store, location.key, READING, run_id) is not None


@dataclass(slots=True)
class _Last:
    """A choice that remembers what it has chosen last."""

    choice: Callable[[Mapping[str, ManifestFile]], dict[str, ManifestFile]]
    files: dict[str, ManifestFile] = field(default_factory=dict)

    def __call__(self, shown: Mapping[str, ManifestFile]) -> dict[str, ManifestFile]:
        self.files = self.choice(shown)
        return self.files


def choose(
    location: Location,
    order: Order,
    shown: Mapping[str, ManifestFile],
    of_jobs: Mapping[str, Sequence[ManifestFile]] | None,
    known: Mapping[str, _Known] = MappingProxyType({}),
) -> dict[str, ManifestFile]:
    """What an order means of the files that a dataset shows, of some of which the footers are known.

    Raises UsageError if that is unknown, or if a file also holds other rows.
    """
    wanted = frozenset(order.partitions)
    found = {
        key: file
        for key, file in shown.items()
        if (not wanted or any(one in wanted for one in _parents(key)))
        and (of_jobs is None or any(_is_one(file, other) for other in of_jobs.get(key, ())))
    }
    if order.condition is None and order.function is None:
        return found
    found = {key: file for key, file in found.items() if is_data(key, "")}
    if order.function is not None:
        function = order.function
        return {key: file for key, file in found.items() if function(published_file(file, location))}
    assert order.condition is not None
    return dict(_meeting(location, order.condition, found, known))


_Known = tuple[ManifestFile, Footer | None]
"""A file, and what it says of itself."""


def _parents(key: str) -> Iterator[str]:
    elements = key.split("/")
    return ("/".join(elements[:depth]) for depth in range(1, len(elements)))


def _is_one(file: ManifestFile, other: ManifestFile) -> bool:
    return (file.size, file.etag, file.write_id) == (other.size, other.etag, other.write_id)


def _meeting(
    location: Location, condition: Condition, files: Mapping[str, ManifestFile], known: Mapping[str, _Known]
) -> Iterator[tuple[str, ManifestFile]]:
    unknown: list[str] = []
    names = set[str]()
    for key, file in files.items():
        of_file, footer = known.get(key, (file, None))
        columns = columns_of(file, footer if _is_one(file, of_file) else None)
        answer = condition.of_file(columns)
        if answer == "all":
            yield key, file
        elif answer == "unknown":
            unknown.append(key)
            names |= set(condition.names) - columns.keys()
    if unknown:
        why = f"they have no values recorded for {', '.join(sorted(names))}; " if names else ""
        raise UsageError(
            f"{len(unknown)} files of {location.url} may have both rows that match {condition.text!r} and "
            f"rows that do not, such as {min(unknown)}, according to partitions and manifests; {why}nothing "
            "was changed; use a condition that matches whole files, or rewrite those partitions by a job "
            "with mode='overwrite_partitions'"
        )


async def _footers(engine: Engine, location: Location, order: Order, view: View) -> dict[str, _Known]:
    """The footers of the files that a view shows, if the condition needs more than their keys."""
    names = set(order.condition.names) if order.condition is not None else set[str]()
    asked = {
        key: one for key, one in view.files.items() if is_data(key, "") and names - columns_of(one).keys()
    }
    if not asked:
        return {}
    found = await footers_of_view(engine, location, view.head.job_id, asked)
    return {key: (asked[key], footer) for key, footer in found.items()}


async def _files_of_jobs(
    engine: Engine, location: Location, jobs: Sequence[str]
) -> dict[str, list[ManifestFile]]:
    """What publications brought, by relative keys."""
    found: dict[str, list[ManifestFile]] = {}
    for name in jobs:
        job = await job_as_of(engine, location, name)
        manifest = await chain.read(engine.store, location.key, job, READING)
        for file in manifest.files if manifest is not None else ():
            found.setdefault(file.key, []).append(file)
    return found
