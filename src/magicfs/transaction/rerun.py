"""What a run that is published again by partition takes of its earlier publication.

It replaces the partitions that it brings, as ever. In others it takes the files that the earlier publication
of the run brought there, as far as they are still shown, and leaves all that other jobs brought.
"""

from __future__ import annotations

from collections.abc import Mapping

from magicfs.engine import Engine
from magicfs.formats.manifest import ManifestFile
from magicfs.manifests import chain
from magicfs.manifests.chain import Seen
from magicfs.manifests.runs import job_of_run_by
from magicfs.protocol import paths
from magicfs.protocol.conflict import lies_in
from magicfs.protocol.replacement import OldFile, Replacement
from magicfs.stores.conditions import Conditions
from magicfs.transaction import past, removal
from magicfs.transaction.context import JobContext

__all__ = ["earlier_files", "leave_others", "with_earlier"]

_Partitions = tuple[str, ...] | None


async def earlier_files(
    engine: Engine, context: JobContext, conditions: Conditions, seen: Seen | None, touched: _Partitions
) -> dict[str, ManifestFile]:
    """The files of the earlier publication outside the touched partitions, by relative keys; none for a run
    that is published for the first time.
    """
    asked = context.options.rerun == "replace" and context.options.conflict == "replace_partitions"
    if not asked or seen is None or touched is None or context.options.run_id is None:
        return {}
    store, destination = engine.store, context.layout.destination
    job = await job_of_run_by(store, destination, conditions, seen[0], context.options.run_id)
    manifest = None if job is None else await chain.read(store, destination, job, conditions)
    if manifest is None:
        return {}
    shown = await past.shown_by(engine, destination, conditions, seen[0].job_id)
    return {
        one.key: one for one in manifest.files if shown.get(one.key) == one and not lies_in(one.key, touched)
    }


def with_earlier(touched: _Partitions, earlier: Mapping[str, ManifestFile]) -> _Partitions:
    """The touched partitions, and those in which the earlier files lie; None for everything."""
    if touched is None or not earlier:
        return touched
    return removal.partitions_of([*(f"{one}/" for one in touched), *earlier])


def leave_others(
    destination: str, found: Replacement, touched: _Partitions, earlier: Mapping[str, ManifestFile]
) -> None:
    """Take out of what a job replaces all that neither lies in a touched partition nor is an earlier file.

    An earlier file that is gone, or was written over by somebody, is hidden and not deleted.
    """
    if not earlier or touched is None:
        return
    taken = set[str]()

    def goes(one: OldFile) -> bool:
        relative = paths.relative_to(one.key, destination)
        if lies_in(relative, touched):
            return True
        file = earlier.get(relative)
        is_it = file is not None and file.size == one.size and file.etag.strip('"') == one.etag.strip('"')
        if is_it:
            taken.add(relative)
        return is_it

    found.deleted = [one for one in found.deleted if goes(one)]
    found.left += [
        OldFile(paths.join(destination, key), one.etag, one.size)
        for key, one in earlier.items()
        if key not in taken
    ]
