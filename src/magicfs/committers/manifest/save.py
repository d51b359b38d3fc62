"""Saving a file in one rename, tried as often as the options say: a task's manifest, and ``_SUCCESS``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace

from magicfs.committers.manifest.stage import Stage, StageConfig
from magicfs.errors import CommitDenied, ObjectNotFound, StoreError
from magicfs.formats.success import SuccessData, manifest_success
from magicfs.formats.task_manifest import TaskManifest
from magicfs.protocol import paths
from magicfs.protocol.ids import AttemptId
from magicfs.stores.tree_port import Entry

__all__ = ["SaveSuccess", "SaveTaskManifest", "Saved", "save"]


@dataclass(frozen=True, slots=True)
class Saved:
    """A manifest that was saved."""

    key: str
    manifest: TaskManifest  # as it was written, with what it took


async def save(
    config: StageConfig, name: str, final: str, temporary: str, content: Callable[[], bytes]
) -> None:
    """Write a file under a temporary name and rename it, trying as often as the options say.

    Afterwards the final path holds the content whole, in place of a file or directory that was there. An
    attempt whose error hides that it succeeded counts as a success. The pause after the n-th failure is n
    times ``config.pause_s``. Raises what the last attempt met; ObjectNotFound, if the directory of ``final``
    is not there, is not tried again.

    ``name`` is what attempts are counted under. ``content`` is called for each attempt, so it can contain the
    counts of those before.
    """
    tree, failures = config.tree, 0
    while True:
        written: Entry | None = None
        try:
            with config.counts.timed(name):
                await tree.delete_tree(temporary)
                await tree.write(temporary, content())
                written = await tree.look(temporary)
                there = await tree.look(final)
                if there is not None and there.kind == "directory":
                    await tree.delete_tree(final)
                await tree.rename(temporary, final)
            return
        except StoreError as error:
            if written is not None and await _is_there(config, final, written):
                return
            if isinstance(error, ObjectNotFound) and await _is_gone(config, final):
                raise
            failures += 1
            if failures >= config.options.save_attempts:
                error.add_note(f"and so it was in each of {failures} attempts to save {final}")
                raise
        await asyncio.sleep(config.pause_s * failures)


async def _is_there(config: StageConfig, final: str, written: Entry) -> bool:
    """Whether the file was renamed, whatever the answer was."""
    try:
        found = await config.tree.look(final)
    except StoreError:
        return False
    return found is not None and found.kind == "file" and bool(found.etag) and found.etag == written.etag


async def _is_gone(config: StageConfig, final: str) -> bool:
    try:
        return await config.tree.look(final.rpartition("/")[0]) is None
    except StoreError:
        return False


class SaveTaskManifest(Stage[TaskManifest, Saved]):
    """Persist what a task attempt wrote, in one rename; the last attempt of a task that does so wins. Raises
    CommitDenied if the job is being committed, has ended, or was never set up; nothing was committed.
    """

    name = "task_stage_save_manifest"
    saving = "task_stage_save_task_manifest"

    async def _run(self, argument: TaskManifest) -> Saved:
        config, places = self.config, self.config.places
        attempt = AttemptId(argument.attempt_id)
        key = f"{places.open_manifests}/{argument.task_id}-manifest.json"
        temporary = places.temporary_manifest(attempt)
        made = argument

        def content() -> bytes:
            nonlocal made
            made = replace(argument, statistics=config.counts.statistics())
            raw = made.to_bytes()
            config.counts.sample("committer_task_manifest_file_size", len(raw))
            return raw

        if await config.tree.look(places.open_manifests) is None:
            raise self._denied(argument)
        try:
            await save(config, self.saving, key, temporary, content)
        except ObjectNotFound as error:
            if await config.tree.look(places.open_manifests) is not None:
                raise
            await config.tree.delete(temporary)
            raise self._denied(argument) from error
        return Saved(key, made)

    def _denied(self, manifest: TaskManifest) -> CommitDenied:
        where = paths.join(self.config.places.bucket, self.config.places.open_manifests)
        return CommitDenied(
            f"task {manifest.task_id} comes too late: {where} is not there, for job {manifest.job_id} is "
            "being committed, has ended, has a newer attempt, or was never set up; nothing was committed"
        )


class SaveSuccess(Stage[SuccessData, str]):
    """Save ``_SUCCESS``, in place of any that is there; returns the key."""

    name = "job_stage_save_success_marker"

    async def _run(self, argument: SuccessData) -> str:
        raw, key = manifest_success(argument), self.config.context.layout.success_key
        temporary = f"{self.config.places.attempt_directory}/_SUCCESS.tmp"
        if self.config.places.destination:
            await self.config.tree.make_directory(self.config.places.destination)
        await save(self.config, "op_save_success", key, temporary, lambda: raw)
        return key
