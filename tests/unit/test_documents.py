"""What the documents say runs."""

from __future__ import annotations

import configparser
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from magicfs.cli.main import commands_of
from magicfs.formats.limits import MANIFEST_SIZE_LIMIT
from magicfs.formats.pointer import RUNS_KEPT
from magicfs.past.log_growth import JOBS_IN_PART, LAST_KEPT, PARTS_IN_PART
from magicfs.stores.register import KEPT

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
DOCUMENTS = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
SPARK = "from pyspark"


PAGES = ("README.md", "docs/checking.md", "docs/demo.md", "docs/filesystem.md", "docs/quickstart.md")


def blocks(language: str, page: str = "README.md") -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL)


def test_the_readme_has_at_most_900_words() -> None:
    assert len(README.split()) <= 900


def test_first_examples_have_ten_lines() -> None:
    codes = [*blocks("python"), *blocks("python", "docs/quickstart.md")]
    for code, call in zip(codes, ("Dataset(url).rollback", "magicfs.write", "magicfs.Job"), strict=True):
        assert len(code.strip().splitlines()) <= 11
        assert call in code


@pytest.mark.process
@pytest.mark.parametrize(
    "code", [code for page in PAGES for code in blocks("python", page) if SPARK not in code]
)
def test_python_of_the_first_pages_runs_as_it_stands(code: str) -> None:
    shown = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False
    )
    assert shown.returncode == 0, shown.stderr


@pytest.mark.process
@pytest.mark.parametrize(("number", "expected"), [(0, "4 2"), (1, "16 8")])
def test_the_first_examples_publish_every_row_twice_when_run_twice(number: int, expected: str) -> None:
    code = blocks("python", "docs/quickstart.md")[number]
    # From buffers, and only the footers: when Arrow's threads still hold a Python file as the interpreter
    # exits, CPython before 3.14 ends them under C++'s feet and the process aborts.
    check = """
import pyarrow as pa
import pyarrow.parquet as pq
import magicfs.stores.memory.filesystem as memory
store = memory.MemoryFileSystem()
files = (job.report if "job" in globals() else report).files
found = [store.cat_file(path) for path in store.find("bucket/sales") if path.endswith(".parquet")]
print(sum(pq.ParquetFile(pa.BufferReader(body)).metadata.num_rows for body in found), files)
"""
    shown = subprocess.run(
        [sys.executable, "-c", code + code + check], capture_output=True, text=True, check=True
    )
    assert shown.stdout.splitlines()[-1] == expected


def test_ci_runs_the_commands_of_the_readme() -> None:
    ran = [line.strip() for line in (ROOT / ".ci" / "run").read_text().splitlines()]
    promised = [part.strip() for line in "\n".join(blocks("sh")).splitlines() for part in line.split("&&")]
    for command in ("pip install tox", "tox run -e demo"):
        assert command in promised
        assert command in ran
    assert "`tox run`" in README
    assert "tox run" in ran


def test_tox_knows_every_environment_that_the_documents_name() -> None:
    tox = configparser.ConfigParser()
    tox.read(ROOT / "tox.ini")
    named = {
        name for path in DOCUMENTS for name in re.findall(r"tox run (?:-qq )?-e ([\w-]+)", path.read_text())
    }
    assert named
    assert named <= {section.removeprefix("testenv:") for section in tox.sections()}


def test_links_between_the_documents_lead_somewhere() -> None:
    for path in DOCUMENTS:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", path.read_text()):
            assert (path.parent / target).exists(), f"{path.name} links to {target}"


def test_the_page_about_manifests_names_every_field_and_no_other() -> None:
    page = (ROOT / "docs" / "manifests.md").read_text()
    for name in ("manifest", "pointer"):
        written = json.loads((ROOT / "tests" / "golden" / f"magicfs_{name}_1.json").read_bytes())
        expected = {*written, *(f"files[].{field}" for field in (written.get("files") or [{}])[0])}
        section = page.partition(f"`magicfs.{name}/1`")[2].partition("\n## ")[0]
        assert set(re.findall(r"^\| `([^`]+)` \|", section, flags=re.MULTILINE)) == expected


