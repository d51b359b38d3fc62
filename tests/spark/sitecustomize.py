"""Warm daemons for Spark's planner as well, which takes no module of ours.

Each of its calls is a process that a daemon of its own forks, and that would import pyspark, magicfs and the
store's client again. The daemons find this file by their ``PYTHONPATH``.
"""

from __future__ import annotations

import importlib
import sys

_PLANNER = ["-m", "pyspark.daemon"]

if sys.orig_argv[1:3] == _PLANNER and len(sys.orig_argv) > 3:
    importlib.import_module(sys.orig_argv[3])
    if not sys.orig_argv[3].endswith(("lookup_data_sources", "pushdown_filters")):
        from magicfs.spark import daemon

        daemon.preload()
