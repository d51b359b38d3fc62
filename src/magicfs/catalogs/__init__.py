"""Catalogs that show a published dataset as a table, and can be updated to the newest publication any time.

``register`` reads the catalog, then the chain of manifests, and changes the catalog only if it is still the
same. So two calls at once never take a table back, and you can repeat a call that died. Each catalog has its
own module, which imports its library when you use it.
"""

from typing import TYPE_CHECKING, Final

from magicfs.runtime.registered import lazy_names

if TYPE_CHECKING:
    from magicfs.catalogs.catch_up import CaughtUp as CaughtUp
    from magicfs.catalogs.catch_up import catch_up as catch_up
    from magicfs.catalogs.delta import Delta as Delta
    from magicfs.catalogs.ducklake import DuckLake as DuckLake
    from magicfs.catalogs.glue import Glue as Glue
    from magicfs.catalogs.hive import Hive as Hive
    from magicfs.catalogs.iceberg import Iceberg as Iceberg
    from magicfs.catalogs.symlinks import SymlinkManifest as SymlinkManifest

_HOMES = {
    "CaughtUp": "magicfs.catalogs.catch_up",
    "Delta": "magicfs.catalogs.delta",
    "DuckLake": "magicfs.catalogs.ducklake",
    "Glue": "magicfs.catalogs.glue",
    "Hive": "magicfs.catalogs.hive",
    "Iceberg": "magicfs.catalogs.iceberg",
    "SymlinkManifest": "magicfs.catalogs.symlinks",
    "catch_up": "magicfs.catalogs.catch_up",
}

__all__ = ["CaughtUp", "Delta", "DuckLake", "Glue", "Hive", "Iceberg", "SymlinkManifest", "catch_up"]
__getattr__: Final = lazy_names(__name__, _HOMES)
