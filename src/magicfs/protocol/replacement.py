"""What a job replaces, decided from a listing: which old files it deletes, and which it writes over."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from typing import NamedTuple
from urllib.parse import unquote

from magicfs.protocol import modes, paths
from magicfs.protocol.other_datasets import Others, may_be_others

Partitions = tuple[str, ...] | None
"""Directories relative to the destination; None for all of it."""


class OldFile(NamedTuple):
    """One listed object. Made by the million, so a tuple."""

    key: str
    etag: str
    size: int
    modified: float | None = None  # seconds since the epoch, by the store's clock; None if it told none

    def is_same(self, other: OldFile) -> bool:
        """Whether it holds the same bytes, as size and ETag tell."""
        return self.size == other.size and self.etag.strip('"') == other.etag.strip('"')


@dataclass(frozen=True, slots=True)
class Scope:
    """The part of a destination whose old files a job replaces, or which must hold none."""

    destination: str
    whole: bool = False  # everything below the destination
    partitions: Partitions = None  # or these, relative to it
    also: tuple[str, ...] = ()  # directories of other datasets, which go with all that they are


@dataclass(slots=True)
class Replacement:
    """What of a listing a job replaces. Listed objects are given to ``add`` one by one."""

    scope: Scope
    ours: Mapping[str, str | None] = field(default_factory=dict)
    """Keys that the job will write, and the ETags by which files that a driver of Hadoop's has published
    already are recognised; empty where names are the job's own, so that none can be taken."""

    deleted: list[OldFile] = field(default_factory=list)
    """Old files in the scope."""
    hidden: list[OldFile] = field(default_factory=list)
    """Files in the scope that no reader takes for data: what jobs published of them goes, too."""
    equal: list[OldFile] = field(default_factory=list)
    """Files that are there and will be written over."""
    left: list[OldFile] = field(default_factory=list)
    """Files in the scope that stay where they are and are no part of the dataset any more: earlier jobs keep
    them, or they are gone already."""
    older_files: bool = False
    """Whether there are files outside the scope."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Of what is kept by its version that version, by keys."""
    stays: Callable[[str], bool] = lambda _: False
    """Whether what is deleted from sight stays in its place, by its key."""
    others: Others = field(init=False)
    """Whom else the listing shows below the destination."""
    _partitions: frozenset[str] = field(init=False, repr=False)
    _prefix: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._prefix = paths.prefix_of(self.scope.destination)
        self._partitions = frozenset(self.scope.partitions or ())
        self.others = Others(self.scope.destination)

    @property
    def equal_keys(self) -> list[str]:
        """Keys of files that are there and will be written over."""
        return [one.key for one in self.equal]

    def add(self, one: OldFile) -> bool:
        """Take one object of the listing in; returns whether more of the listing is needed."""
        if one.key in self.ours:
            if one.etag.strip('"') == self.ours[one.key]:
                return True  # published already, by a driver of Hadoop's that died
            self.equal.append(one)
        relative = one.key[len(self._prefix) :] if one.key.startswith(self._prefix) else ""
        if relative and modes.is_plain(relative) and not may_be_others(relative):
            is_data = True
        else:
            self.others.add(one.key)
            is_data = modes.is_replaced(one.key, self.scope.destination)
        if not is_data and not self._is_given_up(one.key):
            if modes.is_hidden_output(one.key, self.scope.destination) and self.covers(one.key):
                self.hidden.append(one)
            return True
        if self.covers(one.key):
            self.deleted.append(one)
            return True
        if not is_data:
            return True
        self.older_files = True
        # Appending with names of its own only asks whether there is any file.
        return self.scope.partitions is not None or bool(self.ours)

    def leave(self, keys: Collection[str]) -> None:
        """Leave files as they are that turned out to be the job's own, published already."""
        if keys:
            self.equal = [one for one in self.equal if one.key not in keys]
            self.deleted = [one for one in self.deleted if one.key not in keys]

    def remove_known(self, published: Mapping[str, str]) -> None:
        """Remove hidden files, too, that jobs published: ETags by relative keys, as manifests show them."""
        for one in self.hidden:
            etag = published.get(paths.relative_to(one.key, self.scope.destination))
            if etag and etag.strip('"') == one.etag.strip('"'):
                self.deleted.append(one)

    def take_only(self, files: Mapping[str, OldFile]) -> list[OldFile]:
        """Leave of what the listing shows only these, which are given by relative keys.

        Those that are gone are hidden all the same. Returns the listed ones that may be other files by now.
        """
        listed = {one.key: one for one in (*self.deleted, *self.hidden)}
        there: list[OldFile] = []
        doubtful: list[OldFile] = []
        for relative, file in files.items():
            key = paths.join(self.scope.destination, relative)
            if (one := listed.get(key)) is None:
                self.left.append(file._replace(key=key))
                continue
            there.append(one)
            if not file.etag or not one.is_same(file):
                doubtful.append(one)
        self.deleted, self.hidden = there, []
        return doubtful

    def leave_others(self, partitions: Collection[str], files: Mapping[str, OldFile]) -> None:
        """Take out all that neither lies in these partitions nor is one of the files, which are given by
        relative keys.

        A file that is gone, or was written over by somebody, is hidden and not deleted.
        """
        taken = set[str]()

        def goes(one: OldFile) -> bool:
            relative = paths.relative_to(one.key, self.scope.destination)
            if modes.lies_in(relative, partitions):
                return True
            if (file := files.get(relative)) is None or not one.is_same(file):
                return False
            taken.add(relative)
            return True

        self.deleted = [one for one in self.deleted if goes(one)]
        self.left += [
            one._replace(key=paths.join(self.scope.destination, relative))
            for relative, one in files.items()
            if relative not in taken
        ]

    def covers(self, key: str) -> bool:
        """Whether a key lies in the scope."""
        return self.scope.whole or self._is_in_partitions(key)

    def _is_given_up(self, key: str) -> bool:
        """Whether a key is part of another dataset that may be deleted: its manifests and logs go, too."""
        place = paths.which_holds(key, self.scope.also)
        return place is not None and not modes.is_work(paths.relative_to(key, place))

    def _is_in_partitions(self, key: str) -> bool:
        if not self._partitions:
            return False
        relative = paths.relative_to(key, self.scope.destination)
        if relative.rpartition("/")[0] in self._partitions:
            return True
        directories = paths.parents(relative)
        return any(one in self._partitions for one in directories) or "" in self._partitions


