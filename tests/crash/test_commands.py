"""Commands beside commands beside jobs: a part of all runs every day, and a wrong line that is noticed."""

from __future__ import annotations

import json
from itertools import product

import pytest

from magicfs.datasets import adopt
from proofs.commands import pauses
from proofs.commands.commands import COMMANDS
from proofs.commands.main import main
from proofs.commands.pauses import Cell, meet
from proofs.commands.places import PLACES


@pytest.mark.sample(most=3)
@pytest.mark.parametrize("place", PLACES)
def test_a_command_that_stands_still_beside_another_breaks_nothing(place: str) -> None:
    every = 4000 if PLACES[place]("s3").is_alive else 200
    runs, troubles = 0, []
    for offset, (first, second) in enumerate(product(COMMANDS, COMMANDS)):
        cell = meet(place, first, second, every=every, offset=7 * offset)
        runs += cell.runs
        troubles += cell.troubles
    assert troubles == []
    assert runs


def test_adopting_beside_a_job_that_is_half_visible_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def look_away(*_: object) -> None:
        pass

    monkeypatch.setattr(adopt, "refuse_unfinished", look_away)
    monkeypatch.setattr(pauses, "_alone", pauses._alone.__wrapped__)  # sound code makes fewer requests
    cell = meet("half visible, append", "adopt", "rollback")
    assert cell.troubles
    assert any("manifests show" in trouble for trouble in cell.troubles)


@pytest.mark.sample(most=3)
@pytest.mark.parametrize("place", ["half visible, append", "half visible, replace", "completed, replace"])
@pytest.mark.parametrize("second", ["rollback", "recover"])
def test_what_a_job_takes_back_or_replaces_meanwhile_is_not_adopted(place: str, second: str) -> None:
    cell = meet(place, "adopt", second)
    assert (cell.troubles, cell.runs > 5) == ([], True)


@pytest.mark.turn(days=3)
def test_the_command_prints_a_table_and_the_figures_last(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    how = ["--place", "no job", "--first", "verify", "--second", "read"]
    assert main(how) == 0
    printed = capsys.readouterr()
    assert '"places":1,"cells":1,"empty":0,' in printed.out.splitlines()[-1]
    side = json.loads(printed.out.splitlines()[-1])["sides"]["a"]
    assert side["settings"] == 1 < side["scenes"]
    assert side["mutants"] == side["caught"] >= 3
    assert printed.out.endswith('"ok":true}\n')
    assert "verify" in printed.err
    monkeypatch.setattr("proofs.commands.main.meet", lambda *_, **__: Cell())
    assert main(how) == 1
    assert '"empty":1,' in capsys.readouterr().out
    monkeypatch.undo()
    monkeypatch.setattr("proofs.sides.main.SIDE_MUTANTS", [])
    assert main(how) == 1
    assert '"empty":1,' in capsys.readouterr().out
