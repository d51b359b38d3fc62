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


def floors() -> dict[str, set[Version]]:
    """The versions at which the requirements of the package and of its tests begin, by name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    tested = [lines for name, lines in extras.items() if name not in {"docs", "ducklake"}]
    asked = [*project["dependencies"], *(line for lines in tested for line in lines)]
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
        assert {name: Version(version(name)) for name in LOWEST} == LOWEST
