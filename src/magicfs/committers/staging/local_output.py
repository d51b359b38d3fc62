"""The local files that a task attempt wrote: finding them, and what can be known of their being whole."""

from __future__ import annotations

import os
import re
import stat
import tempfile
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from magicfs.committers.work_places import local_extra
from magicfs.protocol import paths

_BLOCK = 4096
_FLAGS = re.compile(r"^flags:\s*([0-7]+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class LocalFile:
    """One file."""

    path: str  # no symbolic link
    relative: tuple[str, ...]  # elements of its name below the attempt's directory
    size: int
    modified_ns: int  # when it was written last

    @property
    def name(self) -> str:
        """Its name below the attempt's directory."""
        return "/".join(self.relative)


@dataclass(slots=True)
class LocalOutput:
    """What lies in an attempt's directory."""

    files: list[LocalFile] = field(default_factory=list)  # what can be uploaded, sorted by name
    problems: list[str] = field(default_factory=list)  # why other things cannot
    left_out: list[str] = field(default_factory=list)  # hidden files, which no reader wants, by name


def read_all(
    directory: str, destinations: Sequence[str], *, with_hidden: bool = False
) -> dict[str, LocalOutput]:
    """What an attempt's directory holds for each of its job's destinations, the extra ones last."""
    main, *extra = destinations
    places = {one: local_extra(directory, number) for number, one in enumerate(extra)}
    found = {main: read_output(directory, {Path(one).name for one in places.values()}, with_hidden)}
    there = {one: place for one, place in places.items() if Path(place).is_dir()}
    return found | {one: read_output(place, (), with_hidden) for one, place in there.items()}


def read_output(directory: str, others: Collection[str], with_hidden: bool) -> LocalOutput:
    """List an attempt's directory, whatever its depth, but for ``others``, which are names in it.

    Without ``with_hidden`` files with hidden names are left out, as by Hadoop's ``StagingCommitter``; the
    names of directories do not count, for ``HIDDEN_FILE_FILTER`` looks at a file's own name. A symbolic link
    counts as the file that it leads to, if that lies in the directory, too; other links, directories behind
    links and special files are problems, for leaving them out would lose data. So are files that are open,
    or short because the disk is full.
    """
    output = LocalOutput()
    _read(os.path.realpath(directory), others, output, with_hidden=with_hidden)
    output.files.sort(key=lambda one: one.relative)
    output.left_out.sort()
    output.problems += [
        f"{name!a} is still open for writing; close every file before the task commits"
        for name in open_for_writing(directory, with_hidden=with_hidden)
        if name.partition("/")[0] not in others
    ]
    if (why := has_room(directory)) is not None:
        output.problems.append(
            f"nothing can be written in {directory} any more ({why}), so files may be short"
        )
    return output


def _read(root: str, others: Collection[str], output: LocalOutput, *, with_hidden: bool) -> None:
    waiting: list[tuple[str, tuple[str, ...]]] = [(root, ())]
    while waiting:
        directory, above = waiting.pop()
        with os.scandir(directory) as entries:
            for entry in entries:
                relative = (*above, entry.name)
                if not above and entry.name in others:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    waiting.append((entry.path, relative))
                    continue
                if paths.is_hidden(entry.name) and not with_hidden:
                    output.left_out.append("/".join(relative))
                    continue
                problem = _take(root, entry, relative, output)
                if problem is not None:
                    output.problems.append(f"{'/'.join(relative)!a} {problem}")


def _take(root: str, entry: os.DirEntry[str], relative: tuple[str, ...], output: LocalOutput) -> str | None:
    """Add a file; returns why it cannot be."""
    path, found = entry.path, entry.stat(follow_symlinks=False)
    if stat.S_ISLNK(found.st_mode):
        try:
            path = os.path.realpath(path, strict=True)
            found = os.lstat(path)
        except OSError as error:
            return f"is a symbolic link that leads nowhere ({error.strerror})"
        if not Path(path).is_relative_to(root):
            return f"is a symbolic link out of the attempt's directory, to {path!a}"
    if not stat.S_ISREG(found.st_mode):
        return f"is not a file, but {_kind(found.st_mode)}"
    try:
        "/".join(relative).encode()
    except UnicodeEncodeError:
        return "has a name that is not UTF-8, as keys must be"
    output.files.append(LocalFile(path, relative, found.st_size, found.st_mtime_ns))
    return None


def _kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "a symbolic link to a directory"
    return "a pipe, socket or device"


def has_room(directory: str) -> OSError | None:
    """Whether a block can be written in a directory now; otherwise why not.

    A writer that met a full disk or a used-up quota has left a short file, and may have hidden its error.
    While the disk is still full that can be seen; afterwards it cannot.
    """
    try:
        with tempfile.TemporaryFile(dir=directory, buffering=0) as probe:
            if (written := probe.write(bytes(_BLOCK))) != _BLOCK:
                return OSError(f"only {written} of {_BLOCK} bytes could be written")
    except OSError as error:
        return error
    return None


def open_for_writing(directory: str, *, with_hidden: bool = False) -> list[str]:
    """Names of files below a directory that this process has open for writing: what it holds may be short.

    Only Linux says so; elsewhere, and of other processes, nothing is known.
    """
    root = Path(os.path.realpath(directory))
    below = {path.relative_to(root) for path in _written_below(root)}
    return sorted(str(path) for path in below if with_hidden or not paths.is_hidden(path.name))


def _written_below(root: Path) -> Iterator[Path]:
    descriptors = Path("/proc/self/fd")
    if not descriptors.is_dir():
        return
    for descriptor in descriptors.iterdir():
        try:
            target = descriptor.readlink()
            if not target.is_relative_to(root):
                continue
            flags = _FLAGS.search(Path(f"/proc/self/fdinfo/{descriptor.name}").read_text())
        except OSError:
            continue  # closed meanwhile
        if flags is not None and int(flags[1], 8) & os.O_ACCMODE != os.O_RDONLY:
            yield target
