"""Publish datasets on object stores, all or nothing, from plain Python, on any engine.

::

    with magicfs.Job("s3://bucket/sales", mode="append") as job:
        with job.task(0) as task:
            pyarrow.dataset.write_dataset(table, task.path, filesystem=task.filesystem, format="parquet")

Names are loaded when first used: importing ``magicfs`` imports no SDK, no engine and not even fsspec.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from magicfs.errors import MagicError as MagicError
from magicfs.errors import UsageError as UsageError
from magicfs.version import __version__

if TYPE_CHECKING:
    from magicfs.catalogs.register import RegisterReport as RegisterReport
    from magicfs.catalogs.register import register as register
    from magicfs.classic.reading import stocator_files as stocator_files
    from magicfs.datasets import recover as recover
    from magicfs.datasets.adopt import AdoptReport as AdoptReport
    from magicfs.datasets.adopt import adopt as adopt
    from magicfs.datasets.checkup import DoctorReport as DoctorReport
    from magicfs.datasets.checkup import doctor as doctor
    from magicfs.datasets.footers import footers as footers
    from magicfs.datasets.own_paths import discard as discard
    from magicfs.datasets.own_paths import publish as publish
    from magicfs.datasets.read import dataset as dataset
    from magicfs.datasets.read import read_manifest as read_manifest
    from magicfs.datasets.verify import verify as verify
    from magicfs.filesystem import MagicFileSystem as MagicFileSystem
    from magicfs.formats.footer import Footer as Footer
    from magicfs.formats.task_commit import TaskCommit as TaskCommit
    from magicfs.hadoop.conf import from_hadoop_conf as from_hadoop_conf
    from magicfs.job.arrow_streams import arrow_filesystem as arrow_filesystem
    from magicfs.job.job import Job as Job
    from magicfs.job.task import Task as Task
    from magicfs.past.compact import compact as compact
    from magicfs.past.drop import DropReport as DropReport
    from magicfs.past.drop import drop as drop
    from magicfs.past.expire import ExpireReport as ExpireReport
    from magicfs.past.expire import expire as expire
    from magicfs.past.file_facts import PublishedFile as PublishedFile
    from magicfs.past.history import Publication as Publication
    from magicfs.past.history import history as history
    from magicfs.past.rollback import RollbackReport as RollbackReport
    from magicfs.past.rollback import rollback as rollback
    from magicfs.past.tags import tag as tag
    from magicfs.past.tags import untag as untag
    from magicfs.report import JobReport as JobReport
    from magicfs.report import PathReport as PathReport
    from magicfs.report import VerifyReport as VerifyReport
    from magicfs.tables.dataset import Dataset as Dataset
    from magicfs.tables.rewrite import RewriteReport as RewriteReport
    from magicfs.tables.rewrite import rewrite as rewrite
    from magicfs.tables.write import write as write

_HOMES = {
    "AdoptReport": "magicfs.datasets.adopt",
    "Dataset": "magicfs.tables.dataset",
    "DoctorReport": "magicfs.datasets.checkup",
    "DropReport": "magicfs.past.drop",
    "ExpireReport": "magicfs.past.expire",
    "Footer": "magicfs.formats.footer",
    "Job": "magicfs.job.job",
    "JobReport": "magicfs.report",
    "MagicFileSystem": "magicfs.filesystem",
    "PathReport": "magicfs.report",
    "Publication": "magicfs.past.history",
    "PublishedFile": "magicfs.past.file_facts",
    "RegisterReport": "magicfs.catalogs.register",
    "RewriteReport": "magicfs.tables.rewrite",
    "RollbackReport": "magicfs.past.rollback",
    "Task": "magicfs.job.task",
    "TaskCommit": "magicfs.formats.task_commit",
    "VerifyReport": "magicfs.report",
    "adopt": "magicfs.datasets.adopt",
    "arrow_filesystem": "magicfs.job.arrow_streams",
    "compact": "magicfs.past.compact",
    "dataset": "magicfs.datasets.read",
    "discard": "magicfs.datasets.own_paths",
    "doctor": "magicfs.datasets.checkup",
    "drop": "magicfs.past.drop",
    "expire": "magicfs.past.expire",
    "footers": "magicfs.datasets.footers",
    "from_hadoop_conf": "magicfs.hadoop.conf",
    "history": "magicfs.past.history",
    "publish": "magicfs.datasets.own_paths",
    "read_manifest": "magicfs.datasets.read",
    "recover": "magicfs.datasets",
    "register": "magicfs.catalogs.register",
    "rewrite": "magicfs.tables.rewrite",
    "rollback": "magicfs.past.rollback",
    "stocator_files": "magicfs.classic.reading",
    "tag": "magicfs.past.tags",
    "untag": "magicfs.past.tags",
    "verify": "magicfs.datasets.verify",
    "write": "magicfs.tables.write",
}
_ROOMS = ("audit", "catalogs", "daft", "dask", "errors", "ray", "spark", "testing", "torch")

__all__ = ["MagicError", "UsageError", "__version__"]
__all__ += list(_HOMES)
__all__.sort()


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"magicfs.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'magicfs' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
