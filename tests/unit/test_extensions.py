"""Extensions: found by the keys that options need, asked at their points, refused by name."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from typing import Any

import pytest

import magicfs
from magicfs.errors import Unavailable, UsageError
from magicfs.formats.job_options import ALL_NEEDS
from magicfs.runtime import registered
from magicfs.stores.memory.filesystem import MemoryFileSystem
from magicfs.transaction import execute
from magicfs.transaction.extension import EXTENSIONS, Extension, Settling, extensions_of


def test_each_key_that_an_option_needs_is_registered() -> None:
    assert set(registered.names(EXTENSIONS)) >= ALL_NEEDS


def test_a_job_that_asks_for_nothing_looks_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registered, "load", pytest.fail)
    with magicfs.Job("memory://extensions/plain", mode="overwrite", options={"allow_empty": True}):
        pass


def test_two_keys_of_one_extension_make_one() -> None:
    assert len(extensions_of({"keep", "restore", "hidden", "removal"})) == 1


def test_what_is_not_installed_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match=r"'who knows' of magicfs.extensions is not installed"):
        extensions_of({"who knows"})


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (("nowhere:Past",), "comes from nowhere:Past and cannot be used .ModuleNotFoundError: No module"),
        (("magicfs.past.extension:Lost",), "cannot be used .AttributeError: module 'magicfs.past.exten"),
        (("one:A", "two:B"), "is registered by one:A and two:B; nothing was changed; uninstall one"),
    ],
)
def test_what_cannot_be_loaded_is_said(
    monkeypatch: pytest.MonkeyPatch, values: tuple[str, ...], said: str
) -> None:
    points = tuple(EntryPoint("keep", one, EXTENSIONS) for one in values)
    monkeypatch.setattr(registered, "_points", lambda _: points)
    registered.load.cache_clear()
    with pytest.raises(UsageError, match=said):
        extensions_of({"keep"})


def test_what_lacks_is_refused_before_a_file_is_visible(monkeypatch: pytest.MonkeyPatch) -> None:
    url, files = "memory://extensions/lacking", MemoryFileSystem()

    def lacks(_: object) -> None:
        raise UsageError("'keep' of magicfs.extensions is not installed")

    job = magicfs.Job(url, mode="append").setup()
    with job.task(0) as task:
        task.filesystem.pipe_file(f"{task.path}/a", b"1")
    with monkeypatch.context() as without:
        without.setattr(execute, "extensions_of", lacks)
        with pytest.raises(UsageError, match="is not installed"):
            job.commit()
        assert not files.glob("extensions/lacking/a*")
    assert [one.action for one in magicfs.Dataset(url).recover().jobs] == ["finished"]
    assert len(files.glob("extensions/lacking/a*")) == 1


def test_small_files_are_said_at_the_end() -> None:
    url = "memory://extensions/small"
    for least, warnings in ((4, 0), (5, 1)):
        with magicfs.Job(url, mode="append", options={"warn_below": least}) as job, job.task(0) as task:
            task.filesystem.pipe({f"{task.path}/a": b"123", f"{task.path}/b": b"12345"})
        assert job.report is not None
        assert len(job.report.warnings) == warnings
    assert "2 published files have 4 B on average, less than warn_below" in job.report.warnings[0]


class Ending(Extension):
    def __init__(self, does: Any) -> None:
        self._does = does

    async def at_end(self, job: Settling) -> list[str] | None:
        return self._does(job)  # type: ignore[no-any-return]


def raising(_: Settling) -> None:
    raise Unavailable("put", "bucket/key", "no answer")


@pytest.mark.parametrize(
    ("does", "warned"),
    [
        (lambda job: [f"{job.output.files} files"], "0 files"),
        (lambda _: None, None),
        (raising, "the files are published, but Ending failed afterwards: put of bucket/key: no answer"),
    ],
)
def test_what_an_extension_says_at_the_end_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, does: Any, warned: str | None
) -> None:
    monkeypatch.setattr(execute, "extensions_of", lambda _: (Ending(does),))
    with magicfs.Job("memory://extensions/ending", mode="overwrite", options={"allow_empty": True}) as job:
        pass
    said = job.report.warnings
    assert (warned is None and not said) or any(warned in one for one in said)  # type: ignore[operator]
