"""One file at a URL that never changes: a copy of the only file of a dataset, after each publication.

A job with option ``alias`` records the name at the dataset before its manifest, and copies its file once it
is published. All later jobs, rollbacks, drops and rewrites move the alias too. ``magicfs recover`` and
``magicfs maintain`` move it where a process died before it did.
"""

from typing import TYPE_CHECKING, Final

from magicfs.runtime.registered import lazy_names

if TYPE_CHECKING:
    from magicfs.alias.catch_up import AliasReport as AliasReport
    from magicfs.alias.catch_up import catch_up as catch_up
    from magicfs.alias.catch_up import remove as remove

_HOMES = dict.fromkeys(("AliasReport", "catch_up", "remove"), "magicfs.alias.catch_up")

__all__ = ["AliasReport", "catch_up", "remove"]
__getattr__: Final = lazy_names(__name__, _HOMES)
