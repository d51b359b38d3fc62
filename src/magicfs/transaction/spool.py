"""The files of a job while it is committed: packed, kept by number, and beyond some in a temporary file.

So the memory of a driver does not grow with its job. The file has no name: nobody else can open it.
"""

from __future__ import annotations

import os
import pickle
import tempfile
import weakref
import zlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from magicfs.filesystem.tracking import write_id_of
from magicfs.formats.footer import check_carried
from magicfs.formats.pending import CHECKSUM, Pending
from magicfs.formats.pendingset import PendingSet
from magicfs.formats.plain_set import PlainFile, PlainSet, read_plain, text_of
from magicfs.formats.statistics import Statistics
from magicfs.protocol.readback import WRITE_ID
from magicfs.protocol.steps import Complete, Publication, Put, Rename

_BETWEEN: Final = "\n"
"""Stands in no JSON that is written in one line."""


def step_of(pending: Pending) -> Publication:
    """The step that makes one file visible."""
    key, length, write_id = pending.destination_key, pending.length, write_id_of(pending)
    if pending.body is not None:
        return Put(key, length, write_id or "", *pending.body)
    if pending.source is not None:
        return Rename(pending.source.key, key, length, pending.source.etag)
    sums = [(part.checksum_algorithm, part.checksum) for part in pending.parts]
    etags = tuple([part.etag for part in pending.parts])
    return Complete(key, pending.upload_id, etags, length, write_id, _checksums(sums))


def plain_step(file: PlainFile) -> Publication:
    """The same of a file that was read without a ``Pending``."""
    write_id = file.extra_data.get(WRITE_ID)
    if file.body is not None:
        return Put(file.key, file.length, write_id or "", *file.body)
    sums = _checksums(file.checksums) if file.checksums else ()
    return Complete(file.key, file.upload_id, file.etags, file.length, write_id, sums)


def _checksums(
    sums: Sequence[tuple[str | None, str | None]],
) -> tuple[tuple[str, str] | None, ...]:
    found = tuple([(algorithm, value) if algorithm and value else None for algorithm, value in sums])
    return found if any(found) else ()


def pack_texts(texts: Sequence[str]) -> bytes:
    """The JSON of files, each in one line."""
    return zlib.compress(_BETWEEN.join(texts).encode(), 1)


def unpack_texts(raw: bytes) -> list[str]:
    """The texts that ``pack_texts`` was given. None of them is empty."""
    text = zlib.decompress(raw).decode()
    return text.split(_BETWEEN) if text else []


def pack_steps(steps: Sequence[Publication]) -> bytes:
    """Steps, field by field. None or all of them are renames."""
    renames = [step[:-1] for step in steps if isinstance(step, Rename)]
    bodies = [step[3:-1] if isinstance(step, Put) else None for step in steps]
    rows = [
        (step.key, "", (), step.length, step.write_id, ()) if isinstance(step, Put) else step[:-1]
        for step in steps
    ]
    kind = Rename if renames else None
    packed = (len(steps), _columns(renames or rows), bodies if any(bodies) else kind)
    return zlib.compress(pickle.dumps(packed, pickle.HIGHEST_PROTOCOL), 1)


def unpack_steps(raw: bytes, *, if_absent: bool = False) -> list[Publication]:
    """The steps that ``pack_steps`` was given; ``if_absent`` is about uploads and renames."""
    # Made by ``pack_steps``, in this process.
    count, columns, bodies = pickle.loads(zlib.decompress(raw))  # noqa: S301
    if not columns:
        return []
    rows = _rows([*columns, (if_absent,)], count)
    if bodies is Rename:
        return list(map(Rename._make, rows))
    steps = map(Complete._make, rows)
    if bodies is None:
        return list(steps)
    return [
        step if body is None else Put(step.key, step.length, step.write_id or "", *body)
        for step, body in zip(steps, bodies, strict=True)
    ]


def unpack_keys(raw: bytes) -> Sequence[str]:
    """Where the files of the steps will be that ``pack_steps`` was given: much less work than the steps."""
    count, columns, bodies = pickle.loads(zlib.decompress(raw))  # noqa: S301 - as above
    if not columns:
        return ()
    kind = Rename if bodies is Rename else Complete
    keys: tuple[str, ...] = columns[kind._fields.index("key")]
    return keys if len(keys) == count else keys * count


def _columns(rows: Iterable[Iterable[Any]]) -> list[tuple[Any, ...]]:
    """Field by field; of one that all have in common only the first value."""
    return [
        column[:1] if column.count(column[0]) == len(column) else column for column in zip(*rows, strict=True)
    ]


def _rows(columns: Sequence[tuple[Any, ...]], count: int) -> Iterator[tuple[Any, ...]]:
    return zip(*(column if len(column) == count else column * count for column in columns), strict=True)


class SetFiles(NamedTuple):
    """The files of a set, by their places in it, and what they have in common."""

    texts: Sequence[str]  # the JSON of each, in one line
    steps: Sequence[Publication]
    created_ms: Sequence[int]  # when each was closed; 0 if that is not told
    buckets: Sequence[str]
    jobs: set[str]  # that set and files name as theirs
    attempts: set[str]
    with_footer: int  # how many say something of themselves
    with_checksum: int  # how many have a checksum of their task's
    statistics: Statistics  # of the set


def read(path: str, raw: bytes) -> SetFiles:
    """Read a pending set. Raises FormatError if it is malformed."""
    if (plain := read_plain(path, raw)) is None:
        return of_set(PendingSet.from_bytes(path, raw), path)
    return _set_files(path, plain, plain.texts, list(map(plain_step, plain.commits)))


def of_set(one: PendingSet, path: str) -> SetFiles:
    """The files of a set that was read field by field. FormatError if one says too much of itself."""
    return _set_files(path, one, list(map(text_of, one.commits)), list(map(step_of, one.commits)))


