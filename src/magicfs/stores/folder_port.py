"""The port of folders: what buckets with a hierarchical namespace can do beside holding objects.

Google Cloud Storage and Azure Data Lake Storage have such buckets and others; which kind one is, only asking
tells. Paths, errors and what each docstring says are as in ``stores.tree_port``, on top of which
``stores.trees.folders`` makes a tree of folders and objects.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

from magicfs.stores.port import Store
from magicfs.stores.tree_port import Entry

__all__ = ["FolderStore", "Folders"]


class Folders(Protocol):
    """The folders of one bucket. A folder is there until it is deleted, whatever lies in it.

    Nothing is called but ``exist`` where that has said no.
    """

    async def exist(self) -> bool:
        """Whether the bucket has a hierarchical namespace; asked once a process. False where who asks may
        not know.

        Raises:
            ObjectNotFound: No such bucket.
        """

    async def look(self, path: str) -> Entry | None:
        """What lies at a path that is not empty: an object, a folder, or nothing; of both, the object.

        The ETag of an object is one that it keeps when it is moved.

        Raises:
            ObjectNotFound: No such bucket.
        """

    def entries(self, path: str) -> AsyncIterator[Entry]:
        """The direct children of a folder, in any order, each once.

        Raises:
            ObjectNotFound: No such folder or bucket.
        """

    async def make(self, path: str) -> None:
        """Make a folder, with its parents. One that is there stays as it is."""

    async def move(self, source: str, destination: str) -> str | None:
        """Give an object another name in one step, with its content and metadata. It replaces an object.

        Returns:
            The ETag by which it is listed from now on, where that is another one than before.

        Raises:
            ObjectNotFound: No such source, or no folder for the destination; nothing changed.
            ObjectExists: The destination is a folder; nothing changed.
        """

    async def rename(self, source: str, destination: str) -> None:
        """Give a folder with everything below it another path in one step.

        Raises:
            ObjectNotFound: No such source, or no folder for the destination; nothing changed.
            ObjectExists: The destination is there, be it empty; nothing changed.
        """

    async def delete(self, path: str) -> bool:
        """Delete an empty folder; whether one was there.

        Raises:
            ObjectExists: Something lies in it; nothing changed.
        """

    async def delete_tree(self, path: str) -> bool:
        """Delete a folder with everything below it; whether one was there."""


class FolderStore(Store, Protocol):
    """A store whose capabilities say that some buckets can rename in one step."""

    def folders(self) -> Folders:
        """The folders of the bucket. Makes no request."""
