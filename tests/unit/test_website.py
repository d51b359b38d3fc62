"""What the site has beyond its pages, and what its check finds."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

from magicfs.cli.main import commands_of
from magicfs.protocol.job_state import JobState
from tests.job_states import diagram
from website import check, hooks
from website.searches import SEARCHES, asking, lost

ROOT = Path(__file__).parents[2]


def shown(source: str, markdown: str) -> tuple[str, dict[str, object]]:
    page = SimpleNamespace(file=SimpleNamespace(src_uri=source), meta={})
    return hooks.on_page_markdown(markdown, page), page.meta


@pytest.mark.slow
def test_the_page_about_commands_has_every_argument() -> None:
    text, _ = shown("commands.md", (ROOT / "docs" / "commands.md").read_text())
    for name, parser in commands_of().items():
        section = text.partition(f"\n### {name}\n")[2].partition("\n### ")[0]
        options = re.findall(r"--[a-z][a-z-]+", parser.format_usage())
        assert all(f"`{option}" in section or f", {option}" in section for option in options), name


def test_the_diagram_of_states_is_drawn() -> None:
    text, _ = shown("recovery.md", f"```mermaid\n{diagram()}\n```")
    assert text.startswith("<svg ")
    assert set(re.findall(r">(\w+)(?: ↻)?</text>", text)) == {state.value for state in JobState}
    ways = {way for way in re.findall(r"(\w+) --> (\w+)", diagram()) if way[0] != way[1]}
    assert text.count("marker-end") == len(ways)


def test_drawings_take_the_color_of_the_page() -> None:
    text, _ = shown("manifests.md", "![Chain.](manifests.svg)\n\n![Overwrites.](overwrite.svg)")
    drawing, image = text.split("\n\n")
    assert drawing.startswith("<div><svg ")
    assert "<style>" not in drawing
    assert image == "![Overwrites.](overwrite.svg)"


def test_pages_about_how_it_works_have_a_drawing() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text().partition("  - Understand:\n")[2].partition("  - Ref")[0]
    pages = re.findall(r": ([\w-]+)\.md$", navigation, flags=re.MULTILINE)
    assert "promises" in pages
    for name in pages:
        assert f"]({name}.svg)\n" in (ROOT / "docs" / f"{name}.md").read_text()
        assert len((ROOT / "docs" / f"{name}.svg").read_text().splitlines()) < 60


def test_people_can_read_what_is_written_by_hand_in_an_afternoon() -> None:
    """Words outside of code, and of the pages and tables that proofs and runs write."""
    made = {"guarantees.md", "mistakes.md"}
    tables = r"<!-- (faults|bench[a-z-]*|rows)\b.*?<!-- (\1: end|end of the \1) -->"
    words = Counter[str]()
    for page in (*ROOT.glob("docs/*.md"), *ROOT.glob("docs/api/*.md")):
        text = re.sub(tables, "", page.read_text(), flags=re.DOTALL)
        text = re.sub(r"^( *)```.*?^\1```", "", text, flags=re.DOTALL | re.MULTILINE)
        words[page.name] = len(re.findall(r"\S*\w\S*", text)) * (page.name not in made)
    assert words.total() <= 35_500, f"for each sentence that you add, remove one: {words.most_common(8)}"


def test_no_search_finds_design_notes() -> None:
    assert shown("design/001-first-base.md", "")[1] == {"search": {"exclude": True}}
    assert shown("engines.md", "")[1] == {}


def test_machines_read_a_line_for_each_page(tmp_path: Path) -> None:
    (tmp_path / "index.md").write_text("# magicfs\n\n**Overwrites** [data](a.md). More.\n")
    (tmp_path / "a.md").write_text("# The file a.b\n\n```sh\nls\n```\n\n| a |\n")
    nav = [{"Start": ["index.md", {"A": "a.md"}]}]
    config = {
        "site_name": "m",
        "site_description": "d",
        "docs_dir": tmp_path,
        "site_dir": tmp_path,
        "nav": nav,
    }
    hooks.on_post_build(SimpleNamespace(**config))
    assert (tmp_path / "llms.txt").read_text().splitlines()[4:] == [
        "## Start",
        "",
        "- [Home](index.html): Overwrites data.",
        "- [A](a.html): The file a.b",
    ]


def test_the_check_finds_what_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<a id="here" href="b.html#there">b</a><a href="#here">h</a>'
        '<a href="c.html">c</a><a href="b.html#x">x</a>'
        '<a href="https://example.org">e</a><script src="https://example.org/s.js"></script>'
    )
    (tmp_path / "b.html").write_text('<p id="there"><img src="data:,"><link rel="icon" href="no.png">')
    assert sorted(check.broken(tmp_path)) == [
        "a.html links to b.html#x, which has no such anchor",
        "a.html links to c.html",
        "a.html loads https://example.org/s.js",
        "b.html links to no.png",
    ]


def test_searches_are_of_pages_that_are_there() -> None:
    pages = {page.stem for page in (ROOT / "docs").rglob("*.md")}
    assert len(SEARCHES) == 20
    assert set(SEARCHES.values()) <= pages
    assert all(f'"{query}"' in asking("/index.html") for query in SEARCHES)
    found = {query: [f"http://h/{page}.html?h=x#y"] for query, page in SEARCHES.items()}
    assert lost(found) == []
    assert lost(found | {"glue": []}) == ["the search for 'glue' finds [], not 'catalogs'"]
