"""The rules of the house that a program can check."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHIPPED = sorted((ROOT / "src").rglob("*.py"))
MODULES = [
    *SHIPPED,
    *sorted((ROOT / "proofs").rglob("*.py")),
    *sorted((ROOT / "benchmarks").rglob("*.py")),
    *sorted((ROOT / "examples").rglob("*.py")),
]
FUNCTION_STATEMENTS_MAX = 44
CODE_LINES_MAX = 500
_NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.slow
def test_modules_are_small_enough_to_see() -> None:
    sizes = {named(path): _code_lines(path.read_text()) for path in MODULES}
    assert not {name: size for name, size in sizes.items() if size > CODE_LINES_MAX}


@pytest.mark.slow
def test_functions_are_small_enough_to_see() -> None:
    assert not [
        f"{named(path)}:{node.lineno} {node.name}"
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and _statements(node) > FUNCTION_STATEMENTS_MAX
    ]


def test_only_what_users_import_lists_its_names() -> None:
    """Elsewhere what has no underscore is what others use, and nobody imports it from a third place."""
    lists = {named(path) for path in SHIPPED if re.search(r"^__all__\b", path.read_text(), re.MULTILINE)}
    others = {name for name in lists if not name.endswith("/__init__.py")}
    assert others == {"src/magicfs/errors.py", "src/magicfs/filesystem/chained.py"}


def test_no_room_is_called_after_nothing() -> None:
    assert not [path for path in MODULES if path.stem in {"utils", "util", "helpers", "common", "misc"}]


def test_nothing_is_left_to_do_or_to_the_implementation() -> None:
    pattern = re.compile(
        r"\b(TODO|FIXME|XXX|HACK)\b|implementation.defined|NotImplementedError", re.IGNORECASE
    )
    assert not [named(path) for path in MODULES if pattern.search(path.read_text())]


@pytest.mark.slow
def test_names_that_are_never_deleted_are_listed_once() -> None:
    """See ``magicfs.protocol.modes``: a second list would soon mean something else."""
    assert [named(path) for path in SHIPPED if len(_reserved(path.read_text())) > 1] == [
        "src/magicfs/protocol/modes.py"
    ]


def _reserved(text: str) -> set[str]:
    """Of the names that are reserved for committers those that stand in a collection of constants."""
    families = {"__magic": "magic", "MAGIC": "magic", "MAGIC_JOB": "magic", "_magicfs": "manifests"}
    families |= {"MANIFESTS": "manifests", "_temporary": "temporary", "TEMPORARY": "temporary"}
    found = set()
    for node in ast.walk(ast.parse(text)):
        elements = node.elts if isinstance(node, ast.Tuple | ast.List | ast.Set) else []
        for one in elements:
            name = one.id if isinstance(one, ast.Name) else getattr(one, "value", None)
            if isinstance(name, str) and name in families:
                found.add(families[name])
    return found


def _code_lines(text: str) -> int:
    """Lines that hold code: no blank lines, comments or docstrings."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def _statements(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Statements of a function, those of functions within it included; a docstring is none."""
    return sum(isinstance(one, ast.stmt) for one in ast.walk(node)) - 1 - bool(ast.get_docstring(node))
