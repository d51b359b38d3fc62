"""The partitions of a dataset that a condition means, such as ``day >= '2026-01-01'``."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from magicfs.datasets.read import current_view
from magicfs.engine import Engine
from magicfs.errors import UsageError
from magicfs.past.as_of import job_as_of, view_at
from magicfs.past.file_facts import partition_values
from magicfs.past.row_condition import Condition, Values
from magicfs.protocol.modes import is_data
from magicfs.protocol.paths import Location


async def partitions_where(
    engine: Engine, location: Location, to: str | datetime, condition: Condition
) -> tuple[str, ...]:
    """The partitions, as they are now and were then, of which the condition holds.

    Raises UsageError if it asks about other values than those of partitions, or none meets it.
    """
    then = await view_at(engine, location, await job_as_of(engine, location, to))
    now = await current_view(engine, location)
    keys = [key for key in (*then.files, *now.files) if is_data(key, "")]
    found = sorted(set(_meeting(location, condition, {key.rpartition("/")[0] for key in keys})))
    if not found:
        raise UsageError(
            f"{condition.text!r} holds for no partition of {location.url}, neither now nor then; nothing was "
            "changed; check the names and values of partitions"
        )
    return tuple(found)


def _meeting(location: Location, condition: Condition, directories: set[str]) -> Iterator[str]:
    for one in directories:
        values = {name: Values.one(value) for name, value in partition_values(f"{one}/").items()}
        answer = condition.of_file(values)
        if answer == "unknown":
            lacking = ", ".join(sorted(set(condition.names) - values.keys()))
            raise UsageError(
                f"{one or 'the root'} of {location.url} has no partition value for {lacking}, which "
                f"{condition.text!r} asks about; nothing was changed; use names of partitions only, or name "
                "the partitions"
            )
        if answer == "all":
            yield one
