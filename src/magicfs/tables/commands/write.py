"""``magicfs write IN… URL``: publish files of this machine as one dataset."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from magicfs.cli.printing import AGAIN, print_fields, print_job_report, print_json
from magicfs.cli.statuses import Status
from magicfs.cli.storage import add_storage_options
from magicfs.errors import UsageError
from magicfs.report import human_bytes

if TYPE_CHECKING:
    import pyarrow.dataset

HELP = "publish files from this machine (Parquet, CSV, JSON lines, Arrow, ORC)"
PLACE = ("publish", 1)
_INPUTS = ("parquet", "csv", "json", "arrow", "orc")
_OPTIONS = (
    "partitioning",
    "mode",
    "format",
    "compression",
    "max_rows_per_file",
    "max_bytes_per_file",
    "tasks",
    "run_id",
)
"""Arguments that ``magicfs.write`` takes by the same names."""
_OUTPUTS = ("parquet", "csv", "json", "orc", "arrow")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    from magicfs.protocol.modes import WRITE_MODES

    parser.add_argument(
        "inputs", metavar="IN", nargs="+", help="a file, a directory, or a pattern such as 'data/**/*.csv'"
    )
    parser.add_argument("url", metavar="URL", help="the destination, such as s3://bucket/sales")
    parser.add_argument(
        "--input-format", choices=_INPUTS, help="format of the files, if their names do not show it"
    )
    parser.add_argument("--format", choices=_OUTPUTS, default="parquet", help="what to write (parquet)")
    parser.add_argument("--compression", metavar="CODEC", help="such as zstd; by default the format's own")
    parser.add_argument(
        "--partition-by", metavar="COLUMNS", default="", help="partition columns, separated by commas"
    )
    parser.add_argument(
        "--partitioning", choices=("hive", "directory"), default="hive", help="day=mon, or mon alone (hive)"
    )
    parser.add_argument(
        "--mode", choices=WRITE_MODES, default="error", help="what to do about existing data (error)"
    )
    parser.add_argument(
        "--any-schema", action="store_true", help="write even if the columns do not match the existing data"
    )
    parser.add_argument("--max-rows-per-file", metavar="N", type=int, help="maximum rows of a file")
    parser.add_argument("--max-bytes-per-file", metavar="N", type=int, help="approximate bytes of a file")
    parser.add_argument("--tasks", metavar="N", type=int, default=1, help="number of writing threads (1)")
    parser.add_argument("--run-id", metavar="ID", help="name of the run; it is published only once")
    parser.add_argument(
        "--allow-empty", action="store_true", help="let input without rows replace existing data"
    )
    parser.add_argument(
        "--alias", metavar="NAME", help="keep a copy of the only file next to the destination, as NAME"
    )
    add_storage_options(parser, dry_run=True)


def run(arguments: argparse.Namespace) -> int:
    """Write, and print the report."""
    try:
        import pyarrow as pa

        from magicfs.tables.on_disk import open_files
    except ImportError as error:
        raise UsageError("magicfs write needs pyarrow; pip install 'magicfs[arrow]'") from error
    from magicfs.tables.write import write

    data = open_files(arguments.inputs, arguments.input_format)
    if arguments.dry_run:
        _preview(arguments, data)
        return Status.FOUND
    how = {name: getattr(arguments, name) for name in _OPTIONS}
    how["options"] = {"allow_empty": arguments.allow_empty, "alias": arguments.alias}
    how["partition_by"] = [one.strip() for one in arguments.partition_by.split(",") if one.strip()]
    try:
        how["check_schema"] = not arguments.any_schema
        report = write(data, arguments.url, storage_options=arguments.storage_options, **how)
    except pa.ArrowException as error:
        raise UsageError(f"the files cannot be read: {error}; nothing was published") from error
    return print_job_report(report, as_json=arguments.json)


def _preview(arguments: argparse.Namespace, data: pyarrow.dataset.Dataset) -> None:
    from magicfs.tables.on_disk import find_files

    files = [path for group in find_files(arguments.inputs) for path in group]
    size = sum(Path(path).stat().st_size for path in files)
    columns = {field.name: str(field.type) for field in data.schema}
    if arguments.json:
        shown = {"action": "would write", "destination": arguments.url, "mode": arguments.mode}
        print_json({**shown, "files": len(files), "bytes": size, "columns": columns})
        return
    print_fields(
        ("destination", arguments.url),
        ("done", "would write"),
        ("mode", arguments.mode),
        ("files read", f"{len(files)} ({human_bytes(size)})"),
        *(("column", f"{name}: {kind}") for name, kind in columns.items()),
        ("next", AGAIN),
    )
