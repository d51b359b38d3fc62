"""A word at a job's end where its files are small."""

from __future__ import annotations

from magicfs.report import human_bytes
from magicfs.transaction.extension import Extension, Settling


class Sizes(Extension):
    """Warns if the mean size of the files that a job has published is below what its caller wants."""

    async def at_end(self, job: Settling) -> list[str] | None:
        least, files = job.context.options.warn_below, job.output.files
        if not least or not files or job.output.bytes >= least * files:
            return None
        mean = human_bytes(job.output.bytes // files)
        text = (
            f"{files} published files have {mean} on average, less than warn_below; every reader opens each"
        )
        return [f"{text}; write fewer and larger files, or merge them with rewrite"]
