"""Commands beside commands beside jobs: a part of all, and a wrong line that is noticed."""

from __future__ import annotations

import json
import random
from itertools import product

import pytest

from magicfs.operate import adopt
from proofs.commands import orders, pauses
from proofs.commands.commands import COMMANDS
from proofs.commands.main import main
from proofs.commands.orders import Outcome
from proofs.commands.pauses import Cell, meet
from proofs.commands.places import PLACES
from proofs.commands.wrong_verbs import VERB_MUTANTS, VerbMutant, hunt_verb
from proofs.scenes.trouble import Trouble

_PAIRS = 5
"""Of two verbs, at each place."""


@pytest.mark.sample(most=3)
@pytest.mark.parametrize("place", PLACES)
def test_a_command_that_stands_still_beside_another_breaks_nothing(place: str) -> None:
    pairs = random.sample([*product(COMMANDS, COMMANDS)], _PAIRS)
    cells = [meet(place, *pair, most=1, offset=random.randrange(1000)) for pair in pairs]
    assert [trouble for cell in cells for trouble in cell.troubles] == []
    assert sum(cell.runs for cell in cells)


@pytest.mark.parametrize("mutant", VERB_MUTANTS, ids=lambda one: one.name)
def test_a_wrong_line_that_two_verbs_show_is_noticed(mutant: VerbMutant) -> None:
    hunted = hunt_verb(mutant)
    assert hunted.caught, str(hunted)


def test_a_job_that_replaces_while_files_are_adopted_leaves_no_manifest_of_files_that_are_gone() -> None:
    cell = meet("files by hand", "adopt", "overwrite_partitions", every=1)
    assert (cell.troubles, cell.runs > 20) == ([], True)


def test_verbs_that_all_succeeded_but_in_no_order_are_noticed() -> None:
    place = PLACES["no job"]("s3")
    orders.run(place, "append")
    place.tidy()
    with pytest.raises(Trouble, match="no order leaves them: drop done old 2, own 1, own 2"):
        orders.check(place, "no job", "s3", [("drop", Outcome.DONE)])
    orders.check(place, "no job", "s3", [("append", Outcome.UNKNOWN), ("drop", Outcome.REFUSED)])


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


@pytest.mark.parametrize(
    ("place", "first", "second", "every"),
    [
        # What was to be discarded is, and recover has ended the job that discards.
        ("local files", "discard", "recover", 1),
        # A rollback whose job was ended meanwhile writes no list of the files that it was to show.
        ("a driver that replaces", "rollback_oldest", "rollback", 97),
    ],
)
def test_what_ends_a_job_meanwhile_leaves_nothing_and_loses_nothing(
    place: str, first: str, second: str, every: int
) -> None:
    cell = meet(place, first, second, every=every)
    assert (cell.troubles, cell.runs > 40) == ([], True)


@pytest.mark.nightly
def test_the_command_prints_a_table_and_the_figures_last(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proofs.commands.main.VERB_MUTANTS", VERB_MUTANTS[-1:])
    how = ["--place", "no job", "--first", "verify", "--second", "read"]
    assert main(how) == 0
    printed = capsys.readouterr()
    assert '"settings":1,"cells":1,"empty":0,' in printed.out.splitlines()[-1]
    side = json.loads(printed.out.splitlines()[-1])["sides"]["a"]
    assert side["settings"] == 1 < side["scenes"]
    assert side["mutants"] == side["caught"] >= 3
    assert printed.out.endswith('"ok":true}\n')
    assert "verify" in printed.err
    monkeypatch.setattr("proofs.commands.main.meet", lambda *_, **__: Cell())
    assert main(how) == 1
    assert '"empty":1,' in capsys.readouterr().out
    monkeypatch.setattr("proofs.commands.main.meet", meet)
    monkeypatch.setattr("proofs.sides.main.SIDE_MUTANTS", [])
    assert main(how) == 1
    assert '"empty":1,' in capsys.readouterr().out