def test_the_page_about_manifests_names_every_field_of_one_in_parts() -> None:
    golden = ROOT / "tests" / "golden"
    written, before = (
        json.loads((golden / f"magicfs_manifest_{version}.json").read_bytes()) for version in ("1_parts", "1")
    )
    section = (ROOT / "docs" / "manifests.md").read_text().partition("## A manifest in parts")[2]
    section = section.partition("\n## ")[0]
    named = set(re.findall(r"^\| `([^`]+)` \|", section, flags=re.MULTILINE))
    assert named == {"requires", *(f"parts[].{field}" for field in written["parts"][0])}
    assert set(written) - {"parts", "requires"} == set(before) - {"files"}
    assert set(json.loads((golden / "magicfs_manifest-files_1.json").read_bytes())) == {
        "format",
        "jobId",
        "files",
    }


def test_the_page_about_manifests_names_every_field_of_a_log() -> None:
    written = json.loads((ROOT / "tests" / "golden" / "magicfs_log_1.json").read_bytes())
    expected = set(written)
    for name in ("parts", "publications", "names"):
        expected |= {f"{name}[].{field}" for one in written[name] for field in one}
    section = (
        (ROOT / "docs" / "manifests.md").read_text().partition("`magicfs.log/1`")[2].partition("\n## ")[0]
    )
    assert set(re.findall(r"^\| `([^`]+)` \|", section, flags=re.MULTILINE)) == expected
    for name in ("log-part", "log-names"):
        for field in json.loads((ROOT / "tests" / "golden" / f"magicfs_{name}_1.json").read_bytes()):
            assert f"`{field}`" in section, (name, field)


def test_the_page_about_manifests_tells_how_large_a_log_is() -> None:
    page = (ROOT / "docs" / "manifests.md").read_text()
    assert (JOBS_IN_PART, LAST_KEPT, PARTS_IN_PART) == (100, 50, 8)
    assert f"The last {LAST_KEPT} to {LAST_KEPT + JOBS_IN_PART - 1} publications stand" in page
    assert f"{2 * PARTS_IN_PART} parts of a level, the oldest {PARTS_IN_PART} become" in page


def test_the_page_about_manifests_tells_the_limits() -> None:
    page = (ROOT / "docs" / "manifests.md").read_text()
    assert f"last {RUNS_KEPT:,} published" in page
    assert f"beyond {MANIFEST_SIZE_LIMIT // 2**20} MiB" in page
    assert f"the last {KEPT} are" in page


def test_every_page_is_in_the_navigation_and_every_design_note_on_its_page() -> None:
    docs = ROOT / "docs"
    navigation = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    notes = (docs / "design" / "index.md").read_text()
    for page in docs.rglob("*.md"):
        if page.parent.name != "design":
            assert re.search(
                rf"[ :]{re.escape(page.relative_to(docs).as_posix())}$", navigation, flags=re.MULTILINE
            )
        elif page.name != "index.md":
            assert f"]({page.name})" in notes


@pytest.mark.slow
def test_the_page_about_commands_names_every_command() -> None:
    page = (ROOT / "docs" / "commands.md").read_text()
    named = re.findall(r"^\| `(?:eval \"\$\()?magicfs ([a-z]+)", page, flags=re.MULTILINE)
    assert set(named) == set(commands_of())


@pytest.mark.slow
def test_errors_of_the_page_about_troubles_are_really_said() -> None:
    docs = ROOT / "docs"
    said = [path.read_text() for path in (ROOT / "src").rglob("*.py")]
    text = re.sub(r'"\s*\n\s*f?"', "", "\n".join([*said, (docs / "mistakes.md").read_text()]))
    cells = re.findall(r"^\| (`[^|]*`) \|", (docs / "troubleshooting.md").read_text(), flags=re.MULTILINE)
    quoted = [
        part.strip(" …")
        for cell in cells
        for one in re.findall(r"`(.*?)`", cell)
        for part in one.split(" … ")
    ]
    assert len(quoted) > 25
    assert [one for one in quoted if one not in text] == []
