"""The files of the sets that a job has taken, held for several passes: as they are while they are few."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from magicfs.protocol.steps import Publication, Put
from magicfs.transaction import pack
from magicfs.transaction.spool import Spool

__all__ = ["FILES_HELD", "TakenFiles"]

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
        """Take the files of one more set in."""
        self._files += len(steps)
        self._characters += sum(map(len, texts))
        if self._files <= FILES_HELD and self._characters <= CHARACTERS_HELD:
            self._held.append((texts, steps))
        else:
            self._packed.append(pack.pack_texts(texts))
            self._packed.append(pack.pack_steps(steps))

    def texts(self, number: int) -> Sequence[str]:
        """The JSON of the files of a set."""
        if number < len(self._held):
            return self._held[number][0]
        return pack.unpack_texts(self._packed.read(2 * (number - len(self._held))))

    def keys(self, number: int) -> Iterable[str]:
        """Where the files of a set will be."""
        if number < len(self._held):
            return (step.key for step in self._held[number][1])
        return pack.unpack_keys(self._packed.read(2 * (number - len(self._held)) + 1))

    def steps(self, number: int, *, if_absent: bool = False) -> Sequence[Publication]:
        """The steps of the files of a set; ``if_absent`` is about uploads and renames."""
        if number >= len(self._held):
            raw = self._packed.read(2 * (number - len(self._held)) + 1)
            return pack.unpack_steps(raw, if_absent=if_absent)
        steps = self._held[number][1]
        if not if_absent:
            return steps
        return [step if isinstance(step, Put) else step._replace(if_absent=if_absent) for step in steps]
