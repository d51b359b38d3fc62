"""Publishing the files of one earlier job again, next to what is there today.

The files are copied under names of their own, as delayed uploads of a job that appends: so it collides with
no other job, and the files that it copies may go as soon as it has them.
"""

from __future__ import annotations

from magicfs.datasets.commit import commit_or_abort
from magicfs.datasets.connection import told_as_newest
from magicfs.datasets.read import current_view, read_manifest_of, shown_files
from magicfs.engine import Engine
from magicfs.errors import UsageError
from magicfs.formats.job_options import JobOptions
from magicfs.formats.manifest import ManifestFile
from magicfs.manifests.chain import READING
from magicfs.past.as_of import job_as_of
from magicfs.past.copies import copied_files
from magicfs.past.difference import originals
from magicfs.past.earlier_files import lying_where_they_are, without_any
from magicfs.past.effects import Effects, Files, log_effects
from magicfs.past.extension import files_gone
from magicfs.past.rollback import RollbackReport
from magicfs.protocol import ids
from magicfs.protocol.layout import WorkLayout
from magicfs.protocol.modes import is_data
from magicfs.protocol.paths import Location
from magicfs.report import JobReport
from magicfs.transaction.context import JobContext
from magicfs.transaction.driver import JobTransaction
from magicfs.transaction.output import JobOutput


async def cherry_pick(
    engine: Engine, location: Location, *, which: str, dry_run: bool, run_id: str | None, job: ids.JobId
) -> RollbackReport:
    """``magicfs.Dataset.cherry_pick``, on the store's loop."""
    source = await job_as_of(engine, location, which)
    files = await _lacking(engine, location, source)
    context = JobContext(
        url=location.url,
        layout=WorkLayout(location.key, job),
        options=JobOptions(committer="magic", mode="append", run_id=run_id),
    )
    lying = await lying_where_they_are(engine, location.key, files)
    if gone := await without_any(engine, location.key, lying):
        raise files_gone(engine, context, gone, source)
    effects = Effects(back=Files.of({key: one.size for key, one in files.items()}))
    nothing = JobReport("", location.url, "magic", "append", 0, 0, 0, 0.0)
    if dry_run:
        return RollbackReport.of(nothing, effects, dry_run=True)
    transaction = JobTransaction(await told_as_newest(engine, location), context)
    found = await transaction.set_up()
    if found.published is not None or not files:
        await transaction.abort((), found.driver, given=False)
        if found.published is None:
            raise UsageError(
                f"all files of job {source} are in {location.url} now; nothing was changed; choose another"
            )
        return RollbackReport.of(
            JobReport.before(found.published, location.url, "magic", "append"), Effects()
        )
    log_effects(effects, location.url, "adding files again to")

    async def load() -> JobOutput:
        return await copied_files(
            transaction.engine, context, READING, source, [files[key] for key in sorted(files)], lying
        )

    return RollbackReport.of(await commit_or_abort(transaction, load, found.driver), effects)


async def _lacking(engine: Engine, location: Location, job: str) -> dict[str, ManifestFile]:
    """The data files of a job that the dataset shows neither as such nor as copies."""
    manifest = await read_manifest_of(engine, location, job)
    files = {one.key: one for one in manifest.files if is_data(one.key, "")}
    shown = shown_files(location, await current_view(engine, location))
    copied = set(originals(shown, files).values())
    return {
        key: one
        for key, one in files.items()
        if key not in copied and (key not in shown or shown[key].etag != one.etag)
    }