def partitions_of(keys: Iterable[str]) -> Partitions:
    """The directories in which files lie, none below another, sorted; None for the whole destination."""
    found = {key.rpartition("/")[0] for key in keys}
    if "" in found:
        return None
    return tuple(sorted(one for one in found if found.isdisjoint(paths.parents(one))))


def lost_partitions(destination: str, old: Iterable[str], new: Iterable[str]) -> list[str]:
    """Partitions of Hive's kind, ``day=mon``, that hold old files and get no new one, sorted.

    Only partitions by the same columns as those of the new files are compared. Keys of both are full.
    """
    written = _partitions(destination, new)
    columns = {_columns(one) for one in written.values()}
    there = _partitions(destination, old)
    return sorted(name for one, name in there.items() if one not in written and _columns(name) in columns)


def _partitions(destination: str, keys: Iterable[str]) -> dict[str, str]:
    """The partition directories that files lie in, by what their names stand for."""
    prefix = paths.prefix_of(destination)
    directories = {key.rpartition("/")[0] for key in keys}
    relative = (one[len(prefix) :].split("/") for one in directories if one.startswith(prefix))
    names = ("/".join(takewhile(lambda name: "=" in name, one)) for one in relative)
    return {unquote(name): name for name in names if name}


def _columns(partition: str) -> tuple[str, ...]:
    return tuple(name.partition("=")[0] for name in partition.split("/"))
