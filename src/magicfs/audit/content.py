"""Rules on the content of files: looked at by the task that wrote them, while it still has the bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from magicfs.audit.rules import Told
from magicfs.audit.seen import Audited
from magicfs.transaction.file_checks import StagedFile

__all__ = ["FileCheck", "StagedFile"]


@dataclass(frozen=True)
class FileCheck:
    """Whatever a function says of the content of each file: ``FileCheck(no_duplicates)``.

    The function is called by the task that has written the file, in the task commit, with a ``StagedFile``.
    None or True lets the job be published, False, a text or an exception does not. Its name, by default that
    of the function, tells it from other checks of the job.
    """

    function: Callable[[StagedFile], bool | str | None]
    name: str = ""

    def look(self, file: StagedFile) -> str | None:
        """What is wrong with a file; None if nothing is."""
        try:
            said = self.function(file)
        except Exception as error:  # noqa: BLE001 - whatever a user's function raises
            return f"raised {error!r}"
        if isinstance(said, str):
            return said or "not as it should be"
        return None if said is None or said else f"returned {said}"

    def judge(self, seen: Audited) -> Told:
        name, count, wrong, unseen = str(self), 0, [], []
        for one in seen.files():
            count += 1
            if name not in one.said:
                unseen.append(one.key)
            elif (problem := one.said[name]) is not None:
                wrong.append(f"{one.key}: {problem}")
        if unseen:
            return False, f"no task has looked at {len(unseen)} of {count} files, such as {unseen[0]}"
        if wrong:
            return False, f"{len(wrong)} of {count} files, {'; '.join(wrong[:3])}"
        return True, f"{count} files"

    def __str__(self) -> str:
        return self.name or getattr(self.function, "__name__", repr(self.function))
