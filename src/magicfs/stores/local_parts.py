"""One upload of a local file: its parts, and how they become the file.

``data`` becomes the file, by one rename. Parts of one size, which all but the last mostly have, are written
into it at their places. What cannot be, because part 1 is not known yet, or has another size, or came before,
is a file of its own until the upload is completed, and copied then. A part that was acknowledged is never
changed.

``data`` is synchronised before it becomes the file, not part by part: the system writes it to the disk
meanwhile. If the machine has been started anew since then, what never got there is a hole, and the upload is
lost.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import platform
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Final

from magicfs.stores import local_files, local_placed
from magicfs.stores.port import Body, ObjectInfo, Part

__all__ = ["DATA", "STOPPED", "OpenUpload", "WrongPartsError", "boot_id", "remove"]

DATA: Final = "data"
"""What becomes the file."""

_STRIDE = "stride"  # the size of part 1, by which the places of parts are counted
_LOCK = "lock"
_CLAIM = "claim"
_IN_PLACE = "in"
_TRIES = 500
STOPPED = "the machine stopped before the upload was on the disk; write the file again"


class WrongPartsError(ValueError):
    """Parts that an upload cannot be completed with."""


@dataclass(frozen=True, slots=True)
class _Kept:
    """An acknowledged part."""

    number: int
    size: int
    token: str
    in_place: bool

    @property
    def name(self) -> str:
        """The file that stands for it, or is it."""
        return f"{self.number:05d}.{self.size:x}.{self.token}" + (f".{_IN_PLACE}" if self.in_place else "")

    @property
    def etag(self) -> str:
        return f'"{self.size:x}.{self.token}"'


@dataclass(frozen=True, slots=True)
class OpenUpload:
    """An upload whose record names the key."""

    root: Path
    key: str
    upload_id: str
    listed: str  # where its record lies
    directory: str  # where its parts lie: elsewhere if the way to the key goes through a symbolic link
    modified_ns: int  # what the time of the file will be
    boot: str = ""  # what ``boot_id`` was when it was opened; empty if nobody knows

    def put_part(self, number: int, body: Body) -> Part:
        """Keep a part; FileNotFoundError if the upload is gone."""
        size = memoryview(body).nbytes
        is_first = self._claim(number)
        if number == 1 and is_first:
            self._write_stride(size)
        stride = self._stride()
        in_place = is_first and stride is not None and size <= stride
        part = _Kept(number, size, secrets.token_hex(8), in_place)
        if stride is not None and in_place:
            with self._data(os.O_WRONLY) as descriptor:
                local_placed.write_at(descriptor, body, (number - 1) * stride)
            return self._keep(part)
        self._write_beside(part.name, body)
        if not is_first:
            for other in self._parts().get(number, ()):
                if other != part:
                    _unlink(self._at(other.name))
        os.stat(self._at(DATA))  # completed or aborted meanwhile
        return Part(number, part.etag)

    def place(self, path: str) -> local_placed.PlacedFile | None:
        """The file itself, to be written from its start; None if somebody else has sent part 1.

        ``path`` is what messages call it.
        """
        if local_placed.PlacedFile.opened >= local_placed.open_max() or not self._claim(1):
            return None
        file = self._at(DATA)
        return local_placed.PlacedFile(os.open(file, os.O_RDWR | os.O_CLOEXEC), path, Path(file))

    def put_placed(self, size: int) -> Part:
        """Keep what was written to ``place``'s file as part 1; FileNotFoundError if the upload is gone."""
        self._write_stride(size)
        return self._keep(_Kept(1, size, secrets.token_hex(8), in_place=True))

    def _keep(self, part: _Kept) -> Part:
        """Acknowledge a part that is in its place."""
        os.close(os.open(self._at(part.name), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
        os.stat(self._at(DATA))  # completed or aborted meanwhile
        return Part(part.number, part.etag)

    def complete(self, path: Path, parts: Sequence[Part], size_min: int, *, if_absent: bool) -> ObjectInfo:
        """Make the file appear at a path, in one step. A second call after a crash half-way finishes it.

        Raises WrongPartsError, FileExistsError with ``if_absent``, FileNotFoundError if the upload is gone;
        nothing changed.
        """
        chosen = self._chosen(parts, size_min)
        total = sum(part.size for part in chosen)
        stride = self._stride()
        with self._data(os.O_RDWR) as descriptor:
            self._check_kept(descriptor, chosen, stride or 0)
            if not self._is_whole(descriptor, chosen, stride, total):
                with self._locked():
                    self._assemble(self._chosen(parts, size_min), total)
            self._seal(descriptor)
            whole = local_files.info_of(self.key, os.fstat(descriptor))
        for _ in range(_TRIES):
            local_files.make_directories(path.parent, self.root)
            try:
                self._appear(path, if_absent=if_absent)
            except FileNotFoundError:
                os.stat(self._at(DATA))  # or the directory of the file was deleted meanwhile
                continue
            self.remove()
            return whole
        raise local_files.too_fast(path.parent)

    def _appear(self, path: Path, *, if_absent: bool) -> None:
        # Afterwards ``data`` may still be there: of two names of one file a rename changes nothing, and a
        # completion with if_absent may have been cut between the two.
        if if_absent:
            local_files.link(self._at(DATA), path)
        else:
            os.replace(self._at(DATA), path)

    def _at(self, name: str) -> str:
        return f"{self.directory}/{name}"

    def remove(self) -> None:
        """Remove the upload, whatever is left of it; a second call does nothing."""
        # First what a completion needs, then what a listing shows, so that a cut leaves no half upload.
        for directory in dict.fromkeys((self.directory, self.listed)):
            _unlink(f"{directory}/{DATA}")
        for directory in dict.fromkeys((self.directory, self.listed)):
            remove(directory)

    # -- parts -----------------------------------------------------------------------------------------

    def _claim(self, number: int) -> bool:
        """Whether nobody has sent this part before."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            os.close(os.open(self._at(f"{number:05d}.{_CLAIM}"), flags, 0o666))
        except FileExistsError:
            return False
        return True

    def _write_stride(self, size: int) -> None:
        fill = partial(local_files.write_into, body=b"%d" % size)
        local_files.write_in(self._at(_STRIDE), fill, _STRIDE, lasting=False)

    def _stride(self) -> int | None:
        try:
            descriptor = os.open(self._at(_STRIDE), os.O_RDONLY | os.O_CLOEXEC)
            try:
                return int(os.read(descriptor, 32))
            finally:
                os.close(descriptor)
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise FileNotFoundError(errno.ENOENT, STOPPED) from error

    def _write_beside(self, name: str, body: Body) -> None:
        fill = partial(local_files.write_into, body=body)
        local_files.write_in(self._at(name), fill, name)

    @contextlib.contextmanager
    def _data(self, flags: int) -> Iterator[int]:
        descriptor = os.open(self._at(DATA), flags | os.O_CLOEXEC)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _check_kept(self, descriptor: int, chosen: Sequence[_Kept], stride: int) -> None:
        """Raise FileNotFoundError if the machine stopped before all of ``data`` was on the disk.

        Filesystems extend a file only once the blocks are written (ext4 with data=ordered, XFS, Btrfs): what
        is lost is the end, or a hole.
        """
        wanted = max(((one.number - 1) * stride + one.size for one in chosen if one.in_place), default=0)
        if wanted > os.fstat(descriptor).st_size or self._has_holes(descriptor):
            raise FileNotFoundError(errno.ENOENT, STOPPED)

    def _has_holes(self, descriptor: int) -> bool:
        if not self.boot or self.boot == boot_id() or not is_of_this_machine(self.boot):
            return False
        try:
            # Who has read a hole since then has made it look like data.
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            return os.lseek(descriptor, 0, os.SEEK_HOLE) < os.fstat(descriptor).st_size
        except OSError:
            return False  # the filesystem does not know

    def _seal(self, descriptor: int) -> None:
        """Give ``data`` its time and bring it to the disk.

        A system tells once that it could not, and takes what it has for written then: so the upload is lost.
        """
        os.utime(descriptor, ns=(self.modified_ns, self.modified_ns))
        try:
            os.fsync(descriptor)
        except OSError:
            self.remove()
            raise

    def _parts(self) -> dict[int, list[_Kept]]:
        """The acknowledged parts by number."""
        found: dict[int, list[_Kept]] = {}
        with os.scandir(self.directory) as entries:
            for entry in entries:
                match entry.name.split("."):
                    case [number, size, token] | [number, size, token, "in"] if number.isdigit():
                        part = _Kept(int(number), int(size, 16), token, entry.name.endswith(_IN_PLACE))
                        found.setdefault(part.number, []).append(part)
        return found

    def _chosen(self, parts: Sequence[Part], size_min: int) -> list[_Kept]:
        numbers = [part.number for part in parts]
        if not numbers or numbers != sorted(set(numbers)):
            raise WrongPartsError("parts must be named once each, in ascending order")
        kept, chosen = self._parts(), []
        for part in parts:
            # Between two steps of an assembly a part is both in its place and a file of its own.
            found = [one for one in kept.get(part.number, ()) if one.etag == part.etag]
            if not found:
                raise WrongPartsError(f"part {part.number} is unknown or its ETag differs")
            chosen.append(min(found, key=lambda one: one.in_place))
            if chosen[-1].size < size_min and part is not parts[-1]:
                raise WrongPartsError(f"part {part.number} is too small")
        return chosen

    # -- putting parts together ------------------------------------------------------------------------

    def _is_whole(self, descriptor: int, chosen: Sequence[_Kept], stride: int | None, total: int) -> bool:
        """Whether ``data`` consists of exactly these parts already."""
        return (
            stride is not None
            and all(part.in_place and part.number == n for n, part in enumerate(chosen, start=1))
            and all(part.size == stride for part in chosen[:-1])
            and os.fstat(descriptor).st_size == total
        )

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """While nobody else puts the same parts together; a lock ends with its process."""
        import fcntl  # POSIX alone has it

        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        descriptor = os.open(self._at(_LOCK), flags, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _assemble(self, chosen: Sequence[_Kept], total: int) -> None:
        """Make ``data`` consist of exactly these parts. Cut anywhere, a second call does the rest."""
        stride = self._stride() or 0
        ends = [0]
        for part in chosen:
            ends.append(ends[-1] + part.size)
        placed = list(zip(chosen, ends, strict=False))
        with self._data(os.O_RDWR) as descriptor:
            if any(part.in_place and (part.number - 1) * stride != start for part, start in placed):
                placed = [(self._moved_out(descriptor, part, stride), start) for part, start in placed]
            for others in self._parts().values():
                for other in others:
                    if other.in_place and other not in chosen:
                        _unlink(self._at(other.name))
            for part, start in placed:
                if not part.in_place:
                    _copy_at(Path(self._at(part.name)), descriptor, start)
            os.ftruncate(descriptor, total)
            self._seal(descriptor)

    def _moved_out(self, descriptor: int, part: _Kept, stride: int) -> _Kept:
        """A part that is in its place, as a file of its own: its place will be another's."""
        if not part.in_place:
            return part
        moved = _Kept(part.number, part.size, part.token, in_place=False)
        start = (part.number - 1) * stride
        fill = partial(_copy_between, descriptor, start, part.size)
        local_files.write_in(self._at(moved.name), fill, moved.name)
        _unlink(self._at(part.name))
        return moved


@cache
def boot_id() -> str:
    """What tells this machine, and the time since it was started; empty where it has no name for that."""
    try:
        started = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""
    return f"{_machine()}/{started}"


def is_of_this_machine(boot: str) -> bool:
    """Whether a ``boot_id`` is one of this machine's, now or earlier."""
    return boot.partition("/")[0] == _machine()


@cache
def _machine() -> str:
    named = platform.node()
    with contextlib.suppress(OSError):
        named = Path("/etc/machine-id").read_text(encoding="ascii").strip() or named
    return hashlib.sha256(named.encode()).hexdigest()[:8]


def remove(directory: str) -> None:
    """Remove a directory of files, and the one that holds it if nothing else is in it."""
    for _ in range(_TRIES):
        try:
            for name in os.listdir(directory):
                _unlink(f"{directory}/{name}")
            os.rmdir(directory)
        except (FileNotFoundError, NotADirectoryError):
            break
        except OSError as error:
            if error.errno not in local_files.NOT_EMPTY:
                raise
        else:
            break
    with contextlib.suppress(OSError):
        os.rmdir(os.path.dirname(directory))


def _unlink(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def _copy_between(source: int, start: int, size: int, descriptor: int) -> None:
    """Copy bytes of one file to the begin of another."""
    done = 0
    while done < size and (chunk := os.pread(source, min(2**23, size - done), start + done)):
        local_placed.write_at(descriptor, chunk, done)
        done += len(chunk)


def _copy_at(source: Path, descriptor: int, start: int) -> None:
    with local_files.opened(source) as file:
        while chunk := file.read(2**23):
            local_placed.write_at(descriptor, chunk, start)
            start += len(chunk)
