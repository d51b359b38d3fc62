"""``python -m proofs.mistakes``: what becomes of what users do wrong, and a page that says so."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from proofs.mistakes import document
from proofs.mistakes.judge import Verdict, make
from proofs.mistakes.rows import MISTAKES

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """The command. Exit code 1 if something is lost."""
    parser = argparse.ArgumentParser(prog="python -m proofs.mistakes", description=__doc__)
    parser.add_argument("--only", metavar="TEXT", default="", help="mistakes whose name holds this")
    parser.add_argument("--write", metavar="FILE", type=Path, help="write the page")
    given = parser.parse_args(arguments)
    judged = [make(one) for one in MISTAKES if given.only in one.what]
    for one in judged:
        print(f"{one.verdict:8} {one.mistake.what}\n         {one.sentence}", file=sys.stderr)  # noqa: T201
    if given.write is not None:
        given.write.write_text(document.render(judged), encoding="utf-8")
    counts = {verdict.value: sum(one.verdict is verdict for one in judged) for verdict in Verdict}
    print(json.dumps({"mistakes": len(judged), **counts}, separators=(",", ":")))  # noqa: T201
    return 1 if counts["lost"] else 0
