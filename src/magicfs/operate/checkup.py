"""What is right and what is not about a destination: the way to it, its store, and what lies there."""

from __future__ import annotations

import platform
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass
from importlib import metadata
from os import PathLike
from shlex import quote
from typing import TYPE_CHECKING, Any, Final, Literal, Unpack, cast

from magicfs.alias.catch_up import caught_up
from magicfs.committers import registry
from magicfs.datasets.connection import Way, is_nothing, open_destination
from magicfs.datasets.finders import finders
from magicfs.datasets.recover import destinations_below
from magicfs.engine import Engine
from magicfs.errors import (
    FormatError,
    MagicError,
    ObjectNotFound,
    PermissionDenied,
    StoreError,
    Unavailable,
    Unsupported,
    UsageError,
)
from magicfs.formats.manifest import ManifestFile
from magicfs.manifests import chain
from magicfs.operate.lifecycle import judge
from magicfs.operate.old_pointer import unlinked
from magicfs.operate.open_uploads import Owner
from magicfs.operate.status import is_empty
from magicfs.operate.upload_owners import shares_of
from magicfs.past.aside import cost_of
from magicfs.protocol import ids, paths
from magicfs.protocol.layout import WorkLayout
from magicfs.protocol.magic import MAGIC
from magicfs.protocol.modes import is_data
from magicfs.protocol.paths import Location
from magicfs.protocol.period import human_time
from magicfs.report import Report
from magicfs.stores import conditions
from magicfs.stores.port import Store, upkeep_of
from magicfs.transaction.context import crowded
from magicfs.transaction.others import OtherJob, find_unfinished_jobs, refuse_lost_pointer
from magicfs.transaction.setup import check_place
from magicfs.version import __version__

if TYPE_CHECKING:
    from magicfs.stores.port import VersionStore

Verdict = Literal["ok", "look", "wrong"]
"""``ok``: nothing to do. ``look``: somebody should decide. ``wrong``: a job cannot work like this."""

