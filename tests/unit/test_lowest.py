"""The versions that "tox run -e lowest" tests are the floors of pyproject.toml, and no others."""

from __future__ import annotations

import os
import tomllib
from importlib.metadata import version
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[2]
LOWEST = {
    Requirement(line).name: Version(next(iter(Requirement(line).specifier)).version)
    for line in (ROOT / "tests" / "lowest.txt").read_text().splitlines()
    if not line.startswith("#")
}


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]


def required(lines: list[str]) -> set[str]:
    """The names of what is asked for, also by way of the package's own extras."""
    asked = list(map(Requirement, lines))
    own = [line for one in asked if one.name == "magicfs" for extra in one.extras for line in EXTRAS[extra]]
    return {one.name for one in asked} - {"magicfs"} | (required(own) if own else set())


def floors() -> dict[str, set[Version]]:
    """The versions at which the requirements of the package and of its tests begin, by name."""
    tested = [lines for name, lines in EXTRAS.items() if name not in {"docs", "ducklake"}]
    asked = [*PROJECT["dependencies"], *(line for lines in tested for line in lines)]
    found: dict[str, set[Version]] = {}
    for requirement in map(Requirement, asked):
        if requirement.name != "magicfs":
            [bound] = requirement.specifier
            assert bound.operator in (">=", "=="), requirement
            found.setdefault(requirement.name, set()).add(Version(bound.version))
    return found


def test_lowest_txt_names_the_floor_of_every_requirement() -> None:
    theirs = {"aiobotocore": {Version("2.19")}}
    assert {name: {floor} for name, floor in LOWEST.items()} == floors() | theirs


def test_tox_run_e_lowest_has_the_lowest_versions() -> None:
    if os.environ.get("TOX_ENV_NAME") == "lowest":
        installed = {*required([*PROJECT["dependencies"], *EXTRAS["test"]]), "aiobotocore"}
        assert {name: Version(version(name)) for name in installed} == {
            name: LOWEST[name] for name in installed
        }
