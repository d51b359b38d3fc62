"""A run of the crash world that was broken off goes on where it ended, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from proofs.crash.classic import promises_of
from proofs.crash.main import Figures, run

BATCH = [("classic", ("stocator", promise, 97)) for promise in list(promises_of())[:2]]


def test_what_a_journal_has_is_not_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = tmp_path / "journal"
    added: list[object] = []
    monkeypatch.setattr(Figures, "add", lambda _, *one: added.append(one))
    run(BATCH, "s3", journal)
    whole = journal.read_bytes()
    first = list(added)
    run(BATCH, "s3", journal)
    assert journal.read_bytes() == whole
    journal.write_bytes(whole[:-1])
    run(BATCH, "s3", journal)
    assert len(added) == 3 * len(BATCH)
    assert {repr(one) for one in added} == {repr(one) for one in first}


def test_a_journal_of_other_work_is_refused(tmp_path: Path) -> None:
    run([], "s3", tmp_path / "journal")
    with pytest.raises(SystemExit, match="is of other work, or of other code"):
        run(BATCH, "s3", tmp_path / "journal")
