"""``magicfs uploads URL``: the open uploads of a bucket or a directory, of every program."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from magicfs.cli.printing import (
    AGAIN,
    human_moment,
    print_error,
    print_fields,
    print_json,
    print_table,
    printable,
    write_line,
)
from magicfs.cli.statuses import status_of
from magicfs.cli.storage import add_destination, check_there
from magicfs.errors import UsageError
from magicfs.report import human_bytes

if TYPE_CHECKING:
    from magicfs.operate.open_uploads import OpenUpload
    from magicfs.operate.uploads import Aborting, Group, UploadsReport

HELP = "count open uploads by owner and prefix, and end those that nobody needs"
PLACE = ("look", 2)
_ENDS_MAX: Final = 10
_ROWS_MAX: Final = 20
_NOBODYS: Final = "once 7 days old: --abort --older-than 7d, if no program of yours still writes them"
_PROGRESS_S: Final = 5.0


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_destination(parser, dry_run=True)
    parser.add_argument("--sizes", action="store_true", help="ask for the size of each; one request for each")
    parser.add_argument(
        "--price", metavar="DOLLARS", type=float, help="dollars a GiB and month, instead of the list price"
    )
    parser.add_argument(
        "--depth", metavar="N", type=int, default=1, help="directories that count as one prefix (default: 1)"
    )
    parser.add_argument("--abort", action="store_true", help="end those that no job can need")
    parser.add_argument(
        "--older-than", metavar="PERIOD", help="with --abort: how old they have to be, at least 1d"
    )


def run(arguments: argparse.Namespace) -> int:
    """Count what is open, and end it if asked to. Returns 0 if nothing is left to decide."""
    from magicfs.datasets.connection import open_destination
    from magicfs.operate.prices import price_of
    from magicfs.operate.uploads import survey

    older_than_s = _age(arguments)
    place = open_destination(arguments.url, arguments.storage_options, for_reading=True)
    report = place.run(
        survey,
        price_of(place.engine.store.name, arguments.price),
        sizes=arguments.sizes,
        depth=max(1, arguments.depth),
        older_than_s=older_than_s,
        dry_run=arguments.dry_run,
        progress=_Progress() if sys.stderr.isatty() else id,
    )
    if not report.total.uploads and not report.aborting:
        check_there(arguments)
    for error in report.unreadable:
        print_error(error, as_json=arguments.json)
    if arguments.json:
        print_json(report.to_dict())
    else:
        _print(report)
    return status_of(found=report.total.uploads)


def _age(arguments: argparse.Namespace) -> float | None:
    from magicfs.protocol.period import parse_period

    if arguments.abort and arguments.older_than is None:
        raise UsageError("--abort needs --older-than, such as --older-than 7d; nothing was changed")
    if not arguments.abort and (arguments.older_than is not None or arguments.dry_run):
        raise UsageError("--older-than and --dry-run work only with --abort")
    return parse_period("--older-than", arguments.older_than) / 1000 if arguments.abort else None


class _Progress:
    """A line on stderr every few seconds."""

    def __init__(self) -> None:
        self._said = time.monotonic()
        self._looked_at = 0

    def __call__(self, report: UploadsReport) -> None:
        self._looked_at += 1000
        if time.monotonic() - self._said < _PROGRESS_S:
            return
        self._said = time.monotonic()
        ended = f", {report.aborting.ended.uploads:,} ended" if report.aborting else ""
        sys.stderr.write(f"magicfs: about {self._looked_at:,} uploads looked at{ended}\n")


def _print(report: UploadsReport) -> None:
    """Print what is open, and the commands that end it, each once."""
    total = report.total
    if report.aborting is not None:
        _print_aborting(report, report.aborting)
    if not total.uploads:
        write_line(f"nothing is pending under {report.url}")
        return
    print_table(("BEGUN", "SIZE", "JOB", "KEY"), map(_row, report.oldest[:_ROWS_MAX]))
    if total.uploads > _ROWS_MAX:
        write_line(f"and {total.uploads - _ROWS_MAX:,} more; --json has the thousand oldest")
    _print_groups(report, "OWNER", {owner.value: one for owner, one in report.owners.items()})
    for title, groups in (("PREFIX", report.prefixes), ("INITIATOR", report.initiators)):
        if len(groups) > 1:
            _print_groups(report, title, groups)
    unknown = f" and {total.unsized} of unknown size" if total.unsized else ""
    write_line(
        f"\n{total.uploads} pending under {report.url}, the oldest started "
        f"{human_moment(total.oldest * 1000)}; {human_bytes(total.bytes)}{unknown}"
    )
    if total.bytes:
        write_line(f"price: {report.price.source}")
    _print_ends(report)
    _print_rule(report)


def _print_groups(report: UploadsReport, title: str, groups: Mapping[str, Group]) -> None:
    write_line("")
    rows = [_group(report, name or "(here)", one) for name, one in [*groups.items()][:_ROWS_MAX]]
    print_table((title, "UPLOADS", "SIZE", "$ A MONTH", "OLDEST"), rows)
    if len(groups) > _ROWS_MAX:
        write_line(f"and {len(groups) - _ROWS_MAX:,} more: --json")


def _print_ends(report: UploadsReport) -> None:
    from magicfs.operate.open_uploads import Owner, ends
    from magicfs.protocol import paths

    location = paths.parse_url(report.url)
    alive = (Owner.RUNNING, Owner.DEAD)
    jobs = (one.owner in alive and one.own_path is None for one in report.oldest)
    ways = dict.fromkeys(zip(jobs, (ends(location, one) for one in report.oldest), strict=True))
    for may_live, commands in list(ways)[:_ENDS_MAX]:
        lead = "to end, if its driver is dead: " if may_live else "to end: "
        write_line(lead + (", or ".join(map(printable, commands)) or _NOBODYS))
    if len(ways) > _ENDS_MAX:
        write_line(f"to end {len(ways) - _ENDS_MAX} more: --json names the commands for each")


def _print_rule(report: UploadsReport) -> None:
    from magicfs.operate.lifecycle import rule_commands
    from magicfs.operate.open_uploads import Owner
    from magicfs.protocol import paths

    command = rule_commands(paths.parse_url(report.url))
    if command and {Owner.NOBODY, Owner.ENDED} & report.owners.keys():
        write_line(f"a lifecycle rule would have ended them: {printable(command)}")


def _print_aborting(report: UploadsReport, one: Aborting) -> None:
    print_fields(
        ("would end" if one.dry_run else "ended", _counted(report, one.ended)),
        ("left", f"{one.young} younger uploads" if one.young else ""),
        ("left", f"{one.written} uploads written to within that time" if one.written else ""),
        ("gone", f"{one.gone} uploads ended meanwhile" if one.gone else ""),
        *(("left", f"{number}: {reason}") for reason, number in [*one.left.items()][:_ENDS_MAX]),
        ("next", AGAIN if one.dry_run and one.ended.uploads else ""),
    )
    write_line("")


def _counted(report: UploadsReport, group: Group) -> str:
    from magicfs.operate.prices import money

    cost = money(report.price.of(group.bytes))
    return f"{group.uploads:,} uploads, {human_bytes(group.bytes)}{f', {cost} a month' if cost else ''}"


def _group(report: UploadsReport, name: str, group: Group) -> tuple[str, ...]:
    from magicfs.operate.prices import money

    known = group.uploads > group.unsized
    size = human_bytes(group.bytes) if known else "unknown"
    more = "" if not known or not group.unsized else " and more"
    cost = money(report.price.of(group.bytes)) if known else ""
    return name, f"{group.uploads:,}", f"{size}{more}", cost, human_moment(group.oldest * 1000)


def _row(upload: OpenUpload) -> tuple[str, ...]:
    state = ", in quarantine" if upload.quarantined else ", not judged yet" if upload.unjudged else ""
    size = "unknown" if upload.length is None else human_bytes(upload.length)
    job = f"{upload.job_id}{state}" if upload.job_id else "own path" if upload.own_path else "unknown"
    return human_moment(upload.initiated * 1000), size, job, upload.key
