"""Which small files of a dataset become larger ones, and what those are called.

Within a directory files are read in the order of their names. So only neighbours are put together, and a new
file has a name in the place of the first of them: the order of all rows is what it was.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby

from magicfs.protocol.final_names import unique_name
from magicfs.protocol.ids import JobId

_SMALL = 0.75
"""Of the target: a file of at least so much stays as it is."""


@dataclass(frozen=True, slots=True)
class Group:
    """Neighbours that become one file."""

    keys: tuple[str, ...]  # in order
    name: str  # of the new file, its directory included: unique, so no committer changes it


def groups_of(
    sizes: Mapping[str, int],
    target: int,
    label: str,
    job: JobId,
    kind_of: Callable[[str], Hashable] = lambda _: 0,
) -> Iterator[Group]:
    """The groups of files by their keys, of each directory in order.

    ``kind_of``: files of different kinds are never put together; one of kind None stays as it is. It is asked
    only for small files that have small neighbours.
    """
    for directory, keys in groupby(sorted(sizes, key=_place), lambda key: _place(key)[0]):
        yield from _of_directory(directory, list(keys), sizes, target, label, job, kind_of)


def _of_directory(
    directory: str,
    keys: list[str],
    sizes: Mapping[str, int],
    target: int,
    label: str,
    job: JobId,
    kind_of: Callable[[str], Hashable],
) -> Iterator[Group]:
    before = ""
    place = 0
    while place < len(keys):
        end = _end_of_group(keys, place, sizes, target, kind_of)
        group = keys[place:end]
        name = None
        if len(group) > 1:
            after = keys[end] if end < len(keys) else None
            name = _name(directory, group[0], before, after, label, job)
        if name is None:
            before, place = keys[place], place + 1
            continue
        yield Group(tuple(group), name)
        before, place = name, end


def _end_of_group(
    keys: list[str], start: int, sizes: Mapping[str, int], target: int, kind_of: Callable[[str], Hashable]
) -> int:
    end, total = start, 0
    while end < len(keys) and sizes[keys[end]] < _SMALL * target and total + sizes[keys[end]] <= target:
        alone = end == start and (end + 1 == len(keys) or sizes[keys[end + 1]] >= _SMALL * target)
        if alone or kind_of(keys[end]) is None or kind_of(keys[end]) != kind_of(keys[start]):
            break
        total += sizes[keys[end]]
        end += 1
    return end


def _name(directory: str, first: str, before: str, after: str | None, label: str, job: JobId) -> str | None:
    """A name between two others; None if there is none."""
    last = first.rpartition("/")[2]
    stem, dot, extension = last.partition(".")
    suffix = f"-{label}-{job}"
    (short,) = unique_name((last,), label, job)
    for one in (short, f"{stem}{suffix}{dot}{extension}", f"{last}{suffix}{dot}{extension}"):
        name = f"{directory}/{one}" if directory else one
        if unique_name((one,), label, job) == (one,) and before < name and (after is None or name < after):
            return name
    return None


def _place(key: str) -> tuple[str, str]:
    directory, _, name = key.rpartition("/")
    return directory, name
