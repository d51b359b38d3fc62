"""Catalogs that show a published dataset as a table: brought to the newest publication, any number of times.

``register`` reads what a catalog holds, then the chain of manifests, and changes the catalog only if it is
still as it was read. So of two calls at once none takes a table back, and a call that died is repeated. Each
catalog is in a module of its own, and imports its library when it is used.
"""

from magicfs.catalogs.catch_up import CaughtUp, catch_up
from magicfs.catalogs.delta import Delta
from magicfs.catalogs.ducklake import DuckLake
from magicfs.catalogs.glue import Glue
from magicfs.catalogs.hive import Hive
from magicfs.catalogs.iceberg import Iceberg
from magicfs.catalogs.register import RegisterReport, register
from magicfs.catalogs.symlinks import SymlinkManifest

__all__ = [
    "CaughtUp",
    "Delta",
    "DuckLake",
    "Glue",
    "Hive",
    "Iceberg",
    "RegisterReport",
    "SymlinkManifest",
    "catch_up",
    "register",
]