_PACKAGES: Final = ("fsspec", "s3fs", "aiobotocore", "gcsfs", "adlfs", "pyarrow", "pandas", "pyspark")
_SHOWN: Final = 3
_TRIED: Final = 20
_UNCHECKED: Final = "; it is sealed, and this process has no key, so it checks no seal"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check.

    Attributes:
        subject: What was checked, in a word or two.
        verdict: The result.
        told: What was found.
        advice: What to do; empty if nothing.
        error: Name of the error of the store; empty if there was none.
    """

    subject: str
    verdict: Verdict
    told: str
    advice: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class DoctorReport(Report):
    """The result of ``doctor``.

    Attributes:
        url: The destination.
        findings: The checks, in the order in which they ran.
    """

    url: str
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether there is nothing to do."""
        return all(one.verdict == "ok" for one in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {"destination": self.url, "ok": self.ok, "findings": [asdict(one) for one in self.findings]}

    def _rows(self) -> list[tuple[str, object]]:
        return [
            (one.subject, "; ".join(filter(None, (one.verdict, one.told, one.advice))))
            for one in self.findings
        ]


def doctor(url: str | PathLike[str], *, read_only: bool = False, **way: Unpack[Way]) -> DoctorReport:
    """See ``magicfs.Dataset.doctor``."""
    place = open_destination(url, for_reading=True, **way)
    findings: list[Finding] = [_versions()]
    place.run(_look, findings=findings, read_only=read_only)
    return DoctorReport(place.location.url, tuple(findings))


def _versions() -> Finding:
    found = [f"magicfs {__version__}", f"Python {platform.python_version()}"]
    for name in _PACKAGES:
        try:
            found.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            continue
    return Finding("versions", "ok", ", ".join(found))


async def _look(engine: Engine, location: Location, *, findings: list[Finding], read_only: bool) -> None:
    """Look at one thing after the other; a store that cannot be reached is asked no more."""
    looks: list[tuple[str, Callable[[Engine, Location], Awaitable[Finding | list[Finding]]]]] = [
        ("list", _list),
        ("store", _store),
        ("place", _place),
        ("read", _dataset),
        ("alias", _alias),
        ("list uploads", _uploads),
        ("jobs", _jobs),
        ("lifecycle", _lifecycle),
    ]
    if engine.store.capabilities.versions:
        looks.append(("bucket versions", _bucket_versions))
    if not read_only:
        looks.append(("write", _write))
    problems: list[str] = []
    for subject, look in looks:
        try:
            seen = await look(engine, location)
            findings += seen if isinstance(seen, list) else [seen]
        except MagicError as error:
            problem = error.problem if isinstance(error, StoreError) else str(error)
            if not any(one in problem for one in problems):  # credentials are missing once
                findings.append(_refusal(subject, error))
            problems.append(problem)
            if isinstance(error, Unavailable) or (subject == "list" and isinstance(error, ObjectNotFound)):
                return


def _refusal(subject: str, error: MagicError) -> Finding:
    kind = type(error).__name__
    if isinstance(error, StoreError):
        return Finding(
            subject, "wrong", f"{error.operation} of {error.key}: {error.problem}", error.hint, kind
        )
    said, _, advice = str(error).rpartition("; ")
    return Finding(subject, "wrong", said or advice, advice if said else "", kind)


async def _list(engine: Engine, location: Location) -> Finding:
    async for _ in engine.store.list(paths.prefix_of(location.key), limit=1):
        return Finding("list", "ok", f"{location.url} can be listed, and has data")
    if not await is_nothing(engine, location):
        return Finding("list", "ok", f"{location.url} can be listed, and has no data")
    advice = "check the URL, unless its first job is still to come"
    return Finding(
        "list", "look", f"{location.url} can be listed, and nothing is there", advice, ObjectNotFound.__name__
    )


async def _store(engine: Engine, _location: Location) -> Finding:
    name, why = registry.best_for(engine.store)
    return Finding("store", "ok", f"{engine.store.name}; committer 'auto' is {name!r}: {why}")


async def _bucket_versions(engine: Engine, _location: Location) -> Finding:
    versions = cast("VersionStore", engine.store).versions()
    try:
        are_kept = await versions.are_kept()
    except PermissionDenied:
        said = "these credentials cannot read the bucket's versioning status (s3:GetBucketVersioning)"
        return Finding("bucket versions", "ok", f"{said}; manifests of jobs show it")
    if not are_kept:
        return Finding("bucket versions", "ok", "the bucket keeps no deleted or overwritten versions")
    said = "the bucket keeps versions, and readers of manifests use them to read replaced files"
    return Finding("bucket versions", "ok", said)


async def _place(engine: Engine, location: Location) -> Finding:
    await check_place(engine, location.key)
    return Finding("place", "ok", "no file has its name, and it is no table of Delta Lake or Iceberg")


async def _dataset(engine: Engine, location: Location) -> list[Finding]:
    store = engine.store
    try:
        seen = await chain.read_pointer(store, location.key, chain.READING)
        view = None if seen is None else await chain.view(store, location.key, chain.READING)
        if seen is None:
            await refuse_lost_pointer(engine, location)
        problem = "" if seen is None else (await unlinked(engine, location, young=True)).problem
    except FormatError as error:
        return [_refusal("dataset", error)]
    if problem:
        return [Finding("dataset", "wrong", problem, f"magicfs adopt {quote(location.url)}")]
    if seen is None:
        return [Finding("dataset", "ok", "magicfs has not published anything here yet")]
    newest = f"the last published job is {seen[0].job_id}; magicfs verify {location.url} compares files"
    newest += _UNCHECKED if "seal" in seen[0].unknown else ""
    return [Finding("dataset", "ok", newest), *_cost(store, {} if view is None else view.files)]


async def _alias(engine: Engine, location: Location) -> list[Finding]:
    found = await caught_up(engine, location, dry_run=True)
    if found is None:
        return []
    if found.done == "right":
        return [Finding("alias", "ok", f"{found.url} shows the newest publication")]
    said = found.problem or f"{found.url} does not show the newest publication"
    return [Finding("alias", "look", said, f"magicfs maintain {location.url}")]


def _cost(store: Store, shown: Mapping[str, ManifestFile]) -> list[Finding]:
    """What it costs to keep all files, unless their bucket keeps versions of them."""
    files = [one for one in shown.values() if is_data(one.key, "")]
    if not files or any(one.version for one in files):
        return []
    cost = cost_of(store, [one.size for one in files])
    return [Finding("keep", "ok", f"if a job with keep= replaces all {cost.files:,} files, {cost.said}")]


async def _uploads(engine: Engine, location: Location) -> list[Finding]:
    shares = await shares_of(engine, location)
    return [
        Finding("uploads", "ok" if one.owner is Owner.RUNNING else "look", one.sentence, one.advice)
        for one in shares
    ] or [Finding("uploads", "ok", "no upload is pending")]


async def _lifecycle(engine: Engine, location: Location) -> list[Finding]:
    try:
        rules = await upkeep_of(engine.store).rules()
    except Unsupported:
        return []
    except PermissionDenied:
        said = "these credentials cannot read the bucket's lifecycle rules"
        return [Finding("lifecycle", "ok", f"{said}; ask its owner for one that ends old open uploads")]
    found = await find_unfinished_jobs(engine, location.key, visitors=True)
    oldest = min((one.job for one in found if one.job), key=lambda job: job.created_ms, default=None)
    waiting_s = None if oldest is None else time.time() - oldest.created_ms / 1000
    return [Finding("lifecycle", *judge(location, rules, waiting_s, oldest.job_id if oldest else ""))]


async def _jobs(engine: Engine, location: Location) -> Finding:
    if found := await find_unfinished_jobs(engine, location.key, visitors=True):
        said = "; ".join(map(_told, found[:_SHOWN]))
        home = Location(location.scheme, location.bucket, found[0].layout.destination)
        command = f"magicfs recover {quote(home.url)} --dry-run"
        advice = f"if none of their drivers is running: {command}, then the command that it prints as next"
        advice = crowded(location.url, len(found)) or advice
        return Finding("jobs", "look", f"{len(found)} unfinished: {said}", advice)
    foreign = [one for finder in finders().values() for one in await finder.find_all(engine, location, None)]
    if foreign:
        said = f"{len(foreign)} unfinished of other programs, such as {foreign[0].context.job}"
        return Finding("jobs", "look", said, f"magicfs recover {location.url} shows each, and what to do")
    if below := await destinations_below(engine, location):
        said = f"no unfinished job here, but there are unfinished jobs below: {', '.join(below[:_SHOWN])}"
        return Finding("jobs", "look", said, f"magicfs recover {quote(below[0])}")
    prefix = paths.prefix_of(location.key) + MAGIC
    directories = [one async for one in engine.store.list_directories(prefix)]
    left = [one for one in directories[:_TRIED] if not await is_empty(engine, one)]
    if left:
        said = f"no unfinished job, but {len(left)} work directories are left: {', '.join(left[:_SHOWN])}"
        advice = f"magicfs recover {location.url} --job ID --abort removes those of a job that has ended"
        return Finding("jobs", "look", said, advice)
    return Finding("jobs", "ok", "no unfinished job, and no leftovers")


def _told(one: OtherJob) -> str:
    job = one.found()
    moved = f"last moved {human_time(job.changed, time.time())} on {job.host}"
    return f"job {job.job_id}, {job.state}, {moved}" if job.state else f"job {job.job_id}, {job.problem}"


async def _write(engine: Engine, location: Location) -> Finding:
    """Try what a job writes, and which conditions the store looks at."""
    store = engine.store
    before = conditions.remembered(store)
    conditions.assume(store, None)  # what was once seen shows no permission now
    try:
        found = await conditions.conditions_of(store, WorkLayout(location.key, _nobody()).job_directory)
    except MagicError:
        conditions.assume(store, before)
        raise
    lacks = [name for name, honoured in asdict(found).items() if not honoured]
    if not found.put_if_absent and not found.put_if_match:
        raise UsageError(
            f"the store can be written to, but ignores {', '.join(lacks)}: it cannot keep two drivers of a "
            "job apart; use a newer release of the store, or Job(options={'single_driver': True}) where "
            "one program publishes"
        )
    if lacks:
        said = f"allowed; the store ignores conditional requests for {', '.join(lacks)}"
        return Finding("write", "ok", f"{said}; magicfs checks before it writes there")
    return Finding("write", "ok", "allowed, and every conditional request is honoured")


def _nobody() -> ids.JobId:
    from uuid import uuid4

    return ids.job_id(uuid4())
