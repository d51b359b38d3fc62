"""fsspec's abstract suites on ordinary paths: what passes through behaves as in the wrapped filesystem.

Excused are exactly the tests that the wrapped filesystem fails by itself.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from magicfs.testing.servers import Server

SUITES = Path(__file__).parent / "fsspec_suites" / "suites.py"
SUITE_NAMES = {"TestCopy", "TestGet", "TestPut", "TestPipe", "TestOpen"}


def outcomes(
    directory: Path, layer: str, protocol: str, options: dict[str, Any], bucket: str
) -> dict[str, str]:
    """Run the suites in a pytest of their own; how each test ended."""
    report = directory / f"{layer}.xml"
    environment = {
        **os.environ,
        "SUITE_LAYER": layer,
        "SUITE_PROTOCOL": protocol,
        "SUITE_OPTIONS": json.dumps(options),
        "SUITE_BUCKET": bucket,
    }
    command = f"-m pytest -q -c {os.devnull} -p no:cacheprovider --rootdir".split()
    shown = subprocess.run(
        [sys.executable, *command, str(SUITES.parent), f"--junitxml={report}", str(SUITES)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert report.exists(), shown.stdout + shown.stderr
    found = {}
    for case in ET.parse(report).iter("testcase"):
        ended = next((child.tag for child in case if child.tag in {"failure", "error", "skipped"}), "passed")
        found[f"{case.get('classname')}.{case.get('name')}"] = ended
    return found


def compare(directory: Path, protocol: str, options: dict[str, Any], bucket: str) -> None:
    wrapped = outcomes(directory, "wrapped", protocol, options, bucket)
    magic = outcomes(directory, "magic", protocol, options, bucket)
    assert {name.split(".")[-2] for name in magic} == SUITE_NAMES
    assert list(magic.values()).count("passed") > 50
    assert magic.keys() == wrapped.keys()
    assert {name: ended for name, ended in magic.items() if ended != wrapped[name]} == {}


@pytest.mark.timeout(400)
def test_suites_on_memory(tmp_path: Path) -> None:
    compare(tmp_path, "memory", {}, "bucket")


@pytest.mark.long
@pytest.mark.timeout(400)
def test_suites_on_s3(tmp_path: Path, ministack: Server, bucket_factory: Any) -> None:
    compare(tmp_path, "s3", ministack.storage_options(), bucket_factory(ministack))
