"""``magicfs release URL``: several datasets that readers see together."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from magicfs.cli.printing import print_json, print_report, print_table, write_line
from magicfs.cli.statuses import Status
from magicfs.cli.storage import add_storage_options, check_there
from magicfs.errors import UsageError

if TYPE_CHECKING:
    from magicfs.tables.release import PublishedRelease, Release

HELP = "publish several datasets together, list the releases, roll back, tag, expire"
PLACE = ("publish", 4)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("url", metavar="URL", help="the release, such as s3://bucket/releases/marts")
    add_storage_options(parser)
    parser.add_argument(
        "--bucket",
        metavar="BUCKET",
        action="append",
        default=[],
        help="another bucket in which datasets of the release may lie; may be repeated",
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--add",
        metavar="WORD",
        nargs="+",
        action="append",
        help="release a dataset: its URL, then a job id, a run id or a tag (by default the newest "
        "publication), then its name in the release; repeat it to release several together",
    )
    which.add_argument("--rollback", metavar="WHICH", help="release again what an older release shows")
    which.add_argument("--tag", metavar="NAME", help="name a release, which is then kept")
    which.add_argument("--untag", metavar="NAME", help="remove a name")
    which.add_argument(
        "--expire", metavar="PERIOD", help="give up releases that were replaced longer ago, such as 30d"
    )
    which.add_argument("--show", metavar="WHICH", help="list the datasets of a release; latest is the newest")
    parser.add_argument(
        "--leave-out", metavar="NAME", action="append", default=[], help="with --add: a dataset to leave out"
    )
    parser.add_argument(
        "--run-id", metavar="ID", help="with --add: a second release of this run does nothing"
    )
    parser.add_argument("--as-of", metavar="WHICH", help="with --tag: the release, by default the newest")
    parser.add_argument("--move", action="store_true", help="with --tag: move it from another release")
    parser.add_argument("--last", metavar="N", type=int, default=1, help="with --expire: keep the newest N")
    parser.add_argument("--dry-run", action="store_true", help="with --expire: change nothing")


def run(arguments: argparse.Namespace) -> int:
    """Do what is asked for; list the releases if nothing is."""
    from magicfs.tables.release import Release

    release = Release(
        arguments.url,
        run_id=arguments.run_id,
        buckets=arguments.bucket,
        storage_options=arguments.storage_options,
    )
    if arguments.dry_run and arguments.expire is None:
        raise UsageError("--dry-run shows what --expire would do; nothing was changed; give both")
    if arguments.expire is not None:
        return _expire(release, arguments)
    if arguments.untag is not None:
        return _untag(release, arguments)
    one = _one(release, arguments)
    if one is not None:
        return _print_release(one, arguments)
    found = release.history()
    if not found:
        check_there(arguments)
    if arguments.json:
        print_json({"url": release.url, "releases": [each.to_dict() for each in found], "tags": found.tags})
    elif not found:
        write_line(f"nothing is released at {release.url}")
    else:
        print_table(found.HEADER, found.rows())
    return Status.FINE


def _one(release: Release, arguments: argparse.Namespace) -> PublishedRelease | None:
    """The release that was made, tagged or asked for; None if all are to be listed."""
    from magicfs.tables.release import Release

    if arguments.add or arguments.leave_out:
        return _added(release, arguments)
    if arguments.rollback is not None:
        return release.rollback(arguments.rollback)
    if arguments.tag is not None:
        return release.tag(arguments.tag, arguments.as_of, move=arguments.move)
    if arguments.show is None:
        return None
    which = None if arguments.show == "latest" else arguments.show
    return Release.latest(arguments.url, which, storage_options=arguments.storage_options)


def _added(release: Release, arguments: argparse.Namespace) -> PublishedRelease:
    for words in arguments.add or ():
        if len(words) > 3:
            raise UsageError(f"--add {' '.join(words)}: give a URL, a publication and a name")
        release.add(words[0], *words[1:2], name=words[2] if len(words) > 2 else None)
    for name in arguments.leave_out:
        release.leave_out(name)
    return release.commit()


def _expire(release: Release, arguments: argparse.Namespace) -> int:
    report = release.expire(arguments.expire, last=arguments.last, dry_run=arguments.dry_run)
    given_up = ", ".join(map(str, report.releases))
    fields = (("given up", given_up), ("holds", report.holds), ("datasets", " ".join(report.datasets)))
    nothing = "" if report.releases or report.holds else f"no release of {release.url} has expired"
    return print_report(arguments, report, fields, nothing=nothing)


def _untag(release: Release, arguments: argparse.Namespace) -> int:
    if not release.untag(arguments.untag):
        raise UsageError(f"{release.url} has no tag {arguments.untag}; nothing was changed")
    if arguments.json:
        print_json({"url": release.url, "tag": arguments.untag, "removed": True})
    else:
        write_line(f"tag {arguments.untag} was removed; no release was changed")
    return Status.FINE


def _print_release(one: PublishedRelease, arguments: argparse.Namespace) -> int:
    if arguments.json:
        print_json(one.to_dict())
    else:
        write_line(f"release {one.number} of {one.url}, {one.published:%Y-%m-%d %H:%M:%S} UTC, id {one.id}")
        rows = [(each.name, each.job_id, each.url) for each in one.released.members]
        print_table(("DATASET", "JOB", "URL"), rows)
    return Status.FINE
