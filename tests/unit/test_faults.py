"""The proof of failing overwrites: where a run is stopped, what is wrong with an outcome, and the table."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from magicfs.testing.faults import Action, RequestSeen
from proofs.faults import table
from proofs.faults.cases import CASES, Stop, rule_of, stop_of
from proofs.faults.ground import Found
from proofs.faults.rows import NEW_ROWS, OLD_ROWS
from proofs.faults.tools import TOOLS
from proofs.faults.trial import Outcome, faults_of

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
PAGE = (ROOT / "docs" / "faults.md").read_text()
OLD = Found(old_files=4, new_files=0, old_rows=OLD_ROWS, new_rows=0, unreadable=0, uploads=0)
NEW = Found(old_files=0, new_files=4, old_rows=0, new_rows=NEW_ROWS, unreadable=0, uploads=0)
WHILE_WRITING, WHILE_PUBLISHING = CASES[2], CASES[-1]


def seen(operation: str, path: str = "/b/d/p=0/x.parquet", method: str = "PUT") -> RequestSeen:
    return RequestSeen(operation, method, path, "", 200, None)


def test_a_run_stops_where_its_data_goes_or_behind() -> None:
    put, part = seen("PutObject", "/b/d/__magic/job.json"), seen("UploadPart")
    complete = seen("CompleteMultipartUpload", method="POST")
    requests = [put, seen("ListObjectsV2", method="GET"), *[part] * 8, put, *[complete] * 4, put]
    stops = {case.name: stop_of(requests, case) for case in CASES if case.how != "raise"}
    assert stops == {
        "refuse": Stop("UploadPart", 4, r"\.parquet(\?|$)"),
        "kill 25 %": Stop("UploadPart", 2, r"\.parquet(\?|$)"),
        "kill 50 %": Stop("UploadPart", 4, r"\.parquet(\?|$)"),
        "kill 75 %": Stop("UploadPart", 6, r"\.parquet(\?|$)"),
        "kill while publishing": Stop("CompleteMultipartUpload", 3, None),
    }
    # A writer that puts whole files has shown the last one with its last request, and then only deletes.
    files = [seen("PutObject")] * 4
    assert stop_of([put, *files], WHILE_PUBLISHING) is None
    deleting = stop_of([*files, *[seen("DeleteObject", method="DELETE")] * 3], WHILE_PUBLISHING)
    assert deleting == Stop("DeleteObject", 2, None)
    assert stop_of([put], WHILE_WRITING) is None


def test_the_proxy_lets_pass_what_comes_before() -> None:
    stop = Stop("UploadPart", 4, None)
    assert rule_of(stop, WHILE_WRITING).action == Action.HANG
    refused = rule_of(stop, CASES[1])
    assert (refused.action, refused.skip, refused.times) == (Action.ERROR, 3, None)


def outcome(
    found: Found = OLD, after: Found = OLD, ended: str = "killed", rows: object = (OLD_ROWS, 0)
) -> Outcome:
    return Outcome("case", ended, found, rows, after)  # type: ignore[arg-type]  # any pair


def with_(found: Found, **changes: int) -> Found:
    return Found(**{name: changes.get(name, getattr(found, name)) for name in Found.__dataclass_fields__})


@pytest.mark.parametrize(
    ("one", "publishing", "wrong"),
    [
        (outcome(with_(OLD, uploads=3)), False, None),
        (outcome(with_(OLD, new_files=2), NEW, rows=(0, NEW_ROWS)), True, None),
        (outcome(with_(OLD, new_files=1)), False, "1000 old rows and 1 new files are visible"),
        (outcome(with_(OLD, old_rows=999)), False, "999 old rows"),
        (outcome(after=with_(OLD, uploads=1)), True, "after recover 1 uploads are left"),
        (outcome(after=with_(NEW, new_rows=1)), True, "after recover 0 old and 1 new rows"),
        (outcome(rows=(OLD_ROWS, 1)), True, "a reader of manifests sees rows"),
        (outcome(ended="written"), True, "it did not fail"),
    ],
)
def test_nothing_may_be_wrong_with_ours(one: Outcome, publishing: bool, wrong: str | None) -> None:
    found = faults_of(one, WHILE_PUBLISHING if publishing else WHILE_WRITING)
    assert found == [] if wrong is None else any(wrong in text for text in found)


def test_the_table_is_put_between_its_marks() -> None:
    figures = {"ours": {"a": outcome(with_(OLD, uploads=2)).figures()}, "theirs": {"b": {"ended": "written"}}}
    shown = table.render(figures, {"ours": {"x": "1.0"}, "theirs": {"x": "2.0"}}, "a server", ["a", "b"])
    assert "| ours | 4/0/2 → 4/0/0 |  |" in shown
    assert shown.endswith("On a server; x 1.0, x 2.0.")
    assert "| theirs |  | no such step |" in shown
    for begin, names in (
        ("<!-- faults: begin -->", None),
        ("<!-- faults: begin, only: ours; theirs -->", ["ours", "theirs"]),
    ):
        page = f"x\n{begin}\nold\n<!-- faults: end -->\ny"
        assert table.rows_of(page) == names
        assert table.shown_in(page) == "old\n"
        assert table.put_in(page, shown) == f"x\n{begin}\n{shown}\n<!-- faults: end -->\ny"
    for without in ("x", "<!-- faults: begin -->\nold\n"):
        with pytest.raises(ValueError, match="the page has no"):
            table.put_in(without, shown)


def test_the_readme_shows_five_rows_of_the_page() -> None:
    of_page, of_readme = (
        [line for line in table.shown_in(text).splitlines() if line.startswith("|")]
        for text in (PAGE, README)
    )
    assert len(of_readme) == 2 + 5
    assert set(of_readme) <= set(of_page)
    assert [line.split(" | ")[0].removeprefix("| ") for line in of_readme[2:]] == table.rows_of(README)


def test_the_table_of_the_page_is_one_of_these_writers_and_cases() -> None:
    shown = table.shown_in(PAGE)
    head, _, *lines = [line for line in shown.splitlines() if line.startswith("|")]
    assert head == f"| overwrites by | {' | '.join(case.name for case in CASES)} |"
    ours = {tool.name: tool.ours for tool in TOOLS}
    cases = {tool.name: sum(tool.takes_source or case.how != "raise" for case in CASES) for tool in TOOLS}
    named = [line.split(" | ")[0].removeprefix("| ") for line in lines]
    assert set(named) <= set(ours)
    assert sum(ours[name] for name in named) >= 5
    for name, line in zip(named, lines, strict=True):
        cells = re.findall(r"→ (\d)/(\d)/(\d)", line)
        assert len(cells) == (cases[name] if ours[name] else 0)
        assert set(cells) <= {("4", "0", "0"), ("0", "4", "0")}
