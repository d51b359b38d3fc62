"""Showing the files of manifest committers, ours and Hadoop's: as Hadoop's ``ManifestPrinter`` does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from magicfs.cli.printing import Shown, Table, printable, write_line
from magicfs.report import human_bytes

if TYPE_CHECKING:
    from magicfs.formats.statistics import MeanStatistic, Statistics
    from magicfs.formats.success import SuccessData
    from magicfs.formats.task_manifest import TaskManifest


def show_manifest_success(url: str, success: SuccessData) -> None:
    """Print ``_SUCCESS`` or the report of a job line by line as ``ManifestPrinter`` does, then its files.

    Text from the file is made harmless for a terminal, which Hadoop does not do.
    """
    write_line(f"Manifest file: {printable(url)}")
    fields = {
        "succeeded": "true" if success.success else "false",
        "created": success.date,
        "committer": success.committer,
        "hostname": success.hostname,
        "description": success.description,
        "jobId": success.job_id,
        "jobIdSource": success.job_id_source,
        "stage": success.stage,
    }
    for name, value in fields.items():
        if value is not None:
            write_line(f"{name}: {printable(value)}")
    write_line("Diagnostics")
    for name, value in sorted(success.diagnostics.items()):
        write_line(f"  {printable(name)} = {_lines(value)}")
    write_line("")
    write_line("Statistics:")
    _write_statistics(success.statistics)
    if success.filenames:
        write_line("Files:")
    for name in success.filenames:
        write_line(f"  {printable(name)}")


def _write_statistics(statistics: Statistics) -> None:
    """What ``ioStatisticsToPrettyString`` says: sorted, without what is empty."""
    _write_map("counters", statistics.counters, lambda value: value == 0, str)
    _write_map("gauges", statistics.gauges, lambda value: value == 0, str)
    _write_map("minimums", statistics.minimums, lambda value: value < 0, str)
    _write_map("maximums", statistics.maximums, lambda value: value < 0, str)
    _write_map("means", statistics.meanstatistics, lambda value: value.samples == 0, _mean)


def _write_map(
    kind: str, values: Mapping[str, Any], is_empty: Callable[[Any], bool], text: Callable[[Any], str]
) -> None:
    shown = [
        f"({printable(name)}={text(value)})" for name, value in sorted(values.items()) if not is_empty(value)
    ]
    write_line(f"{kind}=({chr(10).join(shown)});")
    write_line("")


def _mean(mean: MeanStatistic) -> str:
    return f"(samples={mean.samples}, sum={mean.sum}, mean={mean.mean:.4f})"


def _lines(text: str) -> str:
    """Text whose lines stay lines, as those of a stack trace."""
    return "\n".join(printable(line) for line in text.split("\n"))


def show_task_manifest(manifest: TaskManifest) -> Shown:
    """What a task has committed, which no tool of Hadoop's shows."""
    from magicfs.formats.hadoop_uri import decode
    from magicfs.formats.task_manifest import EntryStatus

    fields = (
        ("job", manifest.job_id),
        ("job attempt", manifest.job_attempt),
        ("task", manifest.task_id),
        ("task attempt", manifest.attempt_id),
        ("wrote in", decode(manifest.attempt_directory)),
        ("files", len(manifest.files)),
        ("size", human_bytes(manifest.size)),
        ("directories", len(manifest.directories)),
        *((f"extra {name}", value) for name, value in manifest.extra_data.items()),
    )
    files = [(human_bytes(one.size), one.etag or "", decode(one.destination)) for one in manifest.files]
    directories = [
        (EntryStatus.of(one.status).name.lower(), str(one.level), decode(one.path))
        for one in manifest.directories
    ]
    tables = Table(("SIZE", "ETAG", "BECOMES"), files), Table(("WAS", "LEVEL", "DIRECTORY"), directories)
    return fields, *tables
