"""What magicfs must do where nothing is installed but its wheel and what that requires.

Run by the Python of such an environment, isolated, from an empty directory.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import sys
from pathlib import Path

import fsspec

import magicfs

GROUPS = ("commands", "committers", "extensions", "finders", "recover")
REQUIRED = {"fsspec", "magicfs", "pip", "tenacity"}


def check_environment(version: str) -> None:
    """Nothing else is here, and what is imported is what was installed."""
    assert Path(magicfs.__file__).is_relative_to(sys.prefix), magicfs.__file__
    assert magicfs.__version__ == version == importlib.metadata.version("magicfs")
    installed = {one.name.lower() for one in importlib.metadata.distributions()}
    assert installed <= REQUIRED | {"setuptools", "wheel"}, installed


def check_entry_points() -> int:
    """Each loads; those of fsspec name classes."""
    points = {group: importlib.metadata.entry_points(group=f"magicfs.{group}") for group in GROUPS}
    for group, ours in points.items():
        assert ours, f"no entry points in the group magicfs.{group}"
        for point in ours:
            assert point.load() is not None, point
    schemes = [point.name for point in importlib.metadata.entry_points(group="fsspec.specs")]
    assert "magic+memory" in schemes, schemes
    for scheme in schemes:
        assert "magic" in fsspec.get_filesystem_class(scheme.replace("::", "+")).__module__, scheme
    return sum(len(ours) for ours in points.values()) + len(schemes)


def check_publication(url: str) -> None:
    """Two tasks publish a file each: both are there after the job, and none before."""
    filesystem, path = fsspec.core.url_to_fs(f"magic+{url}")
    with magicfs.Job(url) as job:
        for number in range(2):
            with job.task(number) as task:
                task.filesystem.pipe_file(f"{task.path}/day={number}/part.txt", b"rows")
        assert not filesystem.exists(f"{path}/day=0"), "a file was visible before the commit"
    assert job.report.files == 2, job.report
    days = sorted(name.rpartition("/")[2] for name in filesystem.ls(path, detail=False))
    assert [day for day in days if not day.startswith("_")] == ["day=0", "day=1"], days


def main() -> None:
    """Check all of it."""
    check_environment(sys.argv[1])
    points = check_entry_points()
    check_publication("memory://bucket/sales")
    files = Path("sales").absolute().as_uri()
    if os.name == "posix":
        check_publication(files)
    else:
        with contextlib.suppress(magicfs.errors.UsageError):
            check_publication(files)
            raise AssertionError("local files need POSIX")
    shown = f"Python {sys.version.split()[0]}, {sys.platform}: {points} entry points, memory:// and file://"
    sys.stdout.write(f"{shown}\n")


if __name__ == "__main__":
    main()
