"""``magicfs verify URL``: a dataset against its manifests."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from magicfs.cli.printing import print_fields, print_json, print_table, write_line
from magicfs.cli.statuses import status_of
from magicfs.cli.storage import add_destination
from magicfs.report import human_bytes

if TYPE_CHECKING:
    from magicfs.report import VerifyReport

HELP = "compare a dataset with its manifests: missing, altered and foreign files"
PLACE = ("look", 5)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_destination(parser)
    parser.add_argument(
        "--deep", action="store_true", help="also check the content, by checksums or by reading every file"
    )


def run(arguments: argparse.Namespace) -> int:
    """Compare; nothing is changed. Returns 0 if the bucket shows exactly the dataset."""
    from magicfs.operate.verify import verify

    report = verify(arguments.url, deep=arguments.deep, storage_options=arguments.storage_options)
    if arguments.json:
        print_json(report.to_dict())
        return status_of(found=not report.ok)
    damaged = [f"{key}: {problem}" for key, problem in report.damaged.items()]
    lists = {"missing": report.missing, "altered": report.altered, "damaged": damaged}
    lists["foreign"] = report.foreign
    found = [(what, key) for what, keys in lists.items() for key in keys]
    if found:
        print_table(("WHAT", "KEY"), found)
        write_line("")
    print_fields(
        ("dataset", report.url),
        ("newest job", report.job_id),
        ("published", f"{report.files} files ({human_bytes(report.bytes)})"),
        ("found", "all as published" if report.ok else _counted(report)),
        ("checked", _checked(report) if arguments.deep else ""),
        ("kept", f"{report.kept} replaced files, until magicfs maintain deletes them" if report.kept else ""),
        ("unfinished", ", ".join(report.unfinished)),
        ("unlinked", ", ".join(report.unlinked)),
        *(("next", one) for one in report.advice),
    )
    return status_of(found=not report.ok)


def _counted(report: VerifyReport) -> str:
    counts = [f"{len(report.missing)} missing", f"{len(report.altered)} altered"]
    counts.append(f"{len(report.foreign)} foreign")
    return ", ".join([*counts, f"{len(report.damaged)} damaged"] if report.damaged else counts)


def _checked(report: VerifyReport) -> str:
    """By what files were held against their checksums."""
    left = report.files - report.by_store - report.read
    not_at_all = f", {left} not at all" if left else ""
    return (
        f"{report.by_store} by a checksum of the store, {report.read} by reading ({report.confirmed} of them "
        f"against a checksum){not_at_all}"
    )
