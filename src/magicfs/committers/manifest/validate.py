"""The stage that looks at every file once it has been renamed."""

from __future__ import annotations

from magicfs.committers.manifest.spill import Spill, SpilledFile
from magicfs.committers.manifest.stage import Stage
from magicfs.errors import CommitFailed
from magicfs.parallel import drained

__all__ = ["ValidateFiles"]


class ValidateFiles(Stage[Spill, int]):
    """Compare every file at its final key with what its manifest says of it.

    Returns:
        How many were looked at.

    Raises:
        CommitFailed: One is not there, is a directory, or has another size or ETag.
    """

    name = "job_stage_optional_validate_output"

    async def _run(self, argument: Spill) -> int:
        looked_at = 0

        async def one(file: SpilledFile) -> bool:
            nonlocal looked_at
            if (problem := await self._problem(file)) is not None:
                raise CommitFailed(
                    f"{file.key} is not the file that task {file.task} committed: {problem}; the files of "
                    f"job {self.config.context.job} are published, but there is no _SUCCESS; find out who "
                    "changed it, and run the job again",
                    failed=[file.key],
                )
            looked_at += 1
            return True

        await drained(argument.files(), one, self.config.concurrency)
        return looked_at

    async def _problem(self, file: SpilledFile) -> str | None:
        found = await self.config.tree.look(file.key)
        if found is None:
            return "nothing is there"
        if found.kind != "file":
            return "a directory is there"
        if found.size != file.size:
            return f"it has {found.size} bytes, and had {file.size}"
        if file.etag and found.etag != file.etag:
            return f"its ETag is {found.etag}, and was {file.etag}"
        return None