def _set_files(
    path: str, one: PendingSet | PlainSet, texts: Sequence[str], steps: Sequence[Publication]
) -> SetFiles:
    files: Sequence[Pending | PlainFile] = one.commits
    return SetFiles(
        texts,
        steps,
        [file.created_ms for file in files],
        [file.bucket for file in files],
        {one.job_id, *[file.job_id for file in files]},
        {file.task_id for file in files},
        sum([check_carried(path, file.extra_data) for file in files]),
        sum([CHECKSUM in file.extra_data for file in files]),
        one.statistics,
    )


FILES_HELD = 10_000
"""Most files that are held as they are, in about a kilobyte each; those after them are packed."""

CHARACTERS_HELD = 64 * 1024**2
"""Most characters of their JSON that are held, which are more where files say much of themselves."""


class TakenFiles:
    """The JSON of each file and the step that makes it visible, set by set, by numbers from 0."""

    def __init__(self) -> None:
        self._held: list[tuple[Sequence[str], Sequence[Publication]]] = []
        self._files = self._characters = 0
        self._packed = Spool()

    def append(self, texts: Sequence[str], steps: Sequence[Publication]) -> None:
        self._files += len(steps)
        self._characters += sum(map(len, texts))
        if self._files <= FILES_HELD and self._characters <= CHARACTERS_HELD:
            self._held.append((texts, steps))
        else:
            self._packed.append(pack_texts(texts))
            self._packed.append(pack_steps(steps))

    def texts(self, number: int) -> Sequence[str]:
        if number < len(self._held):
            return self._held[number][0]
        return unpack_texts(self._packed.read(2 * (number - len(self._held))))

    def keys(self, number: int) -> Iterable[str]:
        if number < len(self._held):
            return (step.key for step in self._held[number][1])
        return unpack_keys(self._packed.read(2 * (number - len(self._held)) + 1))

    def steps(self, number: int, *, if_absent: bool = False) -> Sequence[Publication]:
        """The steps of the files of a set; ``if_absent`` is about uploads and renames."""
        if number >= len(self._held):
            raw = self._packed.read(2 * (number - len(self._held)) + 1)
            return unpack_steps(raw, if_absent=if_absent)
        steps = self._held[number][1]
        if not if_absent:
            return steps
        return [step if isinstance(step, Put) else step._replace(if_absent=if_absent) for step in steps]


_GROUP: Final = 1000


class ETags:
    """One ETag, or none yet, for each file of a job, with the version of the object if it has one, as
    ``protocol.deletion`` joins them. An empty one is of a file whose answer had none.

    Files are completed almost in their order, so a few groups are open at a time; those that are full are
    packed.
    """

    def __init__(self, files: int = 0) -> None:
        self.files = files
        self._open: dict[int, list[str | None]] = {}
        self._left: dict[int, int] = {}
        self._full: dict[int, int] = {}
        self._spool = Spool()

    def put(self, place: int, etag: str) -> None:
        """Note that of a file. No file is noted twice, but for one that had an empty one."""
        number, index = divmod(place, _GROUP)
        group = self._open.get(number)
        if group is None:
            group = self._open[number] = self._group(number)
            self._left[number] = group.count(None)
        if group[index] is None:
            self._left[number] -= 1
        group[index] = etag
        if not self._left[number]:
            self._full[number] = self._spool.append(_BETWEEN.join(map(str, group)).encode())
            del self._open[number], self._left[number]

    def __iter__(self) -> Iterator[str | None]:
        """In the order of the files; None for those that were not noted."""
        for number in range(-(-self.files // _GROUP)):
            yield from list(self._open.get(number) or self._group(number))

    def _group(self, number: int) -> list[str | None]:
        place = self._full.get(number)
        if place is not None:
            return list(self._spool.read(place).decode().split(_BETWEEN))
        return [None] * min(_GROUP, self.files - number * _GROUP)


_MEMORY_BYTES_MAX: Final = 16 * 1024**2


class Spool:
    """Takes byte strings, and gives them back by the number that each was given, from 0."""

    def __init__(self, memory_bytes_max: int = _MEMORY_BYTES_MAX) -> None:
        self._memory_bytes_max = memory_bytes_max
        self._ends = array("q", [0])
        self._memory: list[bytes] = []
        self._file: int | None = None  # its descriptor
        self._spilled = 0
        """How many of the first are in the file."""

    def __len__(self) -> int:
        return len(self._ends) - 1

    def append(self, raw: bytes) -> int:
        self._memory.append(raw)
        self._ends.append(self._ends[-1] + len(raw))
        if self._ends[-1] - self._ends[self._spilled] > self._memory_bytes_max and hasattr(os, "pwrite"):
            self._spill()  # Windows has no pwrite, and keeps all in memory
        return len(self) - 1

    def read(self, number: int) -> bytes:
        if number >= self._spilled:
            return self._memory[number - self._spilled]
        assert self._file is not None
        start, end = self._ends[number], self._ends[number + 1]
        # Not by the file's own place: a fork shares that.
        raw = os.pread(self._file, end - start, start)
        if len(raw) != end - start:
            raise OSError(f"a temporary file of this process in {tempfile.gettempdir()} was cut short")
        return raw

    def _spill(self) -> None:
        try:
            if self._file is None:
                with tempfile.TemporaryFile() as file:
                    self._file = os.dup(file.fileno())
                weakref.finalize(self, os.close, self._file)
            place = self._ends[self._spilled]
            for raw in self._memory:
                place += os.pwrite(self._file, raw, place)
        except OSError:
            return  # no room: memory is dearer than disk, but not than the job
        if place == self._ends[-1]:
            self._spilled, self._memory = len(self), []
