"""How ``magicfs show`` shows the records of guests: decisions, and releases."""

from __future__ import annotations

from typing import Final

from magicfs.cli.printing import Shown, Table, human_moment
from magicfs.releases import record
from magicfs.watch import operations

__all__ = ["KINDS", "show_operation", "show_release"]

KINDS: Final = (
    ("operation", operations.FORMAT, operations.Operation.from_bytes),
    ("release", record.RELEASE_FORMAT, record.Record.from_bytes),
)
"""Name, format and reader of each."""


def show_operation(one: operations.Operation) -> Shown:
    """Who decided what."""
    fields = (
        ("verb", one.verb),
        ("job", one.job_id),
        ("action", one.action),
        ("when", human_moment(one.when_ms)),
        ("user", one.user),
        ("host", one.host),
        ("reason", one.reason),
    )
    return (fields,)


def show_release(one: record.Record) -> Shown:
    """All releases that are kept, and the datasets of the newest."""
    tags = {}
    for name, named in one.tags.items():
        tags[named] = f"{tags[named]}, {name}" if named in tags else name
    rows = [
        (f"{each.number}", human_moment(each.published_ms), each.id, each.run_id or "", tags.get(each.id, ""))
        for each in reversed(one.releases)
    ]
    members = one.newest.members if one.newest else ()
    return (
        (("changed", human_moment(one.changed_ms)), ("releases", len(one.releases))),
        Table(("NUMBER", "PUBLISHED", "RELEASE", "RUN", "TAGS"), rows),
        Table(("DATASET", "JOB", "URL"), [(each.name, each.job_id, each.url) for each in members]),
    )
