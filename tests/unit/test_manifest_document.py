"""What the page on the manifest committer says is so."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

from magicfs.committers.registry import ManifestOptions
from proofs.scenes.manifest_scene import ManifestScene

PAGE = (Path(__file__).parents[2] / "docs" / "manifest-committer.md").read_text()


def rows(heading: str) -> list[list[str]]:
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    table = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table[2:]]


def test_every_option_is_there_with_its_default() -> None:
    shown = {row[0].strip("`"): row[1].strip("`") for row in rows("Options")}
    assert shown == {one.name: repr(one.default).replace("'", '"') for one in fields(ManifestOptions)}


def test_every_option_is_described_in_its_docstring() -> None:
    described = set(re.findall(r"^\s+(\w+): ", ManifestOptions.__doc__ or "", flags=re.MULTILINE))
    assert {one.name for one in fields(ManifestOptions)} <= described


def test_the_example_runs(tmp_path: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    prelude = "import magicfs, pyarrow, pyarrow.dataset\ntable = pyarrow.table({'a': [1]})\n"
    exec(prelude + code.replace("/data/sales", str(tmp_path / "sales")), {})
    assert (tmp_path / "sales" / "_SUCCESS").exists()


def test_the_names_of_directories_and_manifests_are_those_of_the_page(tmp_path: Path) -> None:
    scene = ManifestScene(tmp_path)
    scene.set_up()
    scene.commit_task(0, {"a": b""})
    work = f"_temporary/{scene.job}/00/manifests"
    assert (scene.destination / work).is_dir()
    assert "`DEST/_temporary/<job>/<NN>/manifests`" in PAGE
    assert [one.name for one in (scene.destination / work).iterdir()] == ["attempt-000000-0-manifest.json"]
    assert "`manifests/<task attempt>-manifest.json`" in PAGE
