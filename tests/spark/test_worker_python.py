"""Another Python that comes first for Spark's workers is told in one line, before a task runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from magicfs.errors import UsageError
from magicfs.spark.worker_python import check_worker_python

# Without what a virtual environment installs, and isolated from PYTHONPATH.
_BARE = f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n'
_SESSION = """
import sys
from pyspark.sql import SparkSession

import magicfs.spark

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
magicfs.spark.write(spark.range(3), sys.argv[1])
"""


def context(python: str | Path, master: str = "local[2]", files: tuple[str, ...] = ()) -> Any:
    return SimpleNamespace(master=master, pythonExec=str(python), environment={}, _python_includes=files)


@pytest.fixture
def script(tmp_path: Path) -> Any:
    def make(text: str, name: str = "python3") -> Path:
        path = tmp_path / "bin of others" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
        return path

    return make


def told(found: Any) -> str:
    with pytest.raises(UsageError) as caught:
        check_worker_python(found)
    return str(caught.value)


def test_this_python_is_right_by_each_of_its_names() -> None:
    for name in Path(sys.executable).parent.glob("python*"):
        if os.access(name, os.X_OK) and name.samefile(sys.executable):
            check_worker_python(context(name))


def test_a_python_without_magicfs_is_named_with_the_line_that_mends_it(script: Any) -> None:
    path = script(_BARE)
    text = told(context(path))
    assert f"run {path}, where magicfs is not installed; " in text
    assert "nothing was changed; set os.environ['PYSPARK_PYTHON'] = sys.executable before" in text


def test_a_python_that_gets_magicfs_as_a_file_of_the_session_is_left_to_spark(script: Any) -> None:
    check_worker_python(context(script(_BARE), files=("magicfs.zip",)))


def test_a_python_of_another_version_is_named_with_both_versions(script: Any) -> None:
    path = script("#!/bin/sh\necho 3 8 1\n")
    this = ".".join(map(str, sys.version_info[:2]))
    assert f"run {path}, which is Python 3.8, and this is Python {this};" in told(context(path))


def test_a_python_that_is_not_there_is_named() -> None:
    assert "should run 'python of nobody', which does not exist; nothing was changed; set" in told(
        context("python of nobody")
    )


@pytest.mark.parametrize("text", ["#!/bin/sh\nexit 3\n", "#!/bin/sh\necho hello\n", "no script"])
def test_what_does_not_answer_is_left_to_spark(text: str, script: Any) -> None:
    check_worker_python(context(script(text)))


@pytest.mark.parametrize("master", ["spark://h:7077", "yarn", "k8s://https://h"])
def test_workers_elsewhere_are_not_judged_by_this_machine(master: str) -> None:
    check_worker_python(context("python of nobody", master=master))


@pytest.mark.nightly
def test_a_session_without_the_variable_is_told_on_one_screen(script: Any, tmp_path: Path) -> None:
    path = script(_BARE)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_")}
    environment["PATH"] = f"{path.parent}:{environment['PATH']}"
    url = tmp_path / "sales"
    done = subprocess.run(
        [sys.executable, "-c", _SESSION, str(url)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    trace = done.stderr[done.stderr.index("Traceback") :].splitlines()
    assert done.returncode == 1
    assert len(trace) < 40
    assert trace[-1].startswith(
        f"magicfs.errors.UsageError: Spark's workers run {path}, where magicfs is not"
    )
    assert not url.exists()
