"""Looking after a destination from any process, whatever became of the driver of a job.

====================  =======================================================================================
``recover``           bring a job that has died to its end, or take it back
``commit``            publish what the tasks of a dead driver have committed
``preview_commit``    say what ``commit`` would publish
``abort``             discard a job that is not committed, or what is left of one that has ended
``compact``           sum the manifests up, so that readers need not walk all of the chain
``Cluster``           where Hadoop's staging committers keep what tasks have committed
====================  =======================================================================================

Each is in a module of its name. ``read`` and ``verify`` read what is published, ``stocator`` what the
stocator committer has published, and ``adopt`` adopts files that no job has brought. ``listed_jobs`` finds
a job by what its tasks left, and ``connection`` is the way to the store.
``checkup`` says what is right and what is not. ``own_paths`` publishes and discards what lies
below a user's own magic path, and ``path_turns`` lets one caller at a time do so.

Names are loaded when they are first used: who reads a dataset, such as a task of Spark, needs none of them.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from magicfs.datasets.abort import abort as abort
    from magicfs.datasets.commit import ListedJob as ListedJob
    from magicfs.datasets.commit import commit as commit
    from magicfs.datasets.commit import commit_listed as commit_listed
    from magicfs.datasets.commit import preview_commit as preview_commit
    from magicfs.datasets.compact import CompactReport as CompactReport
    from magicfs.datasets.compact import compact as compact
    from magicfs.datasets.foreign_jobs.staging import Cluster as Cluster
    from magicfs.datasets.recover import recover as recover
    from magicfs.datasets.recover import recover_jobs as recover_jobs
    from magicfs.report import RecoveredJob as RecoveredJob
    from magicfs.report import RecoverReport as RecoverReport

_HOMES = {
    "Cluster": "magicfs.datasets.foreign_jobs.staging",
    "CompactReport": "magicfs.datasets.compact",
    "ListedJob": "magicfs.datasets.commit",
    "RecoverReport": "magicfs.report",
    "RecoveredJob": "magicfs.report",
    "abort": "magicfs.datasets.abort",
    "commit": "magicfs.datasets.commit",
    "commit_listed": "magicfs.datasets.commit",
    "compact": "magicfs.datasets.compact",
    "preview_commit": "magicfs.datasets.commit",
    "recover": "magicfs.datasets.recover",
    "recover_jobs": "magicfs.datasets.recover",
}
__all__ = [
    "Cluster",
    "CompactReport",
    "ListedJob",
    "RecoverReport",
    "RecoveredJob",
    "abort",
    "commit",
    "commit_listed",
    "compact",
    "preview_commit",
    "recover",
    "recover_jobs",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Package(ModuleType):
    """Some functions bear the names of their modules, which imports would put in their places."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _HOMES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
