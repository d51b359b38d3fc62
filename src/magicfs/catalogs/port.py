"""What ``register`` asks of a catalog."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from magicfs.datasets.connection import Destination
from magicfs.formats.manifest import ManifestFile

Files = Mapping[str, ManifestFile]
"""Files of a publication by their keys, relative to the destination."""


@dataclass(frozen=True, slots=True)
class Changes:
    """How many files were added and removed. A file that was rewritten under its name counts as both."""

    added: int
    removed: int

    def __add__(self, other: Changes) -> Changes:
        return Changes(self.added + other.added, self.removed + other.removed)

    def __bool__(self) -> bool:
        return bool(self.added or self.removed)


class CatalogMoved(Exception):
    """The catalog changed since it was read: start over. ``done``: what was changed before that."""

    def __init__(self, done: Changes = Changes(0, 0)) -> None:
        super().__init__(done)
        self.done = done


@dataclass(frozen=True, slots=True)
class Published:
    """What the catalog shall show.

    Attributes:
        job_id: The job published last.
        files: The files that readers of manifests see.
        shown: The files of the publication that magicfs has brought the table to last; None if to none.
        force: Whether a table is brought there that others have changed.
    """

    job_id: str
    files: Files
    shown: Callable[[], Files | None]
    force: bool = False


class Table(Protocol):
    """A table as it was when it was opened."""

    def shows(self, job_id: str) -> bool:
        """Whether the publication of a job is the one that magicfs has brought it to last."""

    def bring(self, published: Published) -> Changes:
        """Let it show a publication. A second call changes nothing.

        If the process dies, the table shows what it did or the publication, and a repetition does the rest.

        Raises:
            CatalogMoved: Somebody changed the table since it was opened.
            UsageError: The catalog cannot show these files, or the table was changed by others.
        """


class Catalog(Protocol):
    """Where a table is, and how to get there."""

    @property
    def kind(self) -> str:
        """The name of the catalog's kind, in small letters."""

    @property
    def table(self) -> str:
        """The name of the table; empty if it is the destination itself."""

    @property
    def atomic(self) -> bool:
        """Whether a table is changed by one step; else it is looked at again until it was seen right."""

    def options(self) -> Mapping[str, str] | None:
        """What another process finds it by, nothing secret; None if it cannot."""

    def line(self, url: str) -> str:
        """What somebody calls to let it show the dataset at a URL."""

    def open(self, place: Destination) -> Table:
        """The table as it is now, or as one that is not there yet."""
