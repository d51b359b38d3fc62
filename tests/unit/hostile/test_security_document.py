"""``docs/security.md`` has the rows of the gate as they are, and names tests that are there."""

from __future__ import annotations

import re
from pathlib import Path

from proofs.hostile.document import written

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "security.md"


def test_the_page_has_the_rows_of_the_gate() -> None:
    assert PAGE.read_text() == written(PAGE), "run tox run -e hostile -- --write docs/security.md"


def test_the_tests_that_the_page_names_are_there() -> None:
    named = set(re.findall(r"`((?:tests|proofs)/[\w/.]+)`", PAGE.read_text()))
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []
