"""What distributions add to the command line, and what becomes of one that is broken."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import magicfs
from magicfs.cli.main import commands_of, main
from magicfs.runtime import registered

ROOT = Path(__file__).parents[2]
GROUPS = ("magicfs.commands", "magicfs.maintain", "magicfs.recover")
ALL_GROUPS = (*GROUPS, "magicfs.committers", "magicfs.extensions", "magicfs.finders")
COMMAND = """
HELP = "say what was given"

def configure(parser):
    parser.add_argument("word")

def run(arguments):
    print(arguments.word)
    return 7
"""
MENDER = """
from magicfs.cli.guests import Part

def configure(parser):
    parser.add_argument("--also", default="a shelf")

def run(arguments):
    return Part("a shelf", [{"name": arguments.also}], [[("shelf", arguments.also)]], 1)
"""
Install = Callable[..., None]


def forget() -> None:
    """Look at what is installed now."""
    registered.load.cache_clear()
    registered._points.cache_clear()


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Installs the distribution ``joinery`` 1.2, whose module of a given text is in a group."""

    def install(group: str, name: str, text: str) -> None:
        (tmp_path / f"joinery_{name}.py").write_text(text)
        where = tmp_path / "joinery-1.2.dist-info"
        where.mkdir(exist_ok=True)
        (where / "METADATA").write_text("Metadata-Version: 2.1\nName: joinery\nVersion: 1.2\n")
        with (where / "entry_points.txt").open("a") as file:
            file.write(f"[{group}]\n{name} = joinery_{name}\n")
        monkeypatch.delitem(sys.modules, f"joinery_{name}", raising=False)
        monkeypatch.syspath_prepend(tmp_path)
        forget()

    yield install
    forget()


@pytest.mark.parametrize("group", ALL_GROUPS)
def test_what_is_installed_is_what_the_project_says(group: str) -> None:
    said = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"][group]
    found = {one.name: one.value for one in entry_points(group=group) if one.value.startswith("magicfs.")}
    assert found == said, "the installation is older than pyproject.toml: pip install -e ."


def test_a_command_of_another_distribution_is_a_command(
    install: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    install("magicfs.commands", "echo", COMMAND)
    assert list(commands_of())[-1] == "echo", "one that gives no place comes last"
    assert main(["--json", "echo", "hello"]) == 7
    assert capsys.readouterr().out == "hello\n"
    assert main(["echo", "--help"]) == 0
    assert "say what was given" in capsys.readouterr().out


def test_a_command_of_another_distribution_stands_where_it_says(install: Install) -> None:
    install("magicfs.commands", "echo", f"{COMMAND}\nPLACE = ('publish', 1.5)")
    assert list(commands_of())[:3] == ["write", "echo", "job"]


def test_nobody_takes_the_name_of_a_command_of_the_core(install: Install) -> None:
    before = commands_of()["recover"].format_help()
    install("magicfs.commands", "recover", COMMAND)
    assert commands_of()["recover"].format_help() == before


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("import there_is_none", "ModuleNotFoundError: No module named 'there_is_none'"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("HELP = 'no more'", "AttributeError: module 'joinery_echo' has no attribute 'configure'"),
    ],
)
def test_a_command_that_cannot_be_loaded_says_what_to_install_and_leaves_the_others(
    text: str, why: str, install: Install, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    install("magicfs.commands", "echo", text)
    for asked in (["echo"], ["echo", "hello"], ["echo", "--help"]):
        assert main(asked) == 2
        assert capsys.readouterr().err == (
            f"magicfs: 'echo' of magicfs.commands comes from joinery and cannot be used ({why}); "
            "everything else works; install it again: python -m pip install --force-reinstall joinery\n"
        )
    assert main(["--help"]) == 0
    assert "cannot be loaded; run magicfs echo to see why" in capsys.readouterr().out
    assert main(["log", published(tmp_path)]) == 0
    assert main(["--completion", "bash"]) == 0


def published(tmp_path: Path) -> str:
    url = f"file://{tmp_path}/sales"
    with magicfs.Job(url, committer="magic", mode="append") as job, job.task(0) as task:
        task.filesystem.pipe_file(f"{task.path}/a", b"1")
    return url


def test_what_goes_along_with_a_recovery_has_options_and_is_printed(
    install: Install, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    url = published(tmp_path)
    install("magicfs.recover", "shelves", MENDER)
    assert main(["recover", url, "--also", "mine"]) == 1
    assert capsys.readouterr().out.endswith("\n\nshelf  mine\n")
    assert main(["recover", url, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["shelves"] == [{"name": "a shelf"}]


def test_a_recovery_goes_on_without_what_cannot_be_loaded(
    install: Install, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    url = published(tmp_path)
    install("magicfs.recover", "shelves", "import there_is_none")
    assert main(["recover", url]) == 2
    first, _, block = capsys.readouterr().out.partition("\n\n")
    assert first == f"no unfinished job under {url}; nothing was changed"
    assert block.startswith("shelves  failed: 'shelves' of magicfs.recover comes from joinery and cannot be")
    assert main(["recover", url, "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["shelves"]["error"]["exit_status"] == 2


def modules_after(*words: str) -> set[str]:
    code = f"import sys; from magicfs.cli.main import main; main({[*words]!r}); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.process
@pytest.mark.parametrize(
    ("command", "guests"),
    [
        ("recover", {"catalogs", "past"}),
        ("verify", {"operate"}),
        ("rollback", {"past", "tables"}),
        ("write", {"tables"}),
        ("maintain", {"past", "tables", "catalogs"}),
    ],
)
def test_only_the_command_that_is_called_is_imported(command: str, guests: set[str]) -> None:
    modules = modules_after(command, "--help")
    rooms = {one.split(".")[1] for one in modules if one.startswith("magicfs.")}
    assert rooms & {"operate", "past", "tables", "catalogs", "spark", "engines", "torch"} == guests
    assert not modules & {"fsspec", "pyarrow", "magicfs.stores", "magicfs.operate.commands.show"}
    assert ("importlib.metadata" in modules) == bool(guests)


@pytest.mark.process
def test_the_help_loads_no_store_and_nothing_heavy() -> None:
    modules = modules_after("--help")
    assert {"magicfs.tables.commands.rollback", "magicfs.upkeep.commands.maintain"} <= modules
    assert not modules & {"fsspec", "pyarrow", "asyncio", "magicfs.stores", "magicfs.transaction"}
    assert "importlib.metadata" not in modules_after("--version", "--json")
