"""Publish datasets on object stores, all or nothing, from plain Python, on any engine.

::

    with magicfs.Job("s3://bucket/sales", mode="append") as job:
        with job.task(0) as task:
            pyarrow.dataset.write_dataset(table, task.path, filesystem=task.filesystem, format="parquet")
    magicfs.Dataset("s3://bucket/sales").to_pandas()

Names are loaded when first used: importing ``magicfs`` imports no SDK, no engine and not even fsspec.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from magicfs import errors as errors
from magicfs.version import __version__

if TYPE_CHECKING:
    from magicfs import alias as alias
    from magicfs import audit as audit
    from magicfs import catalogs as catalogs
    from magicfs import hadoop as hadoop
    from magicfs import notify as notify
    from magicfs import testing as testing
    from magicfs.filesystem import MagicFileSystem as MagicFileSystem
    from magicfs.formats.task_commit import TaskCommit as TaskCommit
    from magicfs.job.job import Job as Job
    from magicfs.job.task import Task as Task
    from magicfs.past.retention import Keep as Keep
    from magicfs.report import JobReport as JobReport
    from magicfs.tables.dataset import Dataset as Dataset
    from magicfs.tables.release import Release as Release
    from magicfs.tables.write import write as write

_HOMES = {
    "Dataset": "magicfs.tables.dataset",
    "Job": "magicfs.job.job",
    "JobReport": "magicfs.report",
    "Keep": "magicfs.past.retention",
    "MagicFileSystem": "magicfs.filesystem",
    "Release": "magicfs.tables.release",
    "Task": "magicfs.job.task",
    "TaskCommit": "magicfs.formats.task_commit",
    "write": "magicfs.tables.write",
}
_ROOMS = (
    "alias",
    "audit",
    "catalogs",
    "daft",
    "dask",
    "hadoop",
    "notify",
    "ray",
    "seal",
    "spark",
    "testing",
    "torch",
    "watch",
)

__all__ = [
    "Dataset",
    "Job",
    "JobReport",
    "Keep",
    "MagicFileSystem",
    "Release",
    "Task",
    "TaskCommit",
    "__version__",
    "errors",
    "write",
]


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"magicfs.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'magicfs' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_ROOMS})
