"""The stage that saves ``_SUCCESS``."""

from __future__ import annotations

from magicfs.committers.manifest.save import save
from magicfs.committers.manifest.stage import Stage
from magicfs.formats.manifest_success import manifest_success
from magicfs.formats.success import SuccessData

__all__ = ["SaveSuccess"]


class SaveSuccess(Stage[SuccessData, str]):
    """Save ``_SUCCESS``, in place of whosever is there.

    Returns:
        Its key.

    Raises:
        StoreError: It could not be saved, however often it was tried.
    """

    name = "job_stage_save_success_marker"

    async def _run(self, argument: SuccessData) -> str:
        raw, key = manifest_success(argument), self.config.context.layout.success_key
        temporary = f"{self.config.places.attempt_directory}/_SUCCESS.tmp"
        if self.config.places.destination:
            await self.config.tree.make_directory(self.config.places.destination)
        await save(self.config, "op_save_success", key, temporary, lambda: raw)
        return key
