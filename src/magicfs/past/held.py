"""Replaced files that stay after their time: a tag holds them, or a rule keeps a publication that shows them.

A tag that keeps its files has an entry among the jobs that keep files in the pointer, under an id of its own,
and lists as they have. So every job that replaces such a file leaves it, or moves it aside; and ``expire``
deletes it, wherever it lies, only once the tag is gone, or names another publication. The lists name files by
the keys that they had and by their ETags: where one lies aside, the job says that has moved it.

The entry is written first, and then the tag. Jobs that replace files announce that before they read the
pointer for the last time; so of such a job and a tag at least one sees the other.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final
from uuid import uuid4

from magicfs.engine import Engine
from magicfs.errors import CommitDenied, FormatError, MagicError, UsageError
from magicfs.formats.deletions import OldObject
from magicfs.formats.job_options import JobOptions, Rollback
from magicfs.formats.manifest import KeptFiles, ManifestFile
from magicfs.formats.pointer import Keeping, Pointer
from magicfs.manifests import chain, kept
from magicfs.manifests.chain import READING
from magicfs.manifests.comparison import compare
from magicfs.manifests.log import publications
from magicfs.past.extension import files_gone, restored_files
from magicfs.past.keeping import change_keeping
from magicfs.past.kept_versions import has_version
from magicfs.past.named import all_tags
from magicfs.past.retention import Keep
from magicfs.protocol import paths
from magicfs.protocol.ids import JobId
from magicfs.protocol.job_state import CHANGES_FILES
from magicfs.protocol.layout import WorkLayout
from magicfs.protocol.modes import MANIFESTS
from magicfs.protocol.paths import Location
from magicfs.stores.conditions import Conditions
from magicfs.stores.port import Store
from magicfs.transaction.context import JobContext
from magicfs.transaction.others import find_unfinished_jobs

_TAG: Final = "tag-"

_GRACE_MS: Final = 3_600_000
"""How long files stay that a tag is going to hold, which is set afterwards."""
_LIST_LENGTH: Final = 15_000
_FILES_MAX: Final = 16 * _LIST_LENGTH
"""A pointer names at most 16 lists of one job, and a tag has no manifest that names more."""


class Staying:
    """What is kept for longer than the jobs that ``expire`` ends, as ``kept_by`` returns it.

    A file that one of those has moved aside stays, too, if others name it by its former place.
    """

    def __init__(self, destination: str, longer: Collection[OldObject]) -> None:
        self._destination, self._keys = destination, {one.key for one in longer}
        self._named = {kept.identity(destination, one) for one in longer if not one.aside}

    def has(self, one: OldObject) -> bool:
        """Whether somebody keeps a file for longer."""
        return one.key in self._keys or self.has_aside(one)

    def has_aside(self, one: OldObject) -> bool:
        """Whether it lies aside, and somebody who does not say where keeps it for longer."""
        return one.aside and kept.identity(self._destination, one) in self._named


def rule_of(found: KeptFiles, path: str) -> str:
    """By which rule a job keeps what it replaced, as its manifest says; empty if by none."""
    rule = found.unknown.get("rule", "")
    try:
        return Keep.of("rule", rule).rule if rule else ""
    except UsageError as error:
        raise FormatError(path, "kept.rule", f"{error}; nothing was deleted") from error


async def held(
    engine: Engine, location: Location, pointer: Pointer, rules: Mapping[str, str], keep: Keep | None
) -> set[str]:
    """Which of these jobs, whose time is over, keep a file that a tag or a rule holds.

    ``rules``: their own, as text. ``keep``: one more for all of them.

    Raises FormatError if a publication that is kept cannot be read.
    """
    if not rules:
        return set()
    named = await all_tags(engine.store, location.key, READING)
    by_tag = {one.keeps for one in named} & rules.keys()
    by_rule = _by_rule(rules, by_tag, keep)
    if not by_rule:
        return by_tag
    jobs = [one async for one in publications(engine.store, location.key, READING)]
    files = await _files_of(engine, location, pointer, set().union(*by_rule.values()))
    chosen = {rule: rule.chosen(jobs, {one.job_id for one in named}) for rule in by_rule}
    found = [
        await _showing(engine, location, chosen[rule], {job: files[job] for job in theirs})
        for rule, theirs in by_rule.items()
    ]
    return by_tag.union(*found)


def _by_rule(rules: Mapping[str, str], held: Collection[str], keep: Keep | None) -> dict[Keep, set[str]]:
    """The jobs to which each rule applies; to those that are held already none has to."""
    found: dict[Keep, set[str]] = {}
    for job in rules.keys() - held:
        own = [Keep.of("rule", rules[job])] if rules[job] else []
        for one in own if keep is None else [*own, keep]:
            found.setdefault(one, set()).add(job)
    return found


async def _files_of(
    engine: Engine, location: Location, pointer: Pointer, jobs: Collection[str]
) -> dict[str, set[str]]:
    """The relative keys of what each job keeps."""
    asked = [one for one in pointer.keeping if one.job_id in jobs]
    objects = await kept.kept_by(engine.store, location.key, READING, asked)
    return {job: {kept.identity(location.key, one)[0] for one in found} for job, found in objects.items()}


async def _showing(
    engine: Engine, location: Location, publications: Collection[str], files: Mapping[str, set[str]]
) -> set[str]:
    """Which jobs keep a file that one of some publications shows; ``files`` are relative keys."""
    found: set[str] = set()
    for job in publications:
        manifests = chain.chain(engine.store, location.key, READING, start=job, hidden="none")
        view = await chain.view_of(manifests)
        shown = view.files.keys() if view is not None else ()
        found |= {one for one, keys in files.items() if not keys.isdisjoint(shown)}
    return found


async def hold(engine: Engine, location: Location, conditions: Conditions, job: str) -> str:
    """Keep the files of a publication for an hour, and for as long as a tag bears the id that is returned.

    Raises ObjectNotFound if a file is gone, UsageError if they are too many or not known, CommitDenied if a
    job is replacing files at this moment. Then nothing is kept.
    """
    context = JobContext(
        url=location.url,
        layout=WorkLayout(location.key, JobId(f"{_TAG}{uuid4()}")),
        options=JobOptions(committer="magic", mode="overwrite", rollback=Rollback(job=job)),
    )
    files = await restored_files(engine, context, conditions)
    if len(files) > _FILES_MAX:
        raise UsageError(
            f"publication {job} has {len(files):,} files, and a tag keeps at most {_FILES_MAX:,}; "
            "nothing was changed; give keep= to the jobs that replace them instead"
        )
    old = [_as_old(location.key, file) for file in files.values()]
    lists = await kept.write(engine.store, location.key, context.job, old, length=_LIST_LENGTH)
    ours = Keeping(
        job_id=context.job,
        until_ms=int(time.time() * 1000) + _GRACE_MS,
        lists=tuple(one.sha256 for one in lists),
    )
    before = await _put(engine, location, conditions, ours)
    try:
        await _look(engine, location, context, files, before)
    except MagicError:
        await _put(engine, location, conditions, replace(ours, until_ms=0))
        raise
    return ours.job_id


async def is_kept(engine: Engine, location: Location, keeps: str) -> bool:
    """Whether the pointer names what a tag keeps, and nobody is deleting it."""
    seen = await chain.read_pointer(engine.store, location.key, READING)
    return seen is not None and any(one.job_id == keeps and not one.expires for one in seen[0].keeping)


async def remove_lists(store: Store, destination: str, jobs: Collection[str]) -> None:
    """Delete the lists of tags that keep nothing any more. Only a tidy directory is at stake."""
    for job in jobs:
        if job.startswith(_TAG):
            with suppress(MagicError):
                prefix = paths.prefix_of(paths.join(destination, MANIFESTS, job))
                await store.delete([info.key async for info in store.list(prefix)])


def _as_old(destination: str, file: ManifestFile) -> OldObject:
    return OldObject(paths.join(destination, file.key), file.etag, file.size, file.version or "")


async def _look(
    engine: Engine, location: Location, context: JobContext, files: Mapping[str, ManifestFile], seen: Pointer
) -> None:
    """Raise where a file is gone, or may be going; the pointer names them already."""
    for one in await find_unfinished_jobs(engine, location.key, visitors=True):
        if one.job is None or one.job.state in CHANGES_FILES:
            raise CommitDenied(
                f"job {one.job_id} at {location.url} is replacing files; nothing was tagged; wait for it, or "
                f"run magicfs recover {location.url}, then tag again"
            )
    if lost := await _lost(engine, location, files, seen):
        raise files_gone(engine, context, lost)


async def _lost(
    engine: Engine, location: Location, files: Mapping[str, ManifestFile], seen: Pointer
) -> list[str]:
    """The files that are gone, or may be going; by keys."""
    aside = await kept.places_aside(engine.store, location.key, READING, files)
    due = await going(engine, location, seen.keeping)
    lost = [key for key in files if paths.join(location.key, aside.get(key, key)) in due]
    found = await compare(engine, location.key, {key: files[key] for key in files if key not in aside})
    gone = [*found.missing, *found.altered]
    return lost + [key for key in gone if not await _has_version(engine, location, files[key])]


async def _has_version(engine: Engine, location: Location, file: ManifestFile) -> bool:
    key = paths.join(location.key, file.key)
    return file.version is not None and await has_version(engine.store, key, file.version)


async def going(engine: Engine, location: Location, keeping: Sequence[Keeping]) -> set[str]:
    """Where what ``expire`` may be deleting lies: what is not shown, and none of these keeps for longer."""
    expiring = {one.job_id for one in keeping if one.expires}
    if not expiring:
        return set()
    lists = await kept.kept_by(engine.store, location.key, READING, keeping)
    stays = Staying(location.key, [one for job in lists.keys() - expiring for one in lists[job]])
    due = {one.key for job in expiring for one in lists[job] if not stays.has(one)}
    return due - await _shown(engine, location)


async def _shown(engine: Engine, location: Location) -> set[str]:
    view = await chain.view(engine.store, location.key, READING)
    return set() if view is None else {paths.join(location.key, key) for key in view.files}


async def _put(engine: Engine, location: Location, conditions: Conditions, ours: Keeping) -> Pointer:
    """Let the pointer name what a tag keeps; returns the pointer without it."""

    def without(keeping: Sequence[Keeping]) -> tuple[Keeping, ...]:
        return tuple(one for one in keeping if one.job_id != ours.job_id)

    async def change(keeping: tuple[Keeping, ...]) -> Sequence[Keeping]:
        return (*without(keeping), ours)

    pointer = await change_keeping(engine.store, location.key, conditions, change)
    assert pointer is not None  # a publication is there
    return replace(pointer, keeping=without(pointer.keeping))
