"""A part of ``magicfs maintain``: one manifest in place of many."""

from __future__ import annotations

import argparse

from magicfs.cli.guests import Part
from magicfs.cli.statuses import status_of
from magicfs.past.commands.settings import whole_number
from magicfs.report import human_bytes

PLACE = 3
POLICY = {"above": ("compact_above", whole_number)}


def configure(parser: argparse.ArgumentParser) -> None:
    """It has no options; a policy may say above how many manifests it is worth while."""
    parser.set_defaults(compact_above=None)


def run(arguments: argparse.Namespace) -> Part:
    """Publish the sum; the dataset stays what it is."""
    from magicfs.past.compact import CompactReport, compact

    options, above = arguments.storage_options, arguments.compact_above
    report = compact(arguments.url, dry_run=arguments.dry_run or above is not None, storage_options=options)
    if above is not None and report.manifests <= above:
        return Part(f"there are no more than {above} manifests", CompactReport(report.url, None).to_dict())
    if above is not None and not arguments.dry_run:
        report = compact(arguments.url, storage_options=options)
    if report.manifest is None:
        return Part("there is one manifest only", report.to_dict())
    done = "would merge" if arguments.dry_run else "merged"
    files = f"{report.files} files ({human_bytes(report.bytes)})"
    line = f"{done} {report.manifests} manifests, of {files} and {report.runs} runs, into {report.manifest}"
    return Part(line, report.to_dict(), status=status_of(found=arguments.dry_run))
