"""A process that publishes one job, and is killed."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import magicfs
from magicfs.errors import CommitDenied
from proofs.kill.stores import take_role
from proofs.kill.victim import WriteMode, begin
from proofs.past.content import body_of

__all__ = ["DENIED", "Order", "publish"]

DENIED = 4
"""Exit status of a job that another one has denied, as ``magicfs`` has it."""
_OTHER = 3


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be published, and how.

    Attributes:
        url: The destination.
        storage_options: How to reach the store; secrets are in the environment.
        run_id: Name of the run: the same order again finds what the first has done.
        mode: The mode.
        keep: For how long replaced files are kept; None if they are not.
        rows: The rows of each day; each day is a task of its own.
    """

    url: str
    storage_options: Mapping[str, Any]
    run_id: str
    mode: WriteMode
    keep: str | None
    rows: Mapping[str, tuple[str, ...]]


def publish(order: Order, environment: Mapping[str, str], log: str) -> None:
    """Publish it, and exit with 0, with ``DENIED``, or with another status if anything else went wrong."""
    begin(environment, log)
    take_role("driver")
    try:
        with magicfs.Job(
            order.url,
            mode=order.mode,
            run_id=order.run_id,
            keep=order.keep,
            storage_options=order.storage_options,
        ) as job:
            for number, (day, rows) in enumerate(order.rows.items()):
                with job.task(number) as task:
                    task.filesystem.pipe_file(f"{task.path}/day={day}/part-0.parquet", body_of(rows))
    except CommitDenied:
        traceback.print_exc()
        sys.exit(DENIED)
    except Exception:  # noqa: BLE001 - told in the log, by the exit status to who waits
        traceback.print_exc()
        sys.exit(_OTHER)
