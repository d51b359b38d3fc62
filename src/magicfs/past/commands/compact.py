"""A part of ``magicfs maintain``: one manifest in place of many."""

from __future__ import annotations

import argparse

from magicfs.cli.guests import Part
from magicfs.cli.statuses import status_of
from magicfs.report import human_bytes

__all__ = ["PLACE", "configure", "run"]

PLACE = 3


def configure(_: argparse.ArgumentParser) -> None:
    """It has no arguments."""


def run(arguments: argparse.Namespace) -> Part:
    """Publish the sum; the dataset stays what it is."""
    from magicfs.past.compact import compact

    report = compact(arguments.url, dry_run=arguments.dry_run, storage_options=arguments.storage_options)
    if report.manifest is None:
        return Part("there is one manifest only", report.to_dict())
    done = "would merge" if arguments.dry_run else "merged"
    files = f"{report.files} files ({human_bytes(report.bytes)})"
    line = f"{done} {report.manifests} manifests, of {files} and {report.runs} runs, into {report.manifest}"
    return Part(line, report.to_dict(), status=status_of(found=arguments.dry_run))
