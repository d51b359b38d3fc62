from __future__ import annotations

import pickle
import subprocess
import sys

import pytest

from magicfs import errors
from magicfs.report import JobReport

HEAVY = (
    "fsspec",
    "s3fs",
    "botocore",
    "aiobotocore",
    "aiohttp",
    "gcsfs",
    "google",
    "pyarrow",
    "pandas",
    "pyspark",
    "numpy",
    "tenacity",
)


def all_modules_after(code: str) -> set[str]:
    shown = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(shown.stdout.split())


def modules_after(code: str) -> set[str]:
    return {name.split(".")[0] for name in all_modules_after(code)}


@pytest.mark.process
@pytest.mark.parametrize(
    "code",
    ["import magicfs", "import magicfs.errors", "from magicfs import Dataset", "import magicfs.cli.main"],
)
def test_importing_pulls_in_nothing_heavy(code: str) -> None:
    assert not modules_after(code) & set(HEAVY)


@pytest.mark.process
def test_importing_magicfs_takes_next_to_nothing() -> None:
    # Of the standard library what takes longest; processor time itself says nothing on a busy machine.
    slow = {"asyncio", "dataclasses", "inspect", "json", "logging", "socket", "ssl", "urllib"}
    before = all_modules_after("")
    found = all_modules_after("import magicfs") - before
    assert not found & slow
    assert {name for name in found if name.startswith("magicfs")} == {
        *("magicfs", "magicfs.errors", "magicfs.version")
    }


@pytest.mark.process
def test_a_job_is_at_hand_before_what_carries_it_out() -> None:
    found = all_modules_after("import magicfs; magicfs.Job")
    assert not {name.split(".")[0] for name in found} & set(HEAVY)
    # Each waits for its first use: a worker's first file does not wait for what only drivers do.
    assert not {name for name in found if name.startswith(("magicfs.filesystem.", "magicfs.manifests"))}
    of_drivers = {name for name in found if name.startswith("magicfs.transaction.")}
    assert of_drivers <= {f"magicfs.transaction.{name}" for name in ("context", "extension")}
    committers = {name for name in found if name.startswith("magicfs.committers.")}
    assert committers == {f"magicfs.committers.{name}" for name in ("registry", "work_places")}


@pytest.mark.process
@pytest.mark.parametrize(
    "code", ["magicfs.Dataset('memory://b/d').files()", "import magicfs.spark.published.reader"]
)
def test_who_reads_waits_for_nothing_that_looks_after_datasets(code: str) -> None:
    found = all_modules_after(f"import magicfs\ntry: {code}\nexcept magicfs.errors.MagicError: pass")
    assert "magicfs.datasets.read" in found
    unneeded = {"abort", "commit", "finders", "recover"}
    assert not {name for name in found if name.startswith("magicfs.operate")}
    assert not found & {"magicfs.past.compact", *(f"magicfs.datasets.{name}" for name in unneeded)}
    assert "magicfs.transaction.driver" not in found


@pytest.mark.process
@pytest.mark.parametrize("first", ["recover", "abort", "commit"])
def test_functions_that_bear_the_names_of_their_modules_stay_functions(first: str) -> None:
    code = f"import magicfs.datasets.{first}; import magicfs.datasets as found"
    code += "; assert all(callable(getattr(found, name)) for name in found.__all__)"
    code += "; assert set(found.__all__) <= set(dir(found))"
    assert f"magicfs.datasets.{first}" in all_modules_after(code)


@pytest.mark.process
def test_the_protocol_and_the_formats_need_nothing_heavy() -> None:
    code = "import magicfs.protocol.steps, magicfs.protocol.readback, magicfs.formats.kinds"
    assert not modules_after(code) & set(HEAVY)


@pytest.mark.process
def test_memory_jobs_need_no_sdk() -> None:
    code = "import magicfs; magicfs.Job('memory://b/d', mode='append').setup()"
    assert not modules_after(code) & (set(HEAVY) - {"fsspec"})


def test_public_names_are_there_and_unknown_ones_are_not() -> None:
    import magicfs

    for name in magicfs.__all__:
        assert getattr(magicfs, name) is not None
        assert name in dir(magicfs)
    with pytest.raises(AttributeError, match="no attribute 'Jobs'"):
        _ = magicfs.Jobs


def every_error() -> list[type[errors.MagicError]]:
    return [value for name in errors.__all__ if isinstance(value := getattr(errors, name), type)]


def make(kind: type[errors.MagicError]) -> errors.MagicError:
    if issubclass(kind, errors.StoreError):
        return kind("put_part", "bucket/é %", "refused", hint="do this")
    if issubclass(kind, errors.FormatError):
        return kind("bucket/x.pending", "etags[0]", "empty")
    if issubclass(kind, errors.CommitError):
        return kind("half", done=["a"], failed=["b"], not_started=["c"])
    if issubclass(kind, errors.CommitUnfinished):
        return kind("run recover", JobReport.before("job", "s3://bucket/sales", "magic", "append"))
    return kind("wrong; do this")


@pytest.mark.parametrize("kind", every_error())
def test_every_error_pickles_with_everything_it_knows(kind: type[errors.MagicError]) -> None:
    error = make(kind)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind
    assert str(again) == str(error)
    assert again.__dict__ == error.__dict__
    assert getattr(again, "errno", None) == getattr(error, "errno", None)


@pytest.mark.parametrize("kind", every_error())
def test_every_error_stands_in_the_drawn_tree(kind: type[errors.MagicError]) -> None:
    assert errors.__doc__ is not None
    assert f" {kind.__name__}" in errors.__doc__ or kind is errors.MagicError


def test_builtin_classes_where_users_expect_them() -> None:
    assert issubclass(errors.UsageError, ValueError)
    assert issubclass(errors.ObjectNotFound, FileNotFoundError)
    assert issubclass(errors.ObjectExists, FileExistsError)
    assert issubclass(errors.PermissionDenied, PermissionError)
    assert not issubclass(errors.UploadNotFound, FileNotFoundError)
