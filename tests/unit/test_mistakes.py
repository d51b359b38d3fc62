"""What users do wrong is really done: nothing is lost, and the page says what happens."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from proofs.mistakes import document
from proofs.mistakes.judge import Judged, Mistake, Verdict, judge, make
from proofs.mistakes.main import main
from proofs.mistakes.rows import MISTAKES
from proofs.mistakes.user import Seen

pytestmark = pytest.mark.process  # one of the mistakes forks

PAGE = Path(__file__).parents[2] / "docs" / "mistakes.md"

made = cache(make)


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda one: one.what)
def test_nothing_is_lost_by_a_mistake(mistake: Mistake) -> None:
    judged = made(mistake)
    assert judged.verdict is not Verdict.LOST, judged.sentence


def test_the_page_says_what_happens() -> None:
    text = document.render([made(one) for one in MISTAKES])
    assert PAGE.read_text() == text, "run tox run -e mistakes -- --write docs/mistakes.md"


def test_every_mistake_has_a_name_of_its_own_and_there_are_many() -> None:
    counts = Counter(one.what for one in MISTAKES)
    assert max(counts.values()) == 1
    assert len(counts) >= 40


def test_errors_are_ours_or_the_users() -> None:
    for mistake in MISTAKES:
        error, _, rest = made(mistake).sentence.partition(": ")
        assert error not in {"TypeError", "AttributeError", "KeyError"} or "unexpected keyword" in rest


OLD = Seen(("old",), ("old",))


def told(after: Seen, meant: list[str] | None, error: Exception | None = None, *warnings: str) -> Verdict:
    one = Mistake("group", "what", lambda _: ())
    judged: Judged = judge(one, OLD, after, meant, error, list(warnings), "bucket")
    return judged.verdict


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        (told(Seen(("new", "old"), ("new", "old")), ["new", "old"]), Verdict.WORKS),
        (told(Seen(("new", "old"), None), ["new", "old"]), Verdict.WORKS),
        (told(Seen(("new", "old"), ("old",)), ["new", "old"]), Verdict.LOST),
        (told(Seen(("new", "old"), None, "broken"), ["new", "old"], None, "told"), Verdict.LOST),
        (told(Seen(("new", "old"), None, refused="no"), ["new", "old"]), Verdict.WARNED),
        (told(OLD, None, ValueError("no")), Verdict.REFUSED),
        (told(OLD, ["new", "old"]), Verdict.LOST),
        (told(OLD, ["new", "old"], None, "one task was left out"), Verdict.WARNED),
        (told(Seen((), ()), ["new", "old"], None, "one task was left out"), Verdict.LOST),
        (told(Seen((), ()), None, ValueError("no")), Verdict.LOST),
        (told(Seen(("half", "old"), ("old",)), None, ValueError("no")), Verdict.WARNED),
    ],
)
def test_verdicts(verdict: Verdict, expected: Verdict) -> None:
    assert verdict is expected


def test_the_command_counts_and_prints_the_figures_last(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    assert main(["--only", "misspelt", "--write", str(page)]) == 0
    assert capsys.readouterr().out == '{"mistakes":3,"works":1,"refused":2,"warned":0,"lost":0}\n'
    assert "a misspelt option" in page.read_text()
