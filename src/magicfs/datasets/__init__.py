"""Looking after a destination from any process: ``recover``, ``commit``, ``abort`` of jobs whose driver died.

Names are loaded when they are first used.
"""

from typing import TYPE_CHECKING, Final

from magicfs.runtime.registered import lazy_names

if TYPE_CHECKING:
    from magicfs.datasets.abort import abort as abort
    from magicfs.datasets.commit import commit as commit
    from magicfs.datasets.commit import preview_commit as preview_commit
    from magicfs.datasets.finders import Cluster as Cluster
    from magicfs.datasets.recover import recover as recover
    from magicfs.datasets.recover import recover_jobs as recover_jobs

_HOMES = {
    "Cluster": "magicfs.datasets.finders",
    "abort": "magicfs.datasets.abort",
    "commit": "magicfs.datasets.commit",
    "preview_commit": "magicfs.datasets.commit",
    "recover": "magicfs.datasets.recover",
    "recover_jobs": "magicfs.datasets.recover",
}
__all__ = list(_HOMES)


__getattr__: Final = lazy_names(__name__, _HOMES)
