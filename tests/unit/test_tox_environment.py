"""What tox lets through to the tests."""

from __future__ import annotations

import configparser
import os
import re
from pathlib import Path

import pytest

from tests.unit.conftest import refuse_slow

TOX = configparser.ConfigParser(interpolation=None)
TOX.read(Path(__file__).parents[2] / "tox.ini")


def test_ci_arrives_as_it_is_outside() -> None:
    assert os.environ.get("CI", "") == os.environ.get("MAGICFS_CI_OUTSIDE", os.environ.get("CI", ""))


def test_java_home_and_npm_pass_and_credentials_never_do() -> None:
    passed = {
        section: TOX[section]["pass_env"].split() for section in TOX.sections() if "pass_env" in TOX[section]
    }
    assert passed == {"testenv": ["CI", "JAVA_HOME", "npm_config_*"]}
    if "TOX_ENV_NAME" in os.environ:
        assert not [name for name in os.environ if name.startswith("AWS_")]


def test_a_plain_run_is_lint_types_imports_docs_and_tests() -> None:
    assert TOX["tox"]["env_list"] == "lint, types, imports, docs, tests"


def test_the_documents_are_built_strictly() -> None:
    docs = TOX["testenv:docs"]
    assert docs["commands"].startswith("mkdocs build --strict --site-dir"), "--quiet would hide warnings"
    assert (docs["package"], docs["extras"], docs["deps"]) == ("editable", "docs", "")


def test_the_fast_lane_leaves_out_what_is_slow_and_installs_no_spark() -> None:
    quick = TOX["testenv:quick"]
    assert '-m "not nightly and not process and not slow"' in quick["commands"]
    assert not {"spark", "test"} & set(quick["extras"].split())


def test_a_quick_run_fails_for_a_slow_test_without_its_mark() -> None:
    markers = re.findall(r'-m "([^"]+)"', TOX["testenv:quick"]["commands"])[0]
    with pytest.raises(AssertionError, match=r"this test took 9.0 s of the processor; mark it"):
        refuse_slow(9.0, markers)
    refuse_slow(0.5, markers)
    refuse_slow(9.0, "not nightly")


def test_the_night_runs_what_the_gate_leaves_out_and_exams_run_everything() -> None:
    gate = TOX["testenv"]["commands"]
    assert TOX["pytest"]["addopts"].startswith('-m "not nightly" --randomly-seed=1 '), "always the same"
    assert "PYTHONHASHSEED = 0" in TOX["testenv"]["set_env"].splitlines()
    assert TOX["testenv:nightly"]["commands"] == gate.replace(" {posargs}", " -m nightly {posargs}")
    assert TOX["testenv:exams"]["commands"] == gate.replace(" {posargs}", ' -m "" tests/exam {posargs}')


def test_coverage_is_measured_over_the_gate() -> None:
    measured = TOX["testenv:coverage"]["commands"].strip().splitlines()[0]
    assert measured.removeprefix("coverage run -m ") == TOX["testenv"]["commands"]
