"""What becomes of a job of ours that a JVM has committed: Hadoop writes ``_SUCCESS``, and no manifest.

Its committer removes the job's work, our job object included. ``_SUCCESS`` tells that the job was published,
so its driver writes the manifest that is missing, and never says that the job is to be run again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from magicfs.engine import Engine
from magicfs.errors import FormatError, ObjectNotFound, UsageError
from magicfs.formats.manifest import Manifest, ManifestFile
from magicfs.formats.success import SUCCESS_SIZE_LIMIT, SuccessData
from magicfs.manifests import chain
from magicfs.protocol import modes, paths
from magicfs.protocol.readback import WRITE_ID
from magicfs.runtime.parallel import drained
from magicfs.stores import object_settings
from magicfs.stores.conditions import conditions_of
from magicfs.stores.register import found_at
from magicfs.transaction.context import JobContext
from magicfs.transaction.late_driver import Committed

__all__ = ["Adopted", "adopt", "seen"]

_COMMITTED: Final = "committer_commits_completed"
_OURS: Final = "magicfs"


@dataclass(frozen=True, slots=True)
class Adopted:
    """A job that a JVM has committed."""

    manifest: Manifest  # which was missing
    warnings: tuple[str, ...]


async def seen(engine: Engine, destination: str, job: str) -> SuccessData | None:
    """What ``_SUCCESS`` says if a committer of Hadoop's has published this job; else None."""
    path = paths.join(destination, "_SUCCESS")
    try:
        raw = await engine.store.get(path, size_max=SUCCESS_SIZE_LIMIT + 1)
        found = SuccessData.from_bytes(f"{engine.store.bucket}/{path}", raw)
    except (ObjectNotFound, FormatError, UsageError):
        return None
    is_its = found.success and found.job_id == job and found.job_id_source != _OURS
    return found if is_its else None


async def adopt(
    engine: Engine, context: JobContext, success: SuccessData, committed: Committed | None
) -> Adopted:
    """Publish the manifest of a job that a JVM has committed. A second call changes nothing.

    Its files are those that its tasks have committed, and those that ``_SUCCESS`` names, which are the first
    hundred; the ones that are not there are left out. Warnings tell what no manifest names.
    """
    destination = context.layout.destination
    conditions = await conditions_of(engine.store, paths.join(destination, modes.MANIFESTS))
    files = await _files(engine, destination, success, committed)
    pointer = await chain.read_pointer(engine.store, destination, conditions)
    manifest = Manifest(
        job_id=context.job,
        run_id=context.options.run_id,
        bucket=engine.store.bucket,
        destination=destination,
        mode="append",  # whatever the job was told: that is all that Hadoop's can do
        committed_ms=success.timestamp_ms,
        older_files=pointer is None and await _others_are_there(engine, destination, files),
        files=tuple(files[key] for key in sorted(files)),
        object_settings=object_settings.of_store(engine.store),
    )
    await chain.publish(engine.store, conditions, destination, manifest)
    warnings = [f"Hadoop's {success.committer} committer committed the job; magicfs added its manifest"]
    if context.is_replacing:
        warnings.append(f"it appended, although mode={context.options.mode!r} was given")
    left = success.statistics.counters.get(_COMMITTED, len(files)) - len(files)
    if left > 0:
        warnings.append(
            f"{left} files of the job are not in its manifest, because neither its tasks' commits nor "
            f"_SUCCESS name them; run magicfs adopt {context.url} while no job writes there"
        )
    return Adopted(manifest, tuple(warnings))


async def _files(
    engine: Engine, destination: str, success: SuccessData, committed: Committed | None
) -> dict[str, ManifestFile]:
    """The job's files that are there, by relative keys."""
    wanted: dict[str, str | None] = {name.removeprefix("/"): None for name in success.filenames}
    wanted |= {one.key: one.write_id for one in (committed.files if committed else ())}
    found: dict[str, ManifestFile] = {}

    async def look(key: str) -> None:
        if (info := await found_at(engine.store, key)) is None:
            return
        own, borne = wanted[key], info.metadata.get(WRITE_ID)
        if own is None or own == borne:
            name = paths.relative_to(key, destination)
            found[name] = ManifestFile(
                key=name, size=info.size, etag=info.etag, version=info.version or None, write_id=borne
            )

    inside = [key for key in wanted if paths.is_under(key, destination) and modes.is_data(key, destination)]
    await drained(inside, look, engine.concurrency)
    return found


async def _others_are_there(engine: Engine, destination: str, files: dict[str, ManifestFile]) -> bool:
    async for info in engine.store.list(paths.prefix_of(destination)):
        name = paths.relative_to(info.key, destination)
        if modes.is_data(info.key, destination) and name not in files:
            return True
    return False
