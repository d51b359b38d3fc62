"""What a release of Hadoop reads and writes, where releases differ.

All from 3.3.1 on have pending files of version 2, pending sets of version 3 and a ``_SUCCESS`` of version 1.
They differ in the magic element (HADOOP-18797, in 3.4.0) and in the form of part ETags (HADOOP-15224, in
3.4.2), which kept the version number: a file of the other form is refused by a job commit, which aborts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from magicfs.errors import UsageError

CHECKSUMS: Final = frozenset({"CRC32", "CRC32C", "SHA1", "SHA256"})
"""Algorithms of part checksums that Hadoop repeats when it completes an upload; it drops all others."""

_TEXT: Final = re.compile(r"(\d+)\.(\d+)(?:\.(\d+)(?:[-.].*)?)?", re.DOTALL)
_OLDEST: Final = (3, 3, 1)
_JOB_ELEMENT: Final = (3, 4, 0)
_OBJECTS: Final = (3, 4, 2)
_NEWEST: Final = (3, 5)
_LAST_PATCH: Final = 10**6


@dataclass(frozen=True, slots=True)
class HadoopRelease:
    """A release. ``3.4`` stands for the newest of its line, ``3.4.1`` and ``3.4.1-amzn-2`` for themselves."""

    text: str
    number: tuple[int, int, int]

    @classmethod
    def of(cls, text: str) -> HadoopRelease:
        """The release of a name. Raises UsageError for none, and for one whose files are others."""
        match = _TEXT.fullmatch(str(text))
        if match is None:
            raise UsageError(f"hadoop={text!r} is not a release; write it like '3.4' or '3.4.1'")
        major, minor, patch = int(match[1]), int(match[2]), match[3]
        number = (major, minor, _LAST_PATCH if patch is None else int(patch))
        if number < _OLDEST:
            raise UsageError(
                f"hadoop={text!r} is too old: up to 3.3.0 pending sets have another version; choose '3.3' "
                "(3.3.1 and later), '3.4' or '3.5', or leave it out"
            )
        if number[:2] > _NEWEST:
            raise UsageError(
                f"hadoop={text!r} is newer than what this magicfs knows; if it still reads the files of "
                "Hadoop 3.5, give hadoop='3.5'"
            )
        return cls(text, number)

    @property
    def layout(self) -> Literal["__magic", "__magic_job"]:
        """Where its magic committer keeps a job's work."""
        return "__magic_job" if self.number >= _JOB_ELEMENT else "__magic"

    @property
    def etag_format(self) -> Literal["string", "object"]:
        """In which form it reads the ETags of parts."""
        return "object" if self.number >= _OBJECTS else "string"

    def check_checksum(self, algorithm: str | None) -> None:
        """Raise UsageError if it cannot complete uploads whose parts have checksums of this algorithm."""
        if algorithm is None or (self.etag_format == "object" and algorithm in CHECKSUMS):
            return
        why = (
            f"knows only {', '.join(sorted(CHECKSUMS))}"
            if self.etag_format == "object"
            else "cannot store checksums (3.4.2 and later can)"
        )
        raise UsageError(
            f"uploads are opened with ChecksumAlgorithm={algorithm!r}, so completing them needs the "
            f"checksums, and Hadoop {self.text} {why}; nothing was changed; leave the algorithm or hadoop "
            "out"
        )
