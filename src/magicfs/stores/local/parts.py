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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from magicfs.errors import UsageError
from magicfs.stores.local import errors, files
from magicfs.stores.local.held import DATA, MADE, Held, remove_place
from magicfs.stores.local.places import REGULAR, NotOursError, Places, check_regular
from magicfs.stores.port import Body, ObjectInfo, Part

_SMALL_BYTES = 2**16  # what is held back, so that many small writes are one


class PlacedFile:
    """The file of an upload while it is written, from its start.

    The descriptor is closed with the last reference: never under a writer in another thread, which would then
    write to whatever file got its number.
    """

    opened: int = 0
    """How many of this process are open: each has a descriptor."""

    def __init__(self, descriptor: int, path: str, read_all: Callable[[], bytes]) -> None:
        PlacedFile.opened += 1
        self._descriptor = descriptor
        self._read_all = read_all
        self._path = path
        self._pid = os.getpid()
        self._small = bytearray()
        self._written = 0

    def __del__(self) -> None:
        PlacedFile.opened -= 1
        with contextlib.suppress(OSError):  # ``close`` has told
            os.close(self._descriptor)

    @property
    def size(self) -> int:
        return self._written + len(self._small)

    def write(self, data: memoryview) -> None:
        if os.getpid() != self._pid:
            raise UsageError(f"{self._path} was opened in another process; open it here to write")
        if data.nbytes + len(self._small) <= _SMALL_BYTES:
            self._small += data
        else:
            self.flush()
            with errors.translated("put_part", self._path):
                write_at(self._descriptor, data, self._written)
            self._written += data.nbytes

    def close(self) -> None:
        """Write what was held back, and hear what the filesystem has to say, as of a file that is closed.

        A filesystem of a network writes now, and tells whether it could. A second call does the same.
        """
        self.flush()
        with errors.translated("put_part", self._path):
            os.close(os.dup(self._descriptor))

    def read(self, start: int, size: int) -> bytes:
        """Bytes of it, once it is closed; fewer at its end."""
        with errors.translated("put_part", self._path):
            return os.pread(self._descriptor, size, start)

    def reader(self) -> Callable[[], bytes]:
        """What reads all of it back, until its upload ends."""
        return self._read_all

    def flush(self) -> None:
        """Write what was held back. A second call does nothing."""
        with errors.translated("put_part", self._path):
            write_at(self._descriptor, self._small, self._written)
        self._written += len(self._small)
        self._small = bytearray()


def open_max() -> int:
    """How many files may be kept open: half of what the system lets this process have."""
    import resource  # POSIX alone has it

    return resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2


def write_at(descriptor: int, body: Body, start: int) -> None:
    """Write all of a body to a file, from a place on."""
    left = memoryview(body).cast("B")
    while left:
        written = os.pwrite(descriptor, left, start)
        left, start = left[written:], start + written


