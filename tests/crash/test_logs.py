"""The log of publications: cut, met by others and damaged; and its mutants."""

from __future__ import annotations

import pytest

from proofs.crash.log_cuts import TRIALS, hunt_log, play_log
from proofs.crash.past_cuts import work_past
from proofs.crash.wrong_log import LOG_MUTANTS, WrongLog


@pytest.mark.sample(most=1)
@pytest.mark.parametrize("trial", TRIALS)
def test_all_that_was_published_is_told_and_nothing_is_left(trial: str) -> None:
    assert play_log(trial) == []


@pytest.mark.sample(most=4)
@pytest.mark.parametrize("wrong", LOG_MUTANTS, ids=lambda one: one.name)
def test_a_wrong_line_is_noticed(wrong: WrongLog) -> None:
    hunted = hunt_log(wrong)
    assert hunted.caught, str(hunted)


@pytest.mark.nightly
def test_the_crash_loops_do_both_and_tell_of_a_mutant_that_nobody_notices() -> None:
    assert work_past("log", "grown").ok
    assert work_past("log mutant", LOG_MUTANTS[0]).ok
    harmless = WrongLog(
        "nothing is wrong", "magicfs.manifests.log", "if past is None:", "if past == None:  # noqa: E711"
    )
    assert "correct the mutant" in hunt_log(harmless).problem
    other = WrongLog("also nothing", "magicfs.past.log_growth", "if len(news):", "if len(news) > 0:")
    assert work_past("log mutant", other).missed == ["also nothing"]
