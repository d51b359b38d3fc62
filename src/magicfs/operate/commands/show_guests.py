"""How ``magicfs show`` shows the records of guests: decisions, and releases."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magicfs.cli.printing import Shown, Table, human_moment

if TYPE_CHECKING:
    from magicfs.alias.records import AliasName, Claim
    from magicfs.formats.kinds import Kind
    from magicfs.releases.record import Record
    from magicfs.watch.operations import Operation


def kinds_of_guests() -> tuple[Kind, ...]:
    """Their kinds."""
    from magicfs.alias.records import AliasName, Claim
    from magicfs.formats.kinds import own
    from magicfs.releases.record import RELEASE_FORMAT, Record
    from magicfs.watch.operations import FORMAT, Operation

    return (
        own("alias", AliasName.FORMAT, AliasName.from_bytes),
        own("alias claim", Claim.FORMAT, Claim.from_bytes),
        own("operation", FORMAT, Operation.from_bytes),
        own("release", RELEASE_FORMAT, Record.from_bytes),
    )


def show_alias(one: AliasName) -> Shown:
    """Which alias a dataset has."""
    return ((("alias", one.alias),),)


def show_claim(one: Claim) -> Shown:
    """Whose alias it is, and what it shows."""
    shows = one.job_id if one.done else f"{one.job_id} soon" if one.job_id else ""
    return ((("dataset", one.dataset), ("name", one.name or one.file), ("shows job", shows)),)


def show_operation(one: Operation) -> Shown:
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


def show_release(one: Record) -> Shown:
    """All releases that are kept, and the datasets of the newest."""
    tags: dict[str, str] = {}
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
