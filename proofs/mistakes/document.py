"""``docs/mistakes.md``: the outcomes of a run, as a document."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from proofs.mistakes.judge import Judged, Verdict

__all__ = ["render"]

_HEAD = """# Mistakes

What happens when something is forgotten, done twice, or done in another order than planned. This page is
written by `tox run -e mistakes -- --write docs/mistakes.md`: every mistake is really made, at a
destination that holds a published row, and the verdict is computed from what readers see afterwards, by
listing and by manifest. A test fails when the page is not what a run says, and when a row says *lost*.

* **works**: readers see exactly what was meant.
* **refused**: an error, and readers see exactly what they saw before.
* **warned**: readers do not see what was meant, or the job has failed after that; the user is told, and
  nothing that was there before is lost.
* **lost**: readers do not see what was meant, or miss what was there before, and nobody was told. No row
  may say so.

"""

_COLUMNS = "| mistake | what happens | what the user is told |\n| --- | --- | --- |\n"


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
