"""What a reader of the chain of manifests sees.

Walking back from the pointer, a reader takes every file that it
meets, except that

* ``hides="all"`` hides the job that ``replaced`` names, and all before it. Jobs that joined the chain after
  the replacing job had looked, and before it joined itself, stay visible. Files older than the chain are
  hidden.
* ``hides="keys"`` hides the keys in ``deleted`` from all older manifests.
* of two files with one key the newer counts.
* ``mode="compact"`` is a compaction manifest: it lists what the chain right below it shows, and hides all
  of that. A reader takes its files and stops. A reader skips it only if a newer job replaced files older than
  one of the jobs in it; then it reads the manifests below one by one.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Mapping
from dataclasses import dataclass
from typing import Final

from magicfs.formats.manifest import Manifest, ManifestFile

__all__ = ["ADOPT", "COMPACT", "View", "view_of"]

ADOPT: Final = "adopt"
"""The mode in manifests of files that are older than the chain."""

COMPACT: Final = "compact"
"""The mode in manifests that sum older ones up; their job ids begin with it, too."""


@dataclass(frozen=True, slots=True)
class View:
    """What a reader of the chain sees."""

    head: Manifest
    files: Mapping[str, ManifestFile]
    """Every file by its key, relative to the destination, the newest job's first."""
    older_files: bool  # whether there may be files beside these that no manifest knows

    @property
    def newest_job(self) -> str:
        """The job that was published last; a sum of older manifests is none."""
        head = self.head
        return head.previous if head.mode == COMPACT and head.previous is not None else head.job_id


async def view_of(manifests: AsyncIterable[Manifest]) -> View | None:
    """What a chain shows, given the newest manifest first; those that it hides are not asked for.

    Raises FormatError if the chain is broken.
    """
    head: Manifest | None = None
    files: dict[str, ManifestFile] = {}
    hidden: set[str] = set()
    ends: set[str] = set()
    settled = older_files = False
    async for manifest in manifests:
        if manifest.job_id in ends:
            break
        head = head or manifest
        is_sum = manifest.mode == COMPACT
        if is_sum and ends:
            continue
        for file in manifest.files:
            if file.key not in hidden:
                files.setdefault(file.key, file)
        settled = settled or (manifest.hides == "all" and not is_sum) or manifest.mode == ADOPT
        older_files = older_files or (manifest.older_files and not settled)
        if is_sum:
            break
        hidden.update(manifest.deleted)
        if manifest.replaced is not None:
            ends.add(manifest.replaced)
    return None if head is None else View(head, files, older_files)
