"""Looking after a destination from any process, whatever became of the driver of a job.

====================  =======================================================================================
``recover``           bring a job that has died to its end, or take it back
``commit``            publish what the tasks of a dead driver have committed
``preview_commit``    say what ``commit`` would publish
``abort``             discard a job that is not committed, or what is left of one that has ended
``Cluster``           where Hadoop's staging committers keep what tasks have committed
====================  =======================================================================================

Each is in a module of its name. ``read`` and ``verify`` read what is published, and ``adopt`` adopts files
that no job has brought. ``listed_jobs`` finds a job by what its tasks left, and ``connection`` is the way to
the store.
``checkup`` says what is right and what is not. ``own_paths`` publishes and discards what lies
below a user's own magic path, and ``path_turns`` lets one caller at a time do so.

Names are loaded when they are first used: who reads a dataset, such as a task of Spark, needs none of them.
"""

from typing import TYPE_CHECKING, Final

from magicfs.runtime.lazy_names import lazy_names

if TYPE_CHECKING:
    from magicfs.datasets.abort import abort as abort
    from magicfs.datasets.commit import ListedJob as ListedJob
    from magicfs.datasets.commit import commit as commit
    from magicfs.datasets.commit import commit_listed as commit_listed
    from magicfs.datasets.commit import preview_commit as preview_commit
    from magicfs.datasets.finders import Cluster as Cluster
    from magicfs.datasets.recover import recover as recover
    from magicfs.datasets.recover import recover_jobs as recover_jobs
    from magicfs.report import RecoveredJob as RecoveredJob
    from magicfs.report import RecoverReport as RecoverReport

_HOMES = {
    "Cluster": "magicfs.datasets.finders",
    "ListedJob": "magicfs.datasets.commit",
    "RecoverReport": "magicfs.report",
    "RecoveredJob": "magicfs.report",
    "abort": "magicfs.datasets.abort",
    "commit": "magicfs.datasets.commit",
    "commit_listed": "magicfs.datasets.commit",
    "preview_commit": "magicfs.datasets.commit",
    "recover": "magicfs.datasets.recover",
    "recover_jobs": "magicfs.datasets.recover",
}
__all__ = list(_HOMES)


__getattr__: Final = lazy_names(__name__, _HOMES)
