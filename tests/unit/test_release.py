"""A release is ready to be pressed: what its files say of each other, and of the code, is so."""

from __future__ import annotations

import configparser
import hashlib
import pkgutil
import re
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

import magicfs.formats
from magicfs.formats import deletions
from magicfs.formats.job_object import CORE_NEEDS
from magicfs.formats.job_options import ALL_NEEDS
from magicfs.formats.manifest import Manifest
from magicfs.formats.pointer import Pointer
from magicfs.releases.record import RELEASE_FORMAT
from magicfs.version import __version__
from magicfs.watch.operations import FORMAT as OPERATION_FORMAT

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
CHANGELOG_WORDS_MAX = 500


def formats() -> set[str]:
    rooms = [
        import_module(f"magicfs.formats.{one.name}") for one in pkgutil.iter_modules(magicfs.formats.__path__)
    ]
    named = {getattr(value, "FORMAT", "") for room in rooms for value in vars(room).values()}
    guests = {OPERATION_FORMAT, RELEASE_FORMAT}  # that of `classic` is never a file
    return guests | named - {""} | {deletions.DELETIONS_FORMAT}


def table_of_formats() -> dict[str, set[str]]:
    page = (ROOT / "docs" / "versions.md").read_text()
    rows = re.findall(r"^\| `(magicfs\.[a-z-]+/\d+)` \|[^|]*\|([^|]*)\|$", page, re.MULTILINE)
    return {name: set(re.findall(r"`([^`]+)`", requires)) for name, requires in rows}


def test_the_page_of_versions_names_every_format_and_an_example_of_each_is_kept() -> None:
    assert set(table_of_formats()) == formats()
    for name in formats():
        golden = f"{name.replace('.', '_').replace('/', '_')}.json"
        assert (ROOT / "tests" / "golden" / golden).is_file()


def test_the_page_of_versions_names_what_this_version_understands() -> None:
    table = table_of_formats()
    assert table["magicfs.job/1"] == {*CORE_NEEDS, *ALL_NEEDS, "audit"}
    row = next(
        one for one in (ROOT / "docs" / "job-object.md").read_text().splitlines() if "| `requires`" in one
    )
    assert {*re.findall(r"`(\w+)`", row)} - {"requires"} == table["magicfs.job/1"], "docs/job-object.md"
    assert table["magicfs.deletions/1"] == deletions._KNOWN
    for kind in (Manifest, Pointer):
        assert table[kind.FORMAT] == kind.KNOWN


def test_what_a_release_wrote_stays_as_it_is() -> None:
    lines = (ROOT / "tests" / "released-goldens.txt").read_text().splitlines()
    for version, digest, name in (line.split() for line in lines if not line.startswith("#")):
        kept = (ROOT / "tests" / "golden" / name).read_bytes()
        assert hashlib.sha256(kept).hexdigest() == digest, (
            f"{name} is as {version} wrote it; add a file instead"
        )


def test_the_newest_entry_of_the_changelog_is_this_version_and_short() -> None:
    entries = re.split(r"^## ", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)[1:]
    assert entries[0].split()[0] == __version__
    assert len(entries[0].split()) <= CHANGELOG_WORDS_MAX


def test_the_recipe_says_what_the_project_says() -> None:
    recipe = (ROOT / "recipe" / "recipe.yaml").read_text()
    assert f'version: "{__version__}"' in recipe
    assert f"summary: {PROJECT['description']}\n" in recipe
    assert f"magicfs = {PROJECT['scripts']['magicfs']}" in recipe
    run = recipe.split("  run:\n")[1].split("\n\n")[0]
    assert re.findall(r"- (\S+ >=[\d.]+)$", run, re.MULTILINE) == [
        one.replace(">=", " >=") for one in PROJECT["dependencies"]
    ]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_pins_what_it_uses_and_may_do_nothing_that_it_does_not_say(workflow: Path) -> None:
    text = workflow.read_text()
    used = re.findall(r"uses: (.*)$", text, re.MULTILINE)
    assert [one for one in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", one)] == []
    assert "\npermissions: {}\n" in text
    assert text.count("timeout-minutes:") == text.count("runs-on:") == text.count("    permissions:\n")


def test_one_action_has_one_version() -> None:
    used = {
        one for path in WORKFLOWS for one in re.findall(r"uses: ([\w-]+/[\w-]+)\S*@(\w+)", path.read_text())
    }
    assert len(used) == len({name for name, _ in used})


def test_workflows_run_environments_that_tox_has() -> None:
    environments = set(re.findall(r"^\[testenv:([^\]]+)\]", (ROOT / "tox.ini").read_text(), re.MULTILINE))
    environments |= {"py311", "py312", "py313", "py314"}
    for workflow in WORKFLOWS:
        text = workflow.read_text()
        named = set(re.findall(r"environment: ([\w-]+)$", text, re.MULTILINE)) - {"pypi", "testpypi"}
        named |= set(re.findall(r"tox run -e ([\w-]+)", text))
        assert named <= environments


@pytest.mark.parametrize(
    ("lock", "environments"),
    [
        ("ci", "lint types imports docs"),
        ("tools", "dist sbom public-types workflows site"),
    ],
)
def test_what_tox_installs_in_ci_is_pinned(lock: str, environments: str) -> None:
    tox = configparser.ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini")
    pinned = set(
        re.findall(r"^([a-z0-9-]+)==", (ROOT / "requirements" / f"{lock}.txt").read_text(), re.MULTILINE)
    )
    for environment in environments.split():
        made = tox[f"testenv:{environment}"]
        wanted = re.findall(r"^([\w-]+)", made["deps"], re.MULTILINE)
        for extra in re.findall(r"[\w-]+", made.get("extras", "")):
            wanted += [re.split(r"[\[>=]", one)[0] for one in PROJECT["optional-dependencies"][extra]]
        missing = {name.lower() for name in wanted} - pinned
        assert not missing, f"add {missing} to requirements/tools.in, and run: tox run -e constraints"
    needed = PROJECT["optional-dependencies"]["test"][1:] if lock == "ci" else PROJECT["dependencies"]
    assert {re.split(r"[\[>=]", one)[0] for one in needed} <= pinned
