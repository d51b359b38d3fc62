"""The demo from outside: what it needs here, which engine it takes, what became of it."""

from __future__ import annotations

import importlib.util
import sys
from typing import TYPE_CHECKING

from magicfs.errors import Unavailable, UsageError

if TYPE_CHECKING:
    from examples.flights.proof import Report

__all__ = ["STORES", "choose_engine", "run"]

_PACKAGES = ("numpy", "pandas", "pyarrow", "rich")
_S3 = ("botocore", "s3fs")
STORES = {"s3": _S3, "ceph": _S3, "gcs": ("gcsfs",), "azure": ("adlfs",), "local": ()}
"""What the demo can start, or make, and the packages that each needs beside."""


def run(*, server_url: str | None, engine: str | None, store: str = "s3") -> Report:
    """Run the demo; what it does meanwhile is told on stderr.

    ``server_url``: an S3 endpoint; None for a server of its own. ``engine``: ``spark`` or ``processes``; None
    for Spark where it runs, else processes. ``store``: one of ``STORES``.

    Raises UsageError if something is not installed, or the engine that was asked for does not run here.
    Raises Unavailable if the server did not start.
    """
    if server_url is not None and store != "s3":
        raise UsageError(f"--server is an S3 endpoint, and --store is {store}; leave one of the two out")
    needed = (*_PACKAGES, *STORES[store])
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    if missing:
        names = " ".join(missing)
        raise UsageError(f"the demo needs {names}; pip install {names}, or let tox run -e demo do it")
    from examples.flights.steps import perform
    from proofs.doubles.environments import EnvironmentNotMade
    from proofs.doubles.servers import ServerFailed

    chosen, reason = choose_engine(engine)
    if reason:
        sys.stderr.write(f"magicfs: {reason}\nmagicfs: the demo runs on processes instead of Spark\n")
    try:
        return perform(chosen, reason, server_url, store)
    except EnvironmentNotMade as error:
        raise UsageError(f"the demo's server could not be installed: {error}") from error
    except ServerFailed as error:
        hint = "try again, or give another S3 endpoint with --server URL"
        raise Unavailable("start", "the demo's server", str(error), hint=hint) from error


def choose_engine(asked: str | None) -> tuple[str, str]:
    """The engine to use, and why it is not Spark if nothing else was asked for.

    Raises UsageError if Spark was asked for and does not run here.
    """
    from examples.flights.java import require_java

    if asked == "processes":
        return asked, ""
    try:
        if importlib.util.find_spec("pyspark") is None:
            raise UsageError("pyspark is not installed; pip install 'magicfs[spark]'")
        require_java()
    except UsageError as error:
        if asked == "spark":
            raise
        return "processes", str(error)
    return "spark", ""
