"""The Python that Spark's workers on this machine run, looked at before a task meets it.

Spark runs ``python3`` of the ``PATH`` unless ``PYSPARK_PYTHON`` names one. If that is not the driver's, each
task fails with a traceback in two languages.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from magicfs.errors import UsageError

if TYPE_CHECKING:
    from pyspark import SparkContext

_SECONDS: Final = 30
_LOOK: Final = (
    "import sys, importlib.util as i; print(*sys.version_info[:2], int(i.find_spec('magicfs') is not None))"
)
_MEND: Final = (
    "nothing was changed; set os.environ['PYSPARK_PYTHON'] = sys.executable before you create the session, "
    "or set that variable where you start Spark"
)


def check_worker_python(context: SparkContext) -> None:
    """Raise UsageError if workers of a Spark in this process would run a Python that cannot run our tasks.

    Workers of a cluster are on other machines, of which this one knows nothing.
    """
    if not context.master.startswith("local"):
        return
    named = context.pythonExec
    path = shutil.which(named)
    if path is None:
        raise UsageError(f"Spark's workers should run {named!r}, which does not exist; {_MEND}")
    if _is_this(Path(path)):
        return
    found = _looked_at(path, context.environment.get("PYTHONPATH") or os.environ.get("PYTHONPATH", ""))
    if found is None:
        return  # only Spark knows which it is
    major, minor, has_magicfs = found
    if (major, minor) != sys.version_info[:2]:
        this = ".".join(map(str, sys.version_info[:2]))
        raise UsageError(
            f"Spark's workers run {path}, which is Python {major}.{minor}, and this is Python {this}; {_MEND}"
        )
    if not has_magicfs and not context._python_includes:  # noqa: SLF001 - addPyFile's
        raise UsageError(f"Spark's workers run {path}, where magicfs is not installed; {_MEND}")


def _is_this(path: Path) -> bool:
    # Not what a link leads to: that of a virtual environment leads to a Python with other packages.
    this = Path(sys.executable)
    return path.parent.absolute() == this.parent.absolute() and path.samefile(this)


@lru_cache(maxsize=16)
def _looked_at(path: str, python_path: str) -> tuple[int, int, bool] | None:
    """The version of a Python, and whether it finds magicfs; None if it does not say."""
    try:
        done = subprocess.run(  # noqa: S603 - what Spark runs
            [path, "-c", _LOOK],
            env={**os.environ, "PYTHONPATH": python_path},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_SECONDS,
            check=True,
            text=True,
        )
        major, minor, has_magicfs = map(int, done.stdout.split())
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return major, minor, bool(has_magicfs)