_STRIDE = "stride"  # the size of part 1, by which the places of parts are counted
_LOCK = "lock"
_CLAIM = "claim"
_IN_PLACE = "in"
_TRIES = 500
STOPPED = "the machine stopped before the upload was on disk; write the file again"


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
    listed: Held | None  # where its record lies; None if that is gone
    held: Held | None  # where its parts lie: elsewhere if the way to the key goes through a symbolic link
    places: tuple[str, ...]  # keys of the directories that hold these
    modified_ns: int  # what the time of the file will be
    boot: str = ""  # what ``boot_id`` was when it was opened; empty if nobody knows

    @property
    def directory(self) -> int:
        """The descriptor of the directory of its parts; FileNotFoundError if it is gone."""
        if self.held is None:
            raise FileNotFoundError(errno.ENOENT, "no such upload")
        return self.held.descriptor

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
                _check_own_name(descriptor)
                write_at(descriptor, body, (number - 1) * stride)
            return self._keep(part)
        files.write_in(part.name, partial(files.write_into, body=body), part.name, self.directory)
        if not is_first:
            for other in self._parts().get(number, ()):
                if other != part:
                    self._unlink(other.name)
        self._check_open()
        return Part(number, part.etag)

    def place(self, path: str, reopen: Callable[[], OpenUpload]) -> PlacedFile | None:
        """The file itself, to be written from its start; None if somebody else has sent part 1.

        ``path`` is what messages call it; ``reopen`` gives its upload again.
        """
        if PlacedFile.opened >= open_max() or not self._claim(1):
            return None
        with self._data(os.O_RDWR) as descriptor:
            _check_own_name(descriptor)
            return PlacedFile(os.dup(descriptor), path, lambda: reopen().read())

    def read(self) -> bytes:
        """All of ``data``; OSError if the upload is gone."""
        with self._data(os.O_RDONLY) as descriptor, os.fdopen(os.dup(descriptor), "rb") as file:
            return file.read()

    def put_placed(self, size: int) -> Part:
        """Keep what was written to ``place``'s file as part 1; FileNotFoundError if the upload is gone."""
        self._write_stride(size)
        return self._keep(_Kept(1, size, secrets.token_hex(8), in_place=True))

    def _keep(self, part: _Kept) -> Part:
        """Acknowledge a part that is in its place."""
        os.close(self._make(part.name))
        self._check_open()
        return Part(part.number, part.etag)

    def complete(self, parts: Sequence[Part], size_min: int, *, if_absent: bool) -> ObjectInfo:
        """Make the file appear at its key, in one step. A second call after a crash half-way finishes it.

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
            whole = files.info_of(self.key, os.fstat(descriptor))
        for _ in range(_TRIES):
            files.make_directories_of(self.root, self.key)
            try:
                self._appear(if_absent=if_absent)
            except FileNotFoundError:
                self._check_open()  # or the directory of the file was deleted meanwhile
                continue
            self.remove()
            return whole
        raise files.too_fast(self.root / self.key)

    def _appear(self, *, if_absent: bool) -> None:
        # Afterwards ``data`` may still be there: of two names of one file a rename changes nothing, and a
        # completion with if_absent may have been cut between the two.
        with Places(self.root) as places:
            name, directory = places.at(self.key)
            if if_absent:
                files.link(DATA, name, self.directory, directory)
            else:
                os.replace(DATA, name, src_dir_fd=self.directory, dst_dir_fd=directory)

    def _check_open(self) -> None:
        """Raise FileNotFoundError if it was completed or aborted meanwhile."""
        os.stat(DATA, dir_fd=self.directory, follow_symlinks=False)

    def _make(self, name: str) -> int:
        """Open a file that is not there yet; FileExistsError if it is."""
        return os.open(
            name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666, dir_fd=self.directory
        )

    def _unlink(self, name: str) -> None:
        if self.held is not None:
            self.held.unlink(name)

    def remove(self) -> None:
        """Remove the upload, whatever is left of it; a second call does nothing."""
        # First what a completion needs, then what a listing shows, so that a cut leaves no half upload.
        both = [one for one in dict.fromkeys((self.held, self.listed)) if one is not None]
        for one in both:
            one.unlink(DATA)
        for one in both:
            one.remove()
        for place in dict.fromkeys(self.places):
            remove_place(self.root, place)

    # -- parts -----------------------------------------------------------------------------------------

    def _claim(self, number: int) -> bool:
        """Whether nobody has sent this part before."""
        try:
            os.close(self._make(f"{number:05d}.{_CLAIM}"))
        except FileExistsError:
            return False
        return True

    def _write_stride(self, size: int) -> None:
        fill = partial(files.write_into, body=b"%d" % size)
        files.write_in(_STRIDE, fill, _STRIDE, self.directory, lasting=False)

    def _stride(self) -> int | None:
        try:
            return int(files.read_small(_STRIDE, self.directory, 32))
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise FileNotFoundError(errno.ENOENT, STOPPED) from error

    @contextlib.contextmanager
    def _data(self, flags: int) -> Iterator[int]:
        descriptor = os.open(DATA, flags | REGULAR, dir_fd=self.directory)
        try:
            check_regular(os.fstat(descriptor), DATA)
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
        if not self.boot or self.boot == boot_id() or self.boot.partition("/")[0] != _machine():
            return False
        try:
            if hasattr(os, "posix_fadvise"):  # who has read a hole since then has made it look like data
                os.posix_fadvise(descriptor, 0, 0, getattr(os, "POSIX_FADV_DONTNEED", 4))
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
        for name in filter(MADE.fullmatch, os.listdir(self.directory)):
            match name.split("."):
                case [number, size, token] | [number, size, token, "in"] if number.isdigit():
                    part = _Kept(int(number), int(size, 16), token, name.endswith(_IN_PLACE))
                    found.setdefault(part.number, []).append(part)
        return found

    def _chosen(self, parts: Sequence[Part], size_min: int) -> list[_Kept]:
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

        descriptor = os.open(_LOCK, os.O_RDWR | os.O_CREAT | REGULAR, 0o666, dir_fd=self.directory)
        try:
            check_regular(os.fstat(descriptor), _LOCK)
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
                        self._unlink(other.name)
            for part, start in placed:
                if not part.in_place:
                    _copy_at(self.directory, part.name, descriptor, start)
            os.ftruncate(descriptor, total)
            self._seal(descriptor)

    def _moved_out(self, descriptor: int, part: _Kept, stride: int) -> _Kept:
        """A part that is in its place, as a file of its own: its place will be another's."""
        if not part.in_place:
            return part
        moved = _Kept(part.number, part.size, part.token, in_place=False)
        start = (part.number - 1) * stride
        fill = partial(_copy_between, descriptor, start, part.size)
        files.write_in(moved.name, fill, moved.name, self.directory)
        self._unlink(part.name)
        return moved


@cache
def boot_id() -> str:
    """What tells this machine, and the time since it was started; empty where it has no name for that."""
    try:
        started = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""
    return f"{_machine()}/{started}"


@cache
def _machine() -> str:
    named = platform.node()
    with contextlib.suppress(OSError):
        named = Path("/etc/machine-id").read_text(encoding="ascii").strip() or named
    return hashlib.sha256(named.encode()).hexdigest()[:8]


def _check_own_name(descriptor: int) -> None:
    """Raise NotOursError if a file that is to be written into has another name, too: it may be anybody's."""
    if os.fstat(descriptor).st_nlink > 1:
        raise NotOursError(
            errno.EPERM, "there is a file with a second hard link, which magicfs did not create", DATA
        )


def _copy_between(source: int, start: int, size: int, descriptor: int) -> None:
    """Copy bytes of one file to the begin of another."""
    done = 0
    while done < size and (chunk := os.pread(source, min(2**23, size - done), start + done)):
        write_at(descriptor, chunk, done)
        done += len(chunk)


def _copy_at(directory: int, name: str, descriptor: int, start: int) -> None:
    source = os.open(name, os.O_RDONLY | REGULAR, dir_fd=directory)
    with os.fdopen(source, "rb") as file:
        check_regular(os.fstat(source), name)
        while chunk := file.read(2**23):
            write_at(descriptor, chunk, start)
            start += len(chunk)
