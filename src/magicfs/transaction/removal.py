"""What a job replaces that names its files: exactly those, as the manifests show them when it commits.

They are chosen each time the job looks: from the view of the pointer that it has read. So a file that another
job has replaced in the meantime is not taken for the one of that name, and one that another job has added is
none of its business.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from magicfs.engine import Engine
from magicfs.errors import CommitDenied, ObjectNotFound
from magicfs.formats.manifest import ManifestFile
from magicfs.manifests import chain
from magicfs.manifests.chain import Seen
from magicfs.manifests.comparison import is_file
from magicfs.protocol import paths
from magicfs.protocol.replacement import OldFile, Replacement
from magicfs.runtime.parallel import drained
from magicfs.stores.conditions import Conditions
from magicfs.transaction.context import JobContext
from magicfs.transaction.output import Choice

__all__ = ["chosen", "partitions_of", "take_only"]


async def chosen(
    engine: Engine, context: JobContext, conditions: Conditions, seen: Seen | None, choice: Choice
) -> Mapping[str, ManifestFile]:
    """The files that a job replaces, by keys relative to the destination.

    Raises CommitDenied if nothing of them is left, or the choice cannot be what it was.
    """
    store, destination = engine.store, context.layout.destination
    found: Mapping[str, ManifestFile] = {}
    if seen is not None:
        manifests = chain.chain(store, destination, conditions, start=seen[0].job_id, hidden="none")
        view = await chain.view_of(manifests)
        found = choice(view.files if view is not None else {})
    if not found:
        raise CommitDenied(
            f"the files of {context.url} that job {context.job} was to {context.options.conflict} were "
            "replaced by other jobs meanwhile; nothing was changed; call again"
        )
    return found


def partitions_of(keys: Iterable[str]) -> tuple[str, ...] | None:
    """The directories in which files lie, none below another, sorted; None for the whole destination."""
    found = {key.rpartition("/")[0] for key in keys}
    if "" in found:
        return None
    return tuple(sorted(one for one in found if not _lies_below(one, found)))


def _lies_below(directory: str, others: set[str]) -> bool:
    parent = directory.rpartition("/")[0]
    while parent:
        if parent in others:
            return True
        parent = parent.rpartition("/")[0]
    return False


async def take_only(
    engine: Engine, context: JobContext, found: Replacement, files: Mapping[str, ManifestFile]
) -> None:
    """Leave of what a listing of their directories shows only these files.

    Those that are gone are hidden all the same. Raises CommitDenied if one was written over by somebody.
    """
    destination = context.layout.destination
    listed = {one.key: one for one in (*found.deleted, *found.hidden)}
    there: list[OldFile] = []
    doubtful: list[tuple[OldFile, ManifestFile]] = []
    for key, file in files.items():
        one = listed.get(paths.join(destination, key))
        if one is None:
            found.left.append(OldFile(paths.join(destination, key), file.etag, file.size))
            continue
        there.append(one)
        if one.size != file.size or not _same_etag(one.etag, file):
            doubtful.append((one, file))

    async def look(pair: tuple[OldFile, ManifestFile]) -> bool:
        one, file = pair
        try:
            info = await engine.store.head(one.key)
        except ObjectNotFound:
            return True  # it is deleted only if it is the one that was listed
        if not is_file(info, file):
            raise CommitDenied(
                f"{engine.store.bucket}/{one.key} was written over since it was published; nothing was "
                f"changed; run magicfs verify {context.url}, and remove or restore what is altered"
            )
        return True

    await drained(doubtful, look, engine.concurrency)
    found.deleted, found.hidden = there, []


def _same_etag(etag: str, file: ManifestFile) -> bool:
    return bool(file.etag) and etag.strip('"') == file.etag.strip('"')
