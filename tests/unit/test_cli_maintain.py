"""``magicfs maintain``: parts of guests, one report, and what becomes of the others if one fails."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import magicfs
from magicfs.cli import guests
from magicfs.cli.guests import Part
from magicfs.cli.main import main
from magicfs.errors import CommitDenied, ObjectNotFound, UsageError
from magicfs.runtime import registered
from proofs.scenes.manifests import published_manifest

COMMANDS = "magicfs.commands"
Said = Callable[..., str]


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A dataset of three jobs, of which the second has kept what it replaced, for a second."""
    where = f"file://{tmp_path}/sales"
    for number, how in enumerate(({}, {"mode": "overwrite", "keep": "1s"}, {"mode": "append"})):
        with magicfs.Job(where, committer="magic", **how) as job, job.task(0) as task:
            task.filesystem.pipe_file(f"{task.path}/{number}.bin", b"12")
    return where


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Said:
    def said(*words: str, status: int = 0) -> str:
        assert main(["maintain", *words]) == status
        shown = capsys.readouterr()
        assert bool(shown.err) == (shown.out == "")
        return shown.out or shown.err

    return said


def test_each_part_has_a_line_and_a_member(url: str, said: Said) -> None:
    time.sleep(1.1)
    lines = dict(line.split(maxsplit=1) for line in said(url, "--dry-run", status=1).splitlines())
    assert [*lines] == ["dataset", "expire", "compact", "catalogs", "next"]
    assert lines["expire"] == "would delete 1 files (2 B) that 1 jobs replaced"
    assert lines["compact"].startswith("would merge 3 manifests, of 2 files (4 B)")
    found = json.loads(said(url, "--json", "--dry-run", status=1))
    assert [*found] == ["url", "expire", "compact", "catalogs"]
    assert (found["expire"]["files"], found["compact"]["manifests"]) == (1, 3)

    lines = dict(line.split(maxsplit=1) for line in said(url).splitlines())
    assert [*lines] == ["dataset", "expire", "compact", "catalogs"]
    assert lines["expire"] == "deleted 1 files (2 B) that 1 jobs replaced"
    assert magicfs.Dataset(url).verify().files == 2
    found = json.loads(said(url, "--json"))
    assert (found["expire"]["files"], found["compact"]["manifest"], found["catalogs"]) == (0, None, [])


def test_what_is_kept_is_told_with_its_time(url: str, said: Said) -> None:
    with (
        magicfs.Job(url, committer="magic", mode="overwrite", keep="7d") as job,
        job.task(0) as task,
    ):
        task.filesystem.pipe_file(f"{task.path}/new.bin", b"1")
    assert " jobs still keep files, the next expires " in said(url, "--only", "expire")


def test_only_some_parts_are_done(url: str, said: Said) -> None:
    assert [*json.loads(said(url, "--only", "expire", "--json"))] == ["url", "expire"]
    more = said(url, "--only", "compact", "--only", "expire", "--json")
    assert [*json.loads(more)] == ["url", "expire", "compact"]
    assert "did you mean expire?" in said(url, "--only", "expires", status=2)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--partition", "p=1"], "with --rewrite, such as"),
        (["--keep", "7d"], "with --rewrite, such as"),
        (["--run-id", "tidy"], "with --rewrite, such as"),
        (["--only", "rewrite"], "with --rewrite, such as"),
        (["--rewrite", "much"], "'much' is not a size; write it as 64M or 1G"),
        (["--table", "db.sales"], "no catalog was given; add --register"),
        (["--force"], "no catalog was given; add --register"),
        (["--only", "register"], "no catalog was given; add --register"),
        (["--register", "glue"], "name the table of the glue catalog: --table db.sales"),
        (["--register", "delta", "--table", "x"], "--table is for iceberg, glue and hive"),
        (["--register", "hive", "--table", "db.sales"], "--metastore thrift://host:9083"),
        (["--register", "unity"], "--register does not accept 'unity'; choose from delta, iceberg"),
    ],
)
def test_arguments_that_need_others_are_refused_before_anything_is_done(
    words: list[str], problem: str, url: str, said: Said
) -> None:
    assert problem in said(url, *words, status=2)
    assert published_manifest(url).previous is not None, "nothing was merged"


def test_where_nothing_was_published_the_other_parts_are_done(tmp_path: Path, said: Said) -> None:
    found = json.loads(said(f"file://{tmp_path}/none", "--json", status=3))
    assert found["compact"]["error"]["kind"] == "ObjectNotFound"
    assert (found["expire"]["files"], found["catalogs"]) == (0, [])
    assert "\ncompact   failed: " in said(f"file://{tmp_path}/none", status=3)


# -- parts, whoever they are of -----------------------------------------------------------------------------


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What is registered: results and errors of parts, in the order of ``PLACE``."""
    found: dict[str, Any] = {}
    names, loaded = registered.names, registered.load

    def load(group: str, name: str, *needed: str) -> Any:
        if group == COMMANDS:
            return loaded(group, name, *needed)
        place, result = found[name]
        if isinstance(result, ModuleType):
            raise UsageError(f"{name} cannot be used")

        def run(_: object) -> Part | None:
            if isinstance(result, Exception):
                raise result
            return result

        return SimpleNamespace(PLACE=place, configure=lambda _: None, run=run)

    monkeypatch.setattr(
        registered, "names", lambda group: names(group) if group == COMMANDS else sorted(found)
    )
    monkeypatch.setattr(registered, "load", load)
    return found


def run(**how: Any) -> list[tuple[str, str, int]]:
    done = guests.run("any", SimpleNamespace(), **how)  # type: ignore[arg-type]
    return [(one.name, one.line.partition(" of b/k")[0], int(one.status)) for one in done]


def test_a_part_that_fails_keeps_no_other_from_running(parts: dict[str, Any]) -> None:
    parts |= {
        "a": (3, Part("fine")),
        "b": (1, ObjectNotFound("get", "b/k", "it is not there")),
        "c": (2, CommitDenied("another one was chosen")),
        "d": (4, None),
        "e": (0, ModuleType("broken")),
    }
    assert run() == [
        ("e", "failed: e cannot be used", 2),
        ("b", "failed: get", 3),
        ("c", "failed: another one was chosen", 4),
        ("a", "fine", 0),
    ]
    assert run(only=["a", "d"]) == [("a", "fine", 0)]


def test_the_first_error_decides_the_status_and_no_part_is_hidden(parts: dict[str, Any], said: Said) -> None:
    parts |= {
        "late": (2, CommitDenied("another one was chosen")),
        "soon": (1, ObjectNotFound("get", "b/k", "it is not there")),
        "well": (3, Part("done", {"n": 1}, [[("more", "of it")]])),
    }
    text = said("memory://b/d", status=3)
    assert text.splitlines()[1:] == [
        "soon     failed: get of b/k: it is not there; check the bucket and the key",
        "late     failed: another one was chosen",
        "well     done",
        "",
        "more  of it",
    ]
    found = json.loads(said("memory://b/d", "--json", status=3))
    assert found["late"]["error"] == {
        "kind": "CommitDenied",
        "message": "another one was chosen",
        "next": None,
        "exit_status": 4,
    }
    assert found["well"] == {"n": 1}
