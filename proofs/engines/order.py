"""What a driver is to publish, and the rows, which are the same whoever writes them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["DAYS", "Order", "TaskFails", "Trouble"]

DAYS = ("a b", "50%", "x+y", "#1", "ü")
Trouble = Literal["none", "once", "always", "twice"]
_TROUBLED = 2


class TaskFails(RuntimeError):
    """What a task raises that is to fail."""


@dataclass(frozen=True, slots=True)
class Order:
    """One publication.

    Attributes:
        engine: Its name.
        url: The destination.
        mode: The mode.
        run_id: Name of the run.
        parts: How many partitions, or tasks.
        rows: Rows of each.
        trouble: How often the third of them raises; ``twice``: each is run by two workers at once.
        mark: Path of a file by which a second attempt knows of the first.
        cluster: Address of the engine's cluster; empty if the driver makes its own processes.
        documented: Whether the driver runs what the page about its engine shows, as it stands.
    """

    engine: str
    url: str
    mode: Literal["error", "append", "overwrite", "overwrite_partitions"]
    run_id: str | None
    parts: int
    rows: int
    trouble: Trouble
    mark: str
    cluster: str
    documented: bool = False

    def table(self, part: int) -> pa.Table:
        """The rows of one part; of another size in each, and in every day."""
        import pyarrow as pa

        self.meet_trouble(part)
        numbers = range(part * self.rows, (part + 1) * self.rows)
        return pa.table(
            {
                "row": pa.array(numbers, pa.int64()),
                "day": [DAYS[number % len(DAYS)] for number in numbers],
                "body": [f"{number:032d}" for number in numbers],
            }
        )

    def meet_trouble(self, part: int) -> None:
        """Raise where a task is to fail."""
        if part != _TROUBLED or self.trouble in {"none", "twice"}:
            return
        if self.trouble == "once":
            try:
                os.close(os.open(Path(self.mark), os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return
        raise TaskFails(f"part {part} fails, as it is told to")
