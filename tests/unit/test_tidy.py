"""The rules of the house that a program can check."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"
MODULES = sorted(SOURCE.rglob("*.py"))
FUNCTION_LINES_MAX = 60
MODULE_LINES_MAX = 350


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_module_is_small_enough_to_see(path: Path) -> None:
    text = path.read_text()
    assert text.count("\n") <= MODULE_LINES_MAX
    long = [
        node.name
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _body_lines(node) > FUNCTION_LINES_MAX
    ]
    assert not long


def test_no_room_is_called_after_nothing() -> None:
    assert not [path for path in MODULES if path.stem in {"utils", "util", "helpers", "common", "misc"}]


def test_nothing_is_left_to_do_or_to_the_implementation() -> None:
    pattern = re.compile(
        r"\b(TODO|FIXME|XXX|HACK)\b|implementation.defined|NotImplementedError", re.IGNORECASE
    )
    assert not [path for path in MODULES if pattern.search(path.read_text())]


def _body_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function without its signature and docstring."""
    first = node.body[1] if ast.get_docstring(node) and len(node.body) > 1 else node.body[0]
    return (node.end_lineno or first.lineno) - first.lineno + 1
