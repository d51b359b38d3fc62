"""Moving a directory into another, by the rules of Hadoop's ``FileOutputCommitter.mergePaths``.

* A file takes the place of a file, and of a directory, which is deleted before.
* A directory takes the place of a file, and is merged into a directory, child by child.
* A directory that meets nothing is renamed whole, where that is one step and no file gets another name;
  elsewhere its files are moved one by one, and directories without files are left behind.

Names that are reserved for committers (``conflict.is_reserved``) are never moved, and a directory in the way
that holds one is never deleted. A ``_SUCCESS`` at the top stays behind: the job writes its own.
Other hidden files are moved, as they are by Hadoop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Final, Literal

from magicfs.engine import Engine, Event
from magicfs.errors import CommitFailed, ObjectExists, ObjectNotFound, Unsupported
from magicfs.formats.statistics import Statistics
from magicfs.parallel import drained
from magicfs.protocol import paths
from magicfs.protocol.conflict import is_reserved
from magicfs.protocol.layout import SUCCESS
from magicfs.protocol.readback import Outcome
from magicfs.protocol.steps import Rename
from magicfs.stores.object_tree import tree_of
from magicfs.stores.port import Store
from magicfs.stores.tree_port import Entry

__all__ = ["Merge", "Overwrite", "in_the_way", "walk"]

# Others may put a file or a directory in the way again, but nobody does so for ever.
_TRIES: Final = 5

Overwrite = Literal["never", "files", "always", "refuse"]
Kind = Literal["file", "directory"]


def in_the_way(path: str, there: Kind, wanted: Kind) -> CommitFailed:
    """Why a job may not publish: old data is in the way."""
    return CommitFailed(
        f"{path} is a {there} that was there before, and the job has a {wanted} of that name; it was not "
        "deleted; move it away and commit again, or use other names; "
        "committer_options={'delete_obstacles': True} has it deleted, as by Hadoop",
        failed=[path],
    )


async def walk(store: Store, directory: str) -> AsyncIterator[tuple[str, int]]:
    """Every file below a directory: its relative path and its size in bytes.

    Markers of directories, objects whose key ends with a slash, are left out.
    """
    prefix = paths.prefix_of(directory)
    async for info in store.list(prefix):
        if not info.key.endswith("/"):
            yield info.key[len(prefix) :], info.size


class Merge:
    """Merges directories into one destination, several at once if need be.

    After a failure no further file is begun, those under way end, and the first error is raised; what was
    moved stays where it is, and a second call moves the rest. A source that vanishes meanwhile counts as not
    moved: whoever knows what there must be compares the numbers.

    The engine limits the renames at once, and reports each. On stores where names are only prefixes a
    rename does not find out what it overwrites. There ``overwrite`` says what to look for and delete first:
    ``never`` anything, in a directory of our own; ``files`` in the place of directories, one request for each
    directory; or ``always`` what is there, one more for each file. With ``refuse`` nothing is looked for, and
    a file in the place of a directory, or the other way round, is not deleted where a rename meets it.
    """

    def __init__(self, engine: Engine, destination: str, *, overwrite: Overwrite) -> None:
        self.tree = tree_of(engine.store)
        self.destination = destination
        # Called with final key and size of every moved file.
        self.moved: Callable[[str, int], None] | None = None
        self.copied = 0  # bytes that the store copied, for want of a rename
        self.renames = 0
        self.failed: list[str] = []  # final keys of files that could not be moved
        self._engine = engine
        self._overwrite = overwrite
        self._stopped = False
        self._slots = asyncio.Semaphore(engine.concurrency)
        self._parents: dict[str, asyncio.Future[None]] = {}

    @property
    def statistics(self) -> Statistics:
        """What it did, under the names of Hadoop's filesystems."""
        return Statistics(counters={"op_rename": self.renames, "files_copied_bytes": self.copied})

    async def merge(self, source: str, final: Callable[[str], str] | None = None) -> int:
        """Merge one directory; one that is not there counts as empty. Returns how many files were moved.

        ``final`` gives the key for a relative path; by default that is the same path below the destination.
        Raises CommitFailed if a directory is in the way that holds the work of a job.
        """
        try:
            if final is None and await self.tree.is_atomic():
                there = await self.tree.look(source)
                return await self._directory(source, self.destination) if there is not None else 0
            return await self._files(source, final or (lambda name: paths.join(self.destination, name)))
        except Exception:
            self._stopped = True
            raise

    async def _files(self, source: str, final: Callable[[str], str]) -> int:
        count = 0

        async def one(file: tuple[str, int]) -> bool:
            nonlocal count
            relative, size = file
            if relative != SUCCESS and not is_reserved(relative):
                moved = await self._file(f"{source}/{relative}", final(relative), size)
                count += moved
            return not self._stopped

        await drained(walk(self._engine.store, source), one, self._engine.concurrency)
        return count

    # -- directories ---------------------------------------------------------------------------------------

    async def _directory(self, source: str, destination: str) -> int:
        for _ in range(_TRIES):
            there = await self.tree.look(destination)
            if there is not None and there.kind == "directory":
                break
            if there is not None:
                await self._delete_file(destination)
            try:
                count = await self._whole(source, destination)
            except Unsupported:  # it would lead to another device
                break
            if count is not None:
                return count
        moved_files = 0

        async def child(entry: Entry) -> bool:
            nonlocal moved_files
            name = entry.path.rpartition("/")[2]
            if not self._stays(name, destination):
                target = paths.join(destination, name)
                if entry.kind == "directory":
                    moved = await self._directory(entry.path, target)
                else:
                    moved = await self._file(entry.path, target, entry.size)
                moved_files += moved
            return not self._stopped

        try:
            await drained(self.tree.entries(source), child, self._engine.concurrency)
        except ObjectNotFound:
            if await self.tree.look(source) is not None:
                raise
        return moved_files

    def _stays(self, name: str, destination: str) -> bool:
        return is_reserved(name) or (name == SUCCESS and destination == self.destination)

    async def _whole(self, source: str, destination: str) -> int | None:
        """Rename a directory as it is; None if something has come in the way."""
        files = [one async for one in walk(self._engine.store, source)]
        await self._have_parent(destination)
        try:
            async with self._slots:
                await self.tree.rename(source, destination)
        except ObjectExists:
            return None
        except ObjectNotFound:
            self._parents.pop(_parent(destination), None)
            return 0 if await self.tree.look(source) is None else None
        self.renames += 1
        for relative, size in files:
            self._tell(f"{source}/{relative}", f"{destination}/{relative}", size)
        return len(files)

    # -- files ---------------------------------------------------------------------------------------------

    async def _file(self, source: str, key: str, size: int) -> int:
        """Move a file; 0 if it is not there any more, or something has failed already, else 1."""
        if self._stopped:
            return 0
        try:
            if not await self._move(source, key):
                return 0
        except Exception:
            self.failed.append(key)
            self._stopped = True
            raise
        if not await self.tree.is_atomic():
            self.copied += size
        self.renames += 1
        self._tell(source, key, size)
        return 1

    async def _move(self, source: str, key: str) -> bool:
        for left in range(_TRIES, -1, -1):
            await self._have_parent(key)
            if (
                self._overwrite == "always"
                and not await self.tree.is_atomic()
                and await self._is_directory(key)
            ):
                await self._remove_directory(key)
            try:
                async with self._slots:
                    await self.tree.rename(source, key)
            except ObjectExists:
                if not left:
                    raise
                await self._remove_directory(key)
            except ObjectNotFound:
                if await self.tree.look(source) is None:
                    return False
                if not left:
                    raise
                self._parents.pop(_parent(key), None)
            else:
                return True
        raise AssertionError("the last try returns or raises")

    async def _delete_file(self, path: str) -> None:
        if self._overwrite == "refuse":
            raise in_the_way(path, "file", "directory")
        await self.tree.delete(path)

    async def _remove_directory(self, path: str) -> None:
        async for relative, _ in walk(self._engine.store, path):
            if self._overwrite == "refuse":
                raise in_the_way(path, "directory", "file")
            if is_reserved(relative):
                raise CommitFailed(
                    f"the directory {path} is where a file of that name shall be, and holds the work of a "
                    f"job ({relative}), so it was not deleted; rename the file or move the directory away, "
                    "and commit again",
                    failed=[path],
                )
        await self.tree.delete_tree(path)

    async def _is_directory(self, path: str) -> bool:
        async for _ in self._engine.store.list(paths.prefix_of(path), limit=1):
            return True
        return False

    async def _have_parent(self, key: str) -> None:
        """See to it, once for each directory, that a file can be put there."""
        directory = _parent(key)
        if directory not in self._parents:
            self._parents[directory] = asyncio.ensure_future(self._make_parent(directory))
        await self._parents[directory]

    async def _make_parent(self, directory: str) -> None:
        if await self.tree.is_atomic():
            for _ in range(_TRIES):
                try:
                    return await self.tree.make_directory(directory)
                except ObjectExists:
                    await self._remove_file_above(directory)
            return await self.tree.make_directory(directory)
        if self._overwrite in {"files", "always"} and paths.is_under(directory, self.destination):
            await self._have_parent(directory)
            try:
                await self._engine.store.head(directory)
            except ObjectNotFound:
                return None
            await self.tree.delete(directory)
        return None

    async def _remove_file_above(self, directory: str) -> None:
        """Delete the file that is in the place of a directory, or of one above it."""
        while paths.is_under(directory, self.destination):
            there = await self.tree.look(directory)
            if there is not None:
                if there.kind == "file":
                    await self._delete_file(directory)
                return
            directory = _parent(directory)

    def _tell(self, source: str, key: str, size: int) -> None:
        if self.moved is not None:
            self.moved(key, size)
        self._engine.tell(Event("rename", Rename(source, key, size), Outcome.DONE))


def _parent(key: str) -> str:
    return key.rpartition("/")[0]
