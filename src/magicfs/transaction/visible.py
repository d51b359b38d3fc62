"""Making the files of a job visible, and telling which of them are."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator

from magicfs.engine import BatchLists, BatchResult, Engine
from magicfs.protocol.steps import Batch, Publication, Put
from magicfs.stores.conditions import Conditions
from magicfs.transaction.bundles import Bundles
from magicfs.transaction.etags import ETags
from magicfs.transaction.output import JobOutput

__all__ = ["Wanted", "lists_of", "make_visible"]

Wanted = Callable[[int, Publication], bool]
"""Whether a file is to be made visible now, by its place in the job and its step."""


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
) -> BatchResult:
    """Make the files visible that are wanted, and note their ETags.

    ``if_absent``: whether completes must not replace an object. A put never replaces one, where the store
    honours that. ``verify`` and ``bodies`` are as for ``Engine.run``.
    """
    places = array("Q")

    def steps() -> Iterator[Publication]:
        for place, step in enumerate(output.steps(if_absent=if_absent)):
            if not wanted(place, step):
                continue
            places.append(place)
            yield step._replace(if_absent=conditions.put_if_absent) if isinstance(step, Put) else step

    def completed(number: int, etag: str) -> None:
        etags.put(places[number], etag)

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
