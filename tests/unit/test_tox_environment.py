"""What tox lets through to the tests."""

from __future__ import annotations

import ast
import configparser
import os
import re
import sys
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.unit.conftest import refuse_slow

TOX = configparser.ConfigParser(interpolation=None)
ROOT = Path(__file__).parents[2]
TOX.read(ROOT / "tox.ini")


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


@pytest.mark.slow
def test_each_environment_installs_what_its_program_imports() -> None:
    """At the top of its modules, and of those that they import; what is imported later is not seen."""
    projects = packages_distributions()
    known = {*sys.stdlib_module_names, "magicfs", *(one.name for one in ROOT.iterdir())}
    lacking: dict[str, set[str]] = {}
    for section in TOX.sections():
        for program in re.findall(r"python (?:-W ignore )?-m (\w[\w.]+)", TOX[section].get("commands", "")):
            needed = imports_of(path) - known if (path := source_of(program)) else set()
            there = closure(requirements_of(section)) if needed else set()
            if found := {one for one in needed if there.isdisjoint(map(canonical, projects.get(one, [one])))}:
                lacking[section] = found
    assert not lacking, "add them to deps"


def requirements_of(section: str) -> list[Requirement]:
    """What an environment asks for, as tox reads it."""
    given = [TOX[section].get(name, TOX["testenv"].get(name, "")) for name in ("extras", "deps")]
    while any("{[" in one for one in given):
        given = [re.sub(r"\{\[(.+?)\](\w+)\}", lambda at: TOX[at[1]][at[2]], one) for one in given]
    extras = [Requirement(f"magicfs[{name}]") for name in given[0].split()]
    lines = (line.strip() for line in given[1].splitlines())
    return [*extras, *(Requirement(line) for line in lines if line and not line.startswith("#"))]


def closure(asked: list[Requirement]) -> set[str]:
    """The names of all projects that are installed with these, as far as they are installed here."""
    found: dict[tuple[str, str], Requirement] = {}
    waiting = [Requirement("magicfs"), *asked]
    while waiting:
        one = waiting.pop()
        for extra in ("", *one.extras):
            if (canonical(one.name), extra) in found:
                continue
            found[canonical(one.name), extra] = one
            with suppress(PackageNotFoundError):
                listed = map(Requirement, requires(one.name) or [])
                waiting += [
                    that for that in listed if not that.marker or that.marker.evaluate({"extra": extra})
                ]
    return {name for name, _ in found}


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def source_of(module: str) -> Path | None:
    """The file that a module of ours is in; None for another."""
    root = ROOT / "src" if module.partition(".")[0] == "magicfs" else ROOT
    places = [
        root.joinpath(*module.split(".")).with_suffix(".py"),
        root.joinpath(*module.split("."), "__main__.py"),
    ]
    return next((one for one in places if one.exists()), None)


def imports_of(path: Path) -> set[str]:
    """The top-level names that a file imports as it starts, and the files of ours that those are in."""
    seen: set[Path] = set()
    names: set[str] = set()
    waiting = [path]
    while waiting:
        one = waiting.pop()
        if one in seen:
            continue
        seen.add(one)
        for module in starts_with(one):
            names.add(module.partition(".")[0])
            parts = module.split(".")
            for end in range(1, len(parts) + 1):
                root = ROOT / "src" if parts[0] == "magicfs" else ROOT
                here = root.joinpath(*parts[:end])
                waiting += [at for at in (here / "__init__.py", here.with_suffix(".py")) if at.exists()]
    return names


@cache
def starts_with(path: Path) -> list[str]:
    """The modules, and names in modules, that a file imports before anything is called."""
    found: list[str] = []
    waiting: list[ast.AST] = [*ast.parse(path.read_text()).body]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            found += [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += [f"{node.module}.{one.name}" for one in node.names]
        elif isinstance(node, ast.ClassDef | ast.Try | ast.With):
            waiting += node.body
    return found
