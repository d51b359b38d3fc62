"""Saving the manifest of a task, tried as often as the options say."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

from magicfs.errors import ObjectNotFound, StoreError
from magicfs.formats.task_commit import TaskCommit
from magicfs.formats.task_manifest import TaskManifest

__all__ = ["save"]

_SAVING = "task_stage_save_task_manifest"


async def save(
    persist: Callable[[TaskManifest, bytes], Awaitable[TaskCommit]],
    manifest: TaskManifest,
    attempts: int,
    pause_s: float,
) -> TaskCommit:
    """Save a manifest, trying at most so many times; the pause after the n-th failure is n times ``pause_s``.

    ``persist`` is given it and its bytes. How often it was tried is counted in it. Raises what the last
    attempt met.
    """
    failures = 0
    while True:
        counted = {**manifest.statistics.counters, _SAVING: failures + 1}
        if failures:
            counted[f"{_SAVING}.failures"] = failures
        made = replace(manifest, statistics=replace(manifest.statistics, counters=counted))
        raw = made.to_bytes()
        try:
            return await persist(made, raw)
        except ObjectNotFound:
            raise
        except StoreError as error:
            failures += 1
            if failures >= attempts:
                error.add_note(f"and so it was in each of {failures} attempts to save the manifest")
                raise
        await asyncio.sleep(pause_s * failures)
