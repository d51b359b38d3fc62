"""fsspec's abstract suites, on ordinary paths and inside a task.

What passes through behaves as in the wrapped filesystem: excused are exactly the tests that it fails by
itself. Patterns and trees are resolved here, by fsspec, so that some failures of adlfs do not show. Inside a
task everything behaves as on a store that shows a task its own writes: it reads back what is in hand.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from fsspec.tests.abstract.common import GLOB_EDGE_CASES_TESTS

from proofs.doubles.azurite import Azurite
from proofs.doubles.gcs_server import GcsDouble
from proofs.doubles.servers import Server

SUITES = Path(__file__).parent / "fsspec_suites" / "suites.py"
IN_TASK = SUITES.with_name("in_task.py")
SUITE_NAMES = {"TestCopy", "TestGet", "TestPut", "TestPipe", "TestOpen"}

Outcomes = dict[str, tuple[str, str]]
"""How each test ended, and what it said, by its class and name."""


def outcomes(directory: Path, suites: Path, **environment: str) -> Outcomes:
    """Run suites in a pytest of their own."""
    report = directory / "report.xml"
    command = f"-m pytest -q -c {os.devnull} -p no:cacheprovider -p no:randomly --rootdir".split()
    shown = subprocess.run(
        [sys.executable, *command, str(suites.parent), f"--junitxml={report}", str(suites)],
        env={**os.environ, **{f"SUITE_{name.upper()}": value for name, value in environment.items()}},
        capture_output=True,
        text=True,
        check=False,
    )
    assert report.exists(), shown.stdout + shown.stderr
    found = {}
    for case in ET.parse(report).iter("testcase"):
        bad = [child for child in case if child.tag in {"failure", "error", "skipped"}]
        name = f"{str(case.get('classname')).rpartition('.')[2]}.{case.get('name')}"
        found[name] = (bad[0].tag, bad[0].get("message", "")) if bad else ("passed", "")
    report.unlink()
    return found


def compare(directory: Path, protocol: str, options: dict[str, Any], bucket: str) -> None:
    wrapped, magic = (
        {
            name: ended
            for name, (ended, _) in outcomes(
                directory, SUITES, layer=layer, protocol=protocol, options=json.dumps(options), bucket=bucket
            ).items()
        }
        for layer in ("wrapped", "magic")
    )
    assert {name.partition(".")[0] for name in magic} == SUITE_NAMES
    assert list(magic.values()).count("passed") > 50
    assert magic.keys() == wrapped.keys()
    assert {name: ended for name, ended in magic.items() if ended not in ("passed", wrapped[name])} == {}


@pytest.mark.nightly
@pytest.mark.timeout(400)
@pytest.mark.parametrize("where", ["memory", "files"])
def test_suites_on(where: str, tmp_path: Path) -> None:
    if where == "memory":
        compare(tmp_path, "memory", {}, "bucket")
    else:
        compare(tmp_path, "file", {"auto_mkdir": True}, f"{tmp_path}/bucket")


@pytest.mark.nightly
@pytest.mark.timeout(400)
def test_suites_on_s3(tmp_path: Path, ministack: Server, bucket_factory: Any) -> None:
    compare(tmp_path, "s3", ministack.storage_options(), bucket_factory(ministack))


@pytest.mark.nightly
@pytest.mark.timeout(400)
def test_suites_on_gcs(tmp_path: Path, gcs: GcsDouble, bucket_factory: Any) -> None:
    compare(tmp_path, "gs", gcs.storage_options(), bucket_factory(gcs))


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_suites_on_azurite(tmp_path: Path, azurite: Azurite, bucket_factory: Any) -> None:
    compare(tmp_path, "abfs", azurite.storage_options(), bucket_factory(azurite))


# -- inside a task -------------------------------------------------------------------------------------------

NO_MAXDEPTH = ("copies from an ordinary path, where adlfs's find knows no maxdepth", "AssertionError")
DEEPER = r"(\*-True-2|\*1-True-2|\*\*-True-1|\*\*-False-2|\*\*/\*1-True-[12]|subdir\[1-2\]-True-2)"
ON_ADLFS: dict[str, tuple[str, str]] = {
    r"TestCopyInto\.test_copy_(directory|glob)_to_(existing|new)_directory": NO_MAXDEPTH,
    rf"TestCopyInto\.test_copy_glob_edge_cases\[{DEEPER}-expected\d+\]": NO_MAXDEPTH,
}
"""Tests that must fail in a task on adlfs, why, and how: what adlfs fails by itself, too."""

NOTHING_FOUND = {
    f"test_{verb}_glob_edge_cases[{path}-{recursive}-{maxdepth}-expected{number}]"
    for number, (path, recursive, maxdepth, expected) in enumerate(GLOB_EDGE_CASES_TESTS["argvalues"])
    for verb in ("copy", "get")
    if not expected
}
"""Patterns that match no file: nothing is read, nothing refused."""


def check_in_task(
    directory: Path,
    tracking: str,
    url: str,
    options: dict[str, Any],
    exceptions: Mapping[str, tuple[str, str]] = MappingProxyType({}),
) -> None:
    found = outcomes(directory, IN_TASK, tracking=tracking, url=url, options=json.dumps(options))
    assert list(found.values()).count(("passed", "")) > 80
    wrong = {}
    for name, (ended, said) in found.items():
        excused = [error for test, (_, error) in exceptions.items() if re.fullmatch(test, name)]
        if not excused or name.partition(".")[2] in NOTHING_FOUND:
            right = ended == "passed"
        else:
            right = ended == "failure" and re.search(excused[0], said) is not None
        if not right:
            wrong[name] = (ended, said)
    assert wrong == {}


def test_each_exception_is_needed_and_named() -> None:
    assert len(ON_ADLFS) == 2
    assert all(why and error for why, error in ON_ADLFS.values())
    assert len(NOTHING_FOUND) == 8


@pytest.mark.sample(most=1)
@pytest.mark.timeout(400)
@pytest.mark.parametrize("tracking", ["memory", "store"])
@pytest.mark.parametrize("where", ["memory", "files"])
def test_suites_in_a_task_on(tmp_path: Path, where: str, tracking: str) -> None:
    url = {"memory": "memory://bucket/sales", "files": f"file://{tmp_path}/sales of 50%+#"}[where]
    check_in_task(tmp_path, tracking, url, {})


@pytest.mark.nightly
@pytest.mark.timeout(400)
@pytest.mark.parametrize("tracking", ["memory", "store"])
def test_suites_in_a_task_on_s3(
    tmp_path: Path, ministack: Server, bucket_factory: Any, tracking: str
) -> None:
    url = f"s3://{bucket_factory(ministack)}/sales"
    check_in_task(tmp_path, tracking, url, ministack.storage_options())


@pytest.mark.nightly
@pytest.mark.timeout(400)
@pytest.mark.parametrize("tracking", ["memory", "store"])
def test_suites_in_a_task_on_gcs(tmp_path: Path, gcs: GcsDouble, bucket_factory: Any, tracking: str) -> None:
    check_in_task(tmp_path, tracking, f"gs://{bucket_factory(gcs)}/sales", gcs.storage_options())


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.parametrize("tracking", ["memory", "store"])
def test_suites_in_a_task_on_azurite(
    tmp_path: Path, azurite: Azurite, bucket_factory: Any, tracking: str
) -> None:
    url = f"abfs://{bucket_factory(azurite)}/sales"
    check_in_task(tmp_path, tracking, url, azurite.storage_options(), ON_ADLFS)
