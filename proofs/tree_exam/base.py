"""How a tree is brought before the exam."""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Mapping

from magicfs.stores.tree_port import Entry, Tree
from magicfs.testing.store_exam.base import Subject, collected, outcomes

__all__ = ["Examined", "collected", "outcomes"]


class Examined(Subject):
    """What every part of the exam builds on."""

    exam = "tree exam"

    @abstractmethod
    def make_tree(self, bucket: str | None = None) -> Tree:
        """The tree of the test's own bucket, which is empty when the test begins, or of another one."""

    @abstractmethod
    def peek(self, path: str) -> bytes | None:
        """What the file at a path holds, seen past the tree; None for nothing."""

    @abstractmethod
    def poke(self, path: str, body: bytes) -> None:
        """Write a file past the tree, with the directories that it lies in."""

    @functools.cached_property
    def tree(self) -> Tree:
        """The tree of the test's own bucket."""
        return self.make_tree()

    def unknown(self) -> Tree:
        """The tree of a bucket that is not there."""
        return self.make_tree("magicfs-exam-no-such-bucket")

    def poke_all(self, files: Mapping[str, bytes]) -> None:
        """Write files past the tree."""
        for path, body in files.items():
            self.poke(path, body)

    async def there(self, path: str) -> str | None:
        """What kind of thing is at a path."""
        found = await self.tree.look(path)
        return found.kind if found is not None else None

    async def shown(self, path: str = "") -> list[str]:
        """Paths of the entries of a directory as they come; a directory's with a slash at its end."""
        return [_slashed(entry) async for entry in self.tree.entries(path)]

    async def everything(self, path: str = "") -> dict[str, bytes | None]:
        """All files below a directory with what they hold, and all directories, found by going down."""
        found: dict[str, bytes | None] = {}
        for entry in await collected(self.tree.entries(path)):
            if entry.kind == "file":
                found[entry.path] = self.peek(entry.path)
            else:
                found[_slashed(entry)] = None
                found |= await self.everything(entry.path)
        return found

    async def files(self, path: str = "") -> dict[str, bytes | None]:
        """All files below a directory with what they hold."""
        return {name: body for name, body in (await self.everything(path)).items() if name[-1] != "/"}


def _slashed(entry: Entry) -> str:
    return f"{entry.path}/" if entry.kind == "directory" else entry.path
