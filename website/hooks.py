"""What the site has beyond its pages: options and schemas of commands, a picture of states, ``llms.txt``."""

from __future__ import annotations

import argparse
import html
import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from magicfs.cli.main import commands_of
from website import schemas

__all__ = ["on_files", "on_page_content", "on_page_markdown", "on_post_build"]

_COMMANDS = "<!-- options of all commands -->"
_JSON = "<!-- kinds of errors, and fields of all commands -->"
_DIAGRAM = re.compile(r"```mermaid\n(.*?)\n```", re.DOTALL)
_DRAWING = re.compile(r"^!\[[^]]*]\(([\w-]+\.svg)\)$", re.MULTILINE)
_BOXES = {
    "open": (70, 40),
    "committing": (290, 40),
    "completed": (510, 40),
    "prepared": (180, 130),
    "reverting": (400, 130),
    "aborting": (70, 220),
}
_WIDTH, _HEIGHT = 120, 36
_TIP = (
    '<defs><marker id="tip" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto">'
    '<path d="M0 0L8 4L0 8z" fill="currentColor"/></marker></defs>'
)
_KEY = "↻: the state is written again. Thick: the job can end here; its job object is removed."


def on_files(files: Any, config: Any) -> Any:
    """Add the schemas of what commands print, to which a page leads."""
    from mkdocs.structure.files import File

    for name, schema in {**schemas.schemas(), "error": schemas.error()}.items():
        text = json.dumps({"$schema": schemas.DRAFT, "title": name, **schema}, indent=1)
        files.append(File.generated(config, f"schemas/{name.replace(' ', '_')}.json", content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Put in what is made of the code. Design notes are for those who change it: no search finds them."""
    if page.file.src_uri.startswith("design/"):
        page.meta["search"] = {"exclude": True}
    if page.file.src_uri == "commands.md":
        markdown = markdown.replace(_COMMANDS, "\n".join(_options()))
        markdown = markdown.replace(_JSON, "\n".join(schemas.tables()))
    markdown = _DRAWING.sub(_inlined, markdown)
    return _DIAGRAM.sub(lambda found: _picture(found[1]), markdown)


def on_page_content(content: str, **_: Any) -> str:
    """Leave out the double colons that stand before code in docstrings."""
    return content.replace("<p>::</p>", "").replace("::</p>", ":</p>")


def on_post_build(config: Any) -> None:
    """Write what machines read first."""
    lines = [f"# {config.site_name}", "", f"> {config.site_description}", ""]
    docs = Path(config.docs_dir)
    for group in config.nav:
        for title, pages in group.items():
            lines += [f"## {title}", ""]
            for entry in pages:
                [(name, path)] = entry.items() if isinstance(entry, dict) else [("Home", entry)]
                lines.append(f"- [{name}]({path.removesuffix('.md')}.html): {_first_sentence(docs / path)}")
            lines.append("")
    (Path(config.site_dir) / "llms.txt").write_text("\n".join(lines), encoding="utf-8")


def _first_sentence(path: Path) -> str:
    title, *blocks = path.read_text(encoding="utf-8").split("\n\n")
    said = next((one for one in blocks if re.match(r"\w|\*\*|`[^`]", one)), title.removeprefix("# "))
    said = re.sub(r"\[([^]]+)]\([^)]+\)", r"\1", " ".join(said.split())).replace("**", "")
    return re.split(r"(?<=[a-z`)]\.)\s", said)[0]


def _options() -> Iterator[str]:
    for name, parser in sorted(commands_of().items()):
        parser.formatter_class = partial(argparse.HelpFormatter, width=84)
        usage = parser.format_usage().removeprefix("usage: ").rstrip()
        said = str(parser.description)
        yield from (f"### {name}", "", f"{said[0].upper()}{said[1:]}.", "", "```text", usage, "```", "")
        yield from ("| argument | what it does |", "| --- | --- |")
        for action in parser._actions:  # noqa: SLF001 - argparse tells it nowhere else
            said = html.escape(_help(action), quote=False).replace("|", "\\|")
            yield f"| `{_spelling(action)}` | {said} |"
        yield ""


def _help(action: argparse.Action) -> str:
    return (action.help or "").replace("%(default)s", str(action.default)).replace("%%", "%")


def _spelling(action: argparse.Action) -> str:
    value = str(action.metavar or (action.dest if action.choices is None else "|".join(action.choices)))
    if not action.option_strings:
        return value.replace("|", "\\|")
    names = ", ".join(action.option_strings)
    return names if action.nargs == 0 else f"{names} {value}".replace("|", "\\|")


def _inlined(found: re.Match[str]) -> str:
    """A drawing that takes the color of the text, light or dark; a file of its own cannot."""
    drawing = (Path(__file__).parents[1] / "docs" / found[1]).read_text(encoding="utf-8")
    if "currentColor" not in drawing:
        return found[0]
    return f"<div>{re.sub('<style>.*</style>', '', drawing).replace(chr(10), '')}</div>"


def _picture(diagram: str) -> str:
    """The states of a job and the ways between them."""
    ways = re.findall(r"(\S+) --> ([^\s:]+)", diagram)
    shapes = [_TIP]
    for begin, end in ways:
        if begin in _BOXES and end in _BOXES and begin != end:
            back = (end, begin) in ways
            (x, y), (to_x, to_y) = _edge(begin, end, back), _edge(end, begin, back)
            shapes.append(f'<path d="M{x} {y}L{to_x} {to_y}" stroke="currentColor" marker-end="url(#tip)"/>')
    for name, (x, y) in _BOXES.items():
        thick = 3 if (name, "[*]") in ways else 1.2
        again = " ↻" if (name, name) in ways else ""
        shapes.append(
            f'<rect x="{x - _WIDTH // 2}" y="{y - _HEIGHT // 2}" width="{_WIDTH}" height="{_HEIGHT}" rx="8" '
            f'stroke="currentColor" stroke-width="{thick}"/>'
            f'<text x="{x}" y="{y + 5}" text-anchor="middle" fill="currentColor">{name}{again}</text>'
        )
    style = "max-width:580px;font-size:14px"
    drawn = "".join(shapes)
    return (
        f'<svg viewBox="0 0 580 250" role="img" aria-label="States of a job" fill="none" style="{style}">'
        f"{drawn}</svg>\n\n{_KEY}"
    )


def _edge(name: str, toward: str, back: bool) -> tuple[int, int]:
    """Where the way to another state touches the box of a state; two ways between them lie side by side."""
    (x, y), (to_x, to_y) = _BOXES[name], _BOXES[toward]
    if y == to_y:
        return x + (_WIDTH if to_x > x else -_WIDTH) // 2, y
    aside = 0 if x == to_x else 30 if to_x > x else -30
    if back:
        aside += 14 if (name < toward) else -14
    return x + aside, y + (_HEIGHT if to_y > y else -_HEIGHT) // 2
