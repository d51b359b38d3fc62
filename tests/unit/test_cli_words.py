"""Words of the command line: groups of the help, wrong words, errors, statuses and times."""

from __future__ import annotations

import json
import re
from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import magicfs
from magicfs import errors
from magicfs.cli import parser as parsers
from magicfs.cli import statuses
from magicfs.cli.main import commands_of, main
from magicfs.cli.printing import print_report
from magicfs.cli.statuses import Status, worst
from magicfs.protocol.period import human_time

DOCS = Path(__file__).parents[2] / "docs"
NOW = 1_795_820_000.0


def said(capsys: pytest.CaptureFixture[str], status: int, *words: str) -> str:
    assert main(words) == status
    shown = capsys.readouterr()
    assert shown.out == ""
    return shown.err


# -- help ---------------------------------------------------------------------------------------------------


def test_the_help_has_five_groups_and_each_command_in_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out.partition("\noptions:")[0]
    groups = re.findall(r"^(\w+):$", text, flags=re.MULTILINE)
    assert groups == ["publish", "look", "repair", "past", "maintain"]
    assert re.findall(r"^  ([a-z]+)  ", text, flags=re.MULTILINE) == [*commands_of()]


def test_the_help_and_the_page_say_what_each_status_means(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out.partition("exit status:\n")[2]
    assert [int(line.split()[0]) for line in text.splitlines()] == [*Status]
    page = (DOCS / "commands.md").read_text()
    for one in Status:
        assert f"\n| {one.value} | {one.meaning} |\n" in page


def test_no_two_statuses_mean_the_same() -> None:
    assert len({one.meaning for one in Status}) == len({*map(int, Status)}) == 12


# -- what is meant ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["docter", "s3://b"], "magicfs has no command 'docter'; did you mean doctor?"),
        (["exprie", "s3://b"], "magicfs has no command 'exprie'; write magicfs maintain URL\n"),
        (["write", "a", "b", "--conflcit", "x"], "magicfs write has no option --conflcit; write --mode"),
        (["xyzzy"], "magicfs has no command 'xyzzy'; magicfs --help lists them"),
        (["job", "setpu"], "magicfs job has no part 'setpu'; did you mean setup?"),
        (["recover", "s3://b", "--jbo", "x"], "magicfs recover has no option --jbo; did you mean --job?"),
        (["recover", "s3://b", "--jbo=x"], "magicfs recover has no option --jbo; did you mean --job?"),
        (
            ["drop", "s3://b", "--keep-in-plaec"],
            "has no option --keep-in-plaec; did you mean --keep-in-place?",
        ),
        (["drop", "s3://b", "--filter", "x"], "magicfs drop has no option --filter; write --where"),
        (["job", "setup", "s3://b", "--xyzzy"], "no option --xyzzy; magicfs job setup --help lists them"),
        (
            ["write", "a", "b", "--format", "parket"],
            "--format does not accept 'parket'; did you mean parquet?",
        ),
        (
            ["write", "a", "b", "--format", "xyzzy"],
            "--format does not accept 'xyzzy'; choose from parquet, csv",
        ),
        (["write", "a", "b", "--conflict", "append"], "magicfs write has no option --conflict; write --mode"),
        (["write", "a", "b", "--mode", "replace"], "--mode does not accept 'replace'; write overwrite"),
        (
            ["drop", "s3://b", "--keep-replaced", "7d"],
            "magicfs drop has no option --keep-replaced; write --keep",
        ),
        (["verify", "s3://b", "s3://c"], "unexpected argument 's3://c'; magicfs verify --help"),
        (["verify"], "the following arguments are required: URL; run magicfs verify --help"),
        (["--completion", "tcsh"], "--completion does not accept 'tcsh'; choose from bash, zsh, fish"),
    ],
)
def test_a_wrong_word_is_answered_with_the_nearest_right_one(
    words: list[str], meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert meant in said(capsys, 2, *words)


@pytest.mark.parametrize(("word", "line"), parsers._COMMANDS.items())
def test_words_of_other_tools_are_answered_with_ours(
    word: str, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    known = commands_of()
    assert f"magicfs has no command '{word}'; write magicfs {line}\n" in said(capsys, 2, word, "s3://b")
    first, *rest = line.split()
    if not first.startswith("-"):
        options = {one for one in rest if one.startswith("--")}
        assert options <= known[first]._option_string_actions.keys()


def test_words_of_options_lead_to_options_that_there_are() -> None:
    known = {option for one in commands_of().values() for option in one._option_string_actions}
    known |= {"--mode"}
    assert {*parsers._OPTIONS.values()} <= known


# -- errors -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [["--json", "verify", "b/d"], ["verify", "b/d", "--json"]])
def test_errors_are_json_if_results_are(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    error = json.loads(said(capsys, 2, *words))
    assert error.keys() == {"kind", "message", "next", "exit_status"}
    assert (error["kind"], error["exit_status"]) == ("UsageError", 2)
    assert "write 's3://b/d'" in error["message"]


@pytest.mark.parametrize("line", ["xyzzy --json", "verify --json", "verify s3://b --x --json"])
def test_so_are_those_about_the_words_themselves(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = line.split()
    assert json.loads(said(capsys, 2, *words))["kind"] == "UsageError"
    assert said(capsys, 2, *(one for one in words if one != "--json")).startswith("magicfs: ")


def test_so_is_the_lack_of_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert "no command given" in json.loads(said(capsys, 2, "--json"))["message"]


def test_notes_of_an_error_are_part_of_its_message(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    error = errors.CommitUnfinished("it is visible", None)
    error.add_note("and\x1b more")

    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("magicfs.operate.verify.verify", fail)
    assert said(capsys, 6, "verify", "s3://b") == "magicfs: it is visible\n  and\\x1b more\n"
    assert json.loads(said(capsys, 6, "verify", "s3://b", "--json")) == {
        "kind": "CommitUnfinished",
        "message": "it is visible\nand\x1b more",
        "next": None,
        "exit_status": 6,
    }


def test_an_interruption_is_said_likewise(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("magicfs.operate.verify.verify", stop)
    assert said(capsys, 130, "verify", "s3://b") == "magicfs: interrupted\n"
    assert json.loads(said(capsys, 130, "verify", "s3://b", "--json"))["exit_status"] == 130


def test_a_secret_in_options_is_not_repeated_by_the_parser(capsys: pytest.CaptureFixture[str]) -> None:
    line = ["verify", "s3://b", "--storage-options"]
    assert "hunter2" not in said(capsys, 2, *line, '{"secret": "hunter2"}')
    assert "hunter2" not in said(capsys, 2, *line, "hunter2")


# -- statuses -----------------------------------------------------------------------------------------------


@dataclass
class Report:
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {}


@pytest.mark.parametrize(
    ("how", "dry_run", "warnings", "status"),
    [
        ({}, False, (), 0),
        ({"nothing": "nothing to do"}, True, (), 0),
        ({"done": False}, True, (), 0),
        ({}, True, (), 1),
        ({}, False, ("it lacks a file",), 6),
    ],
)
def test_a_report_has_the_status_of_what_it_says(
    how: dict[str, Any], dry_run: bool, warnings: tuple[str, ...], status: int
) -> None:
    for as_json in (False, True):
        arguments = Namespace(json=as_json, dry_run=dry_run)
        assert print_report(arguments, Report(warnings), **how) == status


def test_the_worst_of_several_statuses_is_the_first_error() -> None:
    assert worst([]) == worst([0, 0]) == Status.FINE
    assert worst([0, 1, 0]) == Status.FOUND
    assert worst([1, 4, 3]) == Status.DENIED
    assert statuses.exit_code(errors.MagicError("x")) == Status.USAGE


def test_a_tag_that_is_not_there_is_an_error_of_the_call(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"file://{tmp_path}/sales"
    with magicfs.Job(url, committer="magic") as job, job.task(0) as task:
        task.filesystem.pipe_file(f"{task.path}/a", b"1")
    assert f"{url} has no tag best; nothing was changed" in said(capsys, 2, "tag", url, "best", "--delete")
    assert main(["tag", url, "best"]) == 0
    assert main(["tag", url, "best", "--delete"]) == 0


# -- times --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (NOW, "0 s ago (2026-11-27 22:53:20Z)"),
        (NOW + 30, "0 s ago (2026-11-27 22:53:50Z)"),
        (NOW - 3 * 3600, "3 h 0 min ago (2026-11-27 19:53:20Z)"),
        (NOW + 2 * 86_400, "in 2 d 0 h (2026-11-29 22:53:20Z)"),
        (1e18, "1000000000000000000 s since the epoch"),
    ],
)
def test_a_time_of_day_stands_beside_each_age(moment: float, text: str) -> None:
    assert human_time(moment, NOW) == text
