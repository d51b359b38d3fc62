"""Making the files of a job visible, and telling which of them are."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from typing import cast

from magicfs.engine import BatchLists, BatchResult, Engine
from magicfs.protocol import paths
from magicfs.protocol.steps import Batch, Publication, Put, Rename
from magicfs.stores.conditions import Conditions
from magicfs.transaction.bundles import Bundles
from magicfs.transaction.context import JobContext
from magicfs.transaction.output import JobOutput
from magicfs.transaction.renames import Pace, rename_files
from magicfs.transaction.spool import ETags

__all__ = ["Wanted", "comes_last", "lists_of", "make_visible", "must_be_absent"]

Wanted = Callable[[Publication], bool]
"""Whether a file is to be made visible now, by its step."""


def comes_last(key: str, replaced: AbstractSet[str]) -> bool:
    """Whether a file waits for the others, for it destroys an old one: in its own place, or in that of a
    directory above it.
    """
    return bool(replaced) and (key in replaced or any(one in replaced for one in paths.parents(key)))


def must_be_absent(context: JobContext, conditions: Conditions) -> bool:
    """Whether no completed file may replace an object: only names that are not the job's own can meet one."""
    return (
        not context.uploads_found_by_name
        and not context.renames.overwrites
        and context.options.conflict in {"append", "fail"}
        and conditions.complete_if_absent
    )


async def make_visible(
    engine: Engine,
    conditions: Conditions,
    output: JobOutput,
    etags: ETags,
    wanted: Wanted,
    *,
    if_absent: bool,
    verify: bool,
    bodies: Bundles | None = None,
    pace: Pace | None = None,
    looks_first: bool = False,
) -> BatchResult:
    """Make the files visible that are wanted, and note their ETags.

    ``if_absent``: whether completes must not replace an object. A put never replaces one, where the store
    honours that. ``verify`` and ``bodies`` are as for ``Engine.run``, ``pace`` and ``looks_first`` as for
    ``rename_files``.
    """
    places = array("Q")

    def steps() -> Iterator[Publication]:
        for place, step in enumerate(output.steps(if_absent=if_absent)):
            if not wanted(step):
                continue
            places.append(place)
            match step:
                case Put():
                    yield step._replace(if_absent=conditions.put_if_absent)
                case Rename() if if_absent:
                    yield step._replace(if_absent=True)
                case _:
                    yield step

    def completed(number: int, etag: str) -> None:
        etags.put(places[number], etag)

    if output.renames:
        renames = cast("Iterator[Rename]", steps())
        return await rename_files(
            engine, renames, completed, verify=verify, pace=pace, looks_first=looks_first
        )
    batch = Batch("complete", steps())
    return await engine.run(batch, verify=verify, completed=completed, bodies=bodies)


def lists_of(output: JobOutput, etags: ETags, result: BatchResult) -> BatchLists:
    """Keys by what became of them in a batch that failed, and before it."""
    failed = [failure.step.key for failure in result.failures]
    lists, tried = BatchLists(done=[], failed=failed, not_started=[]), set(failed)
    for key, etag in zip(output.final_keys(), etags, strict=True):
        if etag is not None:
            lists["done"].append(key)
        elif key not in tried:
            lists["not_started"].append(key)
    return lists
