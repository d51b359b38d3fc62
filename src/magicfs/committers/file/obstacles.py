"""Old data that lies where a job's files or directories shall be: it is named, and never deleted."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from magicfs.committers.file.merge import in_the_way, walk
from magicfs.errors import ObjectNotFound
from magicfs.formats.file_task import TaskRecord
from magicfs.protocol import paths

if TYPE_CHECKING:
    from magicfs.committers.file.algorithm import FileWork

__all__ = ["Obstacles"]


class Obstacles:
    """Looks where the files of tasks shall lie, before any of them is moved.

    One request for each directory; and where names are not unique, two for each file.
    """

    def __init__(self, work: FileWork) -> None:
        self._work = work
        self._destination = work.layout.destination
        self._looks: dict[str, asyncio.Future[bool]] = {}

    async def refuse(self, record: TaskRecord) -> None:
        """Raise CommitFailed if a file is in the place of a directory, or anything in the place of a file.

        Files of the job itself are no obstacles: with ``unique_names=False`` the last task counts.
        """
        work = self._work
        for relative, _ in record.files if not work.deletes_obstacles else ():
            key = work.final_key(relative, record.task)
            for directory in self._above(key):
                if await self._is_file(directory) and directory not in await work.own_files():
                    raise in_the_way(directory, "file", "directory")
            if work.context.unique_names:
                continue
            if await self._is_file(key) and key not in await work.own_files():
                raise in_the_way(key, "file", "file")
            if await self._holds_old_files(key):
                raise in_the_way(key, "directory", "file")

    def _above(self, key: str) -> list[str]:
        top = len(paths.elements(self._destination))
        elements = key.split("/")
        return ["/".join(elements[:depth]) for depth in range(top + 1, len(elements))]

    async def _holds_old_files(self, directory: str) -> bool:
        found = walk(self._work.engine.store, directory)
        async for relative, _ in found:
            if f"{directory}/{relative}" not in await self._work.own_files():
                return True
        return False

    async def _is_file(self, directory: str) -> bool:
        if directory not in self._looks:
            self._looks[directory] = asyncio.ensure_future(self._look(directory))
        return await self._looks[directory]

    async def _look(self, directory: str) -> bool:
        if await self._work.tree.is_atomic():
            there = await self._work.tree.look(directory)
            return there is not None and there.kind == "file"
        try:
            await self._work.engine.store.head(directory)
        except ObjectNotFound:
            return False
        return True
