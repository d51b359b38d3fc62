"""Files of this machine as one table: what ``magicfs write`` reads."""

from __future__ import annotations

import glob
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.dataset as ds

from magicfs.errors import UsageError

INPUT_FORMATS: Final[dict[str, tuple[str, ...]]] = {
    "parquet": ("parquet",),
    "csv": ("csv",),
    "json": ("json", "jsonl", "ndjson"),
    "arrow": ("arrow", "feather", "ipc"),
    "orc": ("orc",),
}
"""How the names of files of each format end."""

_ENDS = {end: kind for kind, ends in INPUT_FORMATS.items() for end in ends}
_PACKED = (".gz", ".bz2", ".zst")


def find_files(names: Sequence[str]) -> list[list[Path]]:
    """The files that each name stands for: a file, a directory with all that is below it, or a pattern.

    In directories, names that begin with ``_`` or ``.`` are skipped. Raises UsageError for a name that stands
    for nothing.
    """
    found = []
    for name in names:
        path = Path(name)
        if path.is_dir():
            files = sorted(_below(path))
        elif path.exists():
            files = [path]
        else:
            files = sorted(Path(one) for one in glob.glob(name, recursive=True) if Path(one).is_file())  # noqa: PTH207
        if not files:
            raise UsageError(f"{name}: no such file, pattern or directory with files; nothing was changed")
        found.append(files)
    return found


def open_files(names: Sequence[str], input_format: str | None = None) -> ds.Dataset:
    """One dataset of all files. What directories are called, as ``day=mon``, becomes columns.

    Raises UsageError for files that are not there, cannot be read, or of whose format nobody knows.
    """
    groups = find_files(names)
    kinds = {input_format or _format_of(path) for files in groups for path in files}
    if len(kinds) > 1:
        raise UsageError(f"the files are {', '.join(sorted(kinds))}; write one format at a time")
    (kind,) = kinds
    try:
        parts = [_open(Path(name), files, kind) for name, files in zip(names, groups, strict=True)]
        return parts[0] if len(parts) == 1 else ds.dataset(parts)
    except (pa.ArrowException, OSError) as error:
        raise UsageError(f"the files cannot be read as {kind}: {error}; nothing was changed") from error


def _open(name: Path, files: Sequence[Path], kind: str) -> ds.Dataset:
    texts = [str(path) for path in files]
    if not name.is_dir():
        return ds.dataset(texts, format=kind)
    return ds.dataset(texts, format=kind, partitioning="hive", partition_base_dir=str(name))


def _below(directory: Path) -> Iterator[Path]:
    for path in directory.iterdir():
        if path.name.startswith(("_", ".")):
            continue
        if path.is_dir():
            yield from _below(path)
        else:
            yield path


def _format_of(path: Path) -> str:
    name = path.name
    for packed in _PACKED:
        name = name.removesuffix(packed)
    end = name.rpartition(".")[2].lower()
    if end not in _ENDS:
        raise UsageError(
            f"{path}: its name does not show the format; give --input-format, one of "
            f"{', '.join(INPUT_FORMATS)}"
        )
    return _ENDS[end]
