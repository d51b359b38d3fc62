"""The daemon of ``magicfs.spark.daemon``, for functions of the tests, which need pandas too."""

from __future__ import annotations

import pandas as pd  # noqa: F401
import pyspark.daemon

from magicfs.spark import daemon

if __name__ == "__main__":
    daemon.preload()
    pyspark.daemon.manager()
