"""The port of trees: what committers that move files ask of a store, beside ``stores.port``.

A tree is bound to one bucket. A *path* is a key without a slash at its end; the empty path is the bucket
itself, which is always a directory. Paths are raw text. All methods are coroutines that run on fsspec's
loop. As in ``stores.port`` each docstring says what is true afterwards, what a second identical call does,
which errors there are, and what is true after each; any method may raise ``PermissionDenied``,
``Unavailable`` and ``StoreError`` as described there.

Trees differ in one thing, which ``is_atomic`` says:

* Where it is, directories are real. The parents of a destination must be there, a file in the place of
  a parent is in the way, and of several renames that exclude each other exactly one succeeds.
* Where it is not, a directory is what keys have in common. Nothing asks for parents, so nobody need make
  them, and files may lie below a file; a directory may be gone with its last entry.

Buckets with a hierarchical namespace have folders, of which ``stores.trees`` makes a tree. Google Cloud
Storage and Azure Data Lake Storage have such buckets and others; which kind one is, only asking tells.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from magicfs.errors import ObjectNotFound, StoreError
from magicfs.protocol import paths
from magicfs.runtime.parallel import drained
from magicfs.stores.port import Store

Kind = Literal["file", "directory"]


@dataclass(frozen=True, slots=True)
class Entry:
    """What lies at a path.

    Attributes:
        path: A key, without a slash at its end.
        kind: What it is.
        size: Length of a file in bytes.
        etag: Of a file, as the store gives it. Where a rename is one step it stays the same when the file is
            renamed; a copy has another one, or the same.
        object_etag: The one that requests for objects tell, where that is another one.
    """

    path: str
    kind: Kind
    size: int = 0
    etag: str = ""
    object_etag: str = field(default="", compare=False)

    @property
    def listed_etag(self) -> str:
        """The ETag by which a listing of objects tells the file."""
        return self.object_etag or self.etag


Renamed = dict[int, StoreError | str | None]
"""What became of some of many renames, by their places: what each met, or None where it succeeded; the ETag
by which objects are listed where that is another one than before: the file was copied to another device, or a
rename gives it another generation."""


class Tree(Protocol):
    """The files and directories of one bucket."""

    @property
    def name(self) -> str:
        """What messages call the store, such as ``s3`` or ``file``."""

    @property
    def bucket(self) -> str:
        """The bucket."""

    async def is_atomic(self) -> bool:
        """Whether ``rename`` is one step: everybody sees all of it or nothing, and nothing is copied.

        Raises:
            ObjectNotFound: No such bucket, where that is what tells.
        """

    async def make_directory(self, path: str) -> None:
        """Make a directory, with its parents.

        Afterwards the directory is there and ``look`` shows it, even while nothing lies in it. One that is
        there already stays as it is, so a second call does nothing.

        Raises:
            ObjectExists: A file is there, or in the place of a parent; that file is as it was.
            ObjectNotFound: No such bucket.
        """

    async def look(self, path: str) -> Entry | None:
        """What lies at a path: a file, a directory, or nothing; of both, the file.

        Raises:
            ObjectNotFound: No such bucket.
        """

    def entries(self, path: str) -> AsyncIterator[Entry]:
        """The direct children of a directory in order of name (bytes of UTF-8), each once.

        All of them, whatever the number of pages; their names are held in memory. What comes and goes
        meanwhile may be shown or not. Where a file and a directory have one name, the file comes first.

        Raises:
            ObjectNotFound: No such directory or bucket.
            StoreError: An object below has a name that no path can have, with an empty element; it is named.
        """

    async def rename(self, source: str, destination: str) -> None:
        """Give a file, or a directory with everything below it, another path.

        Afterwards the destination is what the source was, and nothing is at the source. A file replaces a
        file. A directory takes a free path, or the place of an empty directory. A path renamed to itself
        stays. A second call raises ``ObjectNotFound``, for the source is gone.

        Where it is not this is copying everything and then deleting the source: see
        ``stores.trees`` for what a crash, an error or a writer between the two leaves. Nothing is
        ever lost.

        Raises:
            ObjectNotFound: No such source; or, where ``is_atomic``, the parent of the destination is
                not there. Nothing changed.
            ObjectExists: The source is a directory and the destination is a file, or a directory that is not
                empty; or, where ``is_atomic``, the source is a file and the destination a directory.
                Nothing changed.
            Unsupported: The two lie on filesystems between which nothing can be renamed; nothing changed.
            StoreError: The destination lies below the source; nothing changed.
        """

    async def rename_all(self, files: Sequence[tuple[str, str]], concurrency: int) -> Renamed:
        """Rename files, each as ``rename`` does, and make the directories that they go into.

        ``files`` are source and destination of each, which do not depend on each other. At most so many
        requests are made at once. After an error none is begun any more, but for ``ObjectNotFound``, which a
        second call meets for each file that was renamed.

        Returns:
            What became of those that were begun.

        Raises:
            StoreError: A path that can be none; nothing changed.
        """

    async def delete(self, path: str) -> bool:
        """Delete a file, or an empty directory.

        Afterwards nothing is at the path. A second call does nothing.

        Returns:
            Whether something was there.

        Raises:
            StoreError: A directory that is not empty, or the bucket itself; nothing changed.
            ObjectNotFound: No such bucket.
        """

    async def delete_tree(self, path: str) -> bool:
        """Delete a file, or a directory with everything below it.

        Afterwards nothing is at the path or below it, unless somebody writes there meanwhile. A second call
        does nothing. After an error some of it may be gone; a second call does the rest.

        Returns:
            Whether something was there.

        Raises:
            StoreError: The bucket itself is never deleted; nothing changed.
            ObjectNotFound: No such bucket.
        """

    async def write(self, path: str, body: bytes, *, if_absent: bool = False) -> None:
        """Write a file whole, and make the directories that it lies in.

        Afterwards the file holds the body, replacing what was there; at no moment does anybody see a part
        of it. A second call does the same again. With ``if_absent`` it succeeds only if nothing was there:
        of several such calls at once exactly one succeeds, where the store honours that at all.

        Raises:
            ObjectExists: ``if_absent`` was given and a file is there; or, where ``is_atomic``, a
                directory is there, or a file in the place of a parent. Nothing changed.
            ObjectNotFound: No such bucket.
        """

    async def read(self, path: str, *, size_max: int | None = None) -> bytes:
        """Read a file whole, or at most its first ``size_max`` bytes.

        Raises:
            ObjectNotFound: No such file, be there a directory, or no such bucket.
        """


class TreeStore(Store, Protocol):
    """A store whose capabilities say that it can rename in one step."""

    def tree(self) -> Tree:
        """The same objects as files and directories. Makes no request."""


def check_path(operation: str, bucket: str, path: str, *, whole_bucket: bool) -> None:
    """Raise StoreError for what cannot be a path of real directories, or is the bucket and may not be."""
    place = f"{bucket}/{path}"
    if not path and not whole_bucket:
        raise StoreError(operation, place, "this is the bucket itself", hint="name a path")
    if path and not paths.can_be_a_file(path):
        problem = "a path must not have an element that is empty, '.' or '..', or a slash at its ends"
        raise StoreError(operation, place, problem, hint="write the path out")


def in_order(entries: Iterable[Entry]) -> list[Entry]:
    """Entries of one directory as ``Tree.entries`` shows them."""
    return sorted(
        entries, key=lambda entry: (entry.path.encode("utf-8", "surrogateescape"), entry.kind == "directory")
    )


async def rename_one_by_one(
    tree: Tree,
    files: Sequence[tuple[str, str]],
    concurrency: int,
    rename_one: Callable[[str, str], Awaitable[str | None]] | None = None,
) -> Renamed:
    """``Tree.rename_all`` by the other requests of a tree; ``rename_one`` tells an ETag that is new."""
    found: Renamed = {}
    step = rename_one or tree.rename
    blocked: dict[str, StoreError] = {}
    parents = dict.fromkeys(destination.rpartition("/")[0] for _, destination in files)
    above = {parent.rpartition("/")[0] for parent in parents}

    async def make(parent: str) -> bool:
        try:
            await tree.make_directory(parent)
        except StoreError as error:
            blocked[parent] = error
        return True

    async def rename(one: tuple[int, tuple[str, str]]) -> bool:
        place, (source, destination) = one
        met: StoreError | str | None = blocked.get(destination.rpartition("/")[0])
        if met is None:
            try:
                met = await step(source, destination)
            except StoreError as error:
                met = error
        found[place] = met
        return not isinstance(met, StoreError) or isinstance(met, ObjectNotFound)

    if await tree.is_atomic():  # elsewhere nothing asks for parents
        await drained((one for one in parents if one and one not in above), make, concurrency)
    await drained(enumerate(files), rename, concurrency)
    return found


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
