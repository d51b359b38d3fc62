"""``docs/mistakes.md``: the outcomes of a run, as a document."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from proofs.mistakes.judge import Judged, Verdict

__all__ = ["render"]

_HEAD = """# Mistakes

What happens if you forget something, do it twice, or do it in another order than planned. The command
`tox run -e mistakes -- --write docs/mistakes.md` writes this page. It makes every mistake at a destination
that holds a published row, and computes the verdict from what readers see afterwards, by listing and by
manifest. A test fails if the page is out of date, or if a row says *lost*.

* **works**: readers see exactly what you meant.
* **refused**: an error, and readers see exactly what they saw before.
* **warned**: readers do not see what you meant, or the job failed later. You get an error or a warning, and
  no older data is lost.
* **lost**: readers do not see what you meant, without an error or a warning, or older data is missing. No
  row may say so.

"""

_COLUMNS = "| mistake | what happens | error or warning |\n| --- | --- | --- |\n"


def render(judged: Sequence[Judged]) -> str:
    """The document."""
    counts = {verdict: sum(one.verdict is verdict for one in judged) for verdict in Verdict}
    told = ", ".join(f"{number} {verdict}" for verdict, number in counts.items())
    parts = [_HEAD, f"{len(judged)} mistakes: {told}.\n"]
    for group, rows in groupby(judged, lambda one: one.mistake.group):
        parts.append(f"\n## {group}\n\n{_COLUMNS}")
        parts += [f"| {_cell(one.mistake.what)} | {one.verdict} | {_cell(one.sentence)} |\n" for one in rows]
    return "".join(parts)


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
