"""A Spark on this machine, for demonstrations and tests."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from examples.flights.java import require_java
from magicfs.errors import UsageError

if TYPE_CHECKING:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

__all__ = ["PANDAS_WARNING", "local_session"]

PANDAS_WARNING = "PySpark does not yet fully support pandas >= 3.0.0"
"""How the warning begins that PySpark 4.3 gives, as a ``FutureWarning``, whenever it meets pandas 3."""

_LOOPBACK = "127.0.0.1"


def local_session(
    *,
    name: str = "magicfs",
    cores: int = 2,
    attempts: int = 4,
    log: Path | None = None,
    config: Mapping[str, str] | None = None,
) -> SparkSession:
    """Start Spark in ``local`` mode: a JVM, and workers that run this Python.

    Sets ``PYSPARK_PYTHON`` and ``SPARK_LOCAL_IP`` in the environment of this process, from which the workers
    inherit, and turns off PySpark's warning about pandas 3. A second call returns the session that
    runs, as it is.

    ``attempts``: how often a task is tried before its job fails. ``log``: a file for all that Spark, its JVM
    and its workers print; by default only errors are shown, on stderr. It is appended to. ``config``: further
    configuration of Spark, before all else.

    Raises UsageError if pyspark is not installed, or the log cannot be written.
    Raises JavaProblem if there is no Java that Spark runs on.
    """
    require_java()
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise UsageError("pyspark is not installed; pip install 'magicfs[spark]'") from error
    if (running := SparkSession.getActiveSession()) is not None:
        return running
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = _LOOPBACK
    warnings.filterwarnings("ignore", message=PANDAS_WARNING, category=FutureWarning)
    conf = _configuration(name, cores, attempts, {} if config is None else config)
    if log is not None:
        _start_jvm(conf, log)
    else:
        conf.setIfMissing("spark.log.level", "ERROR")
    return SparkSession.builder.config(conf=conf).getOrCreate()


def _configuration(name: str, cores: int, attempts: int, config: Mapping[str, str]) -> SparkConf:
    from pyspark import SparkConf

    settings = {
        "spark.app.name": name,
        "spark.master": f"local[{cores},{attempts}]",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": _LOOPBACK,
        "spark.driver.bindAddress": _LOOPBACK,
        # Halves the cost of a Python task: over TCP each pays some 40 ms of socket delay.
        "spark.python.unix.domain.socket.enabled": "true",
        **config,
    }
    return SparkConf().setAll(list(settings.items()))


def _start_jvm(conf: SparkConf, log: Path) -> None:
    """Start the JVM with its output going to a file; it has none of ours to write to."""
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is not None:  # noqa: SLF001 - a second JVM would never be used
        return
    try:
        stream = log.open("ab")
    except OSError as error:
        raise UsageError(f"{log} cannot be written: {error.strerror}; choose another log file") from error
    with stream:
        gateway = launch_gateway(conf, {"stdout": stream, "stderr": stream})
    SparkContext._ensure_initialized(gateway=gateway, conf=conf)  # noqa: SLF001 - its only way in
