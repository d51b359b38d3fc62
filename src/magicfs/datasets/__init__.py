"""Looking after a destination from any process: ``recover``, ``commit``, ``abort`` of jobs whose driver died.

Names are loaded when they are first used.
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
