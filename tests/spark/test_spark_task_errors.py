"""From the text of a task's traceback back to its error."""

from __future__ import annotations

import traceback

import pytest

from magicfs.errors import (
    CommitFailed,
    FormatError,
    MagicError,
    OutputExists,
    PermissionDenied,
    ProtocolViolation,
    UsageError,
)
from magicfs.spark.writing import raised_in_task


def shown(error: BaseException, *, cause: BaseException | None = None) -> RuntimeError:
    """What Spark raises on the driver: the text of the traceback, between its own words."""
    try:
        raise error from cause
    except type(error):
        text = traceback.format_exc()
    return RuntimeError(
        f"An exception was thrown from the Python worker:\n{text}\n SQLSTATE: 38000\n\tat o.a.s"
    )


@pytest.mark.parametrize(
    "error",
    [
        UsageError("the column is wrong; name another"),
        ProtocolViolation("too late; run it again"),
        FormatError("b/k", "commits[0]", "is no object"),
        PermissionDenied("put", "b/k", "AccessDenied"),
        OutputExists("holds data already; use another mode"),
        CommitFailed("gone: 3 of 4; run it again", done=["a"], failed=["b"]),
    ],
)
def test_class_and_message_are_the_tasks(error: MagicError) -> None:
    spark = shown(error)
    found = raised_in_task(spark)
    assert type(found) is type(error)
    assert str(found) == str(error)
    assert found.__cause__ is spark


def test_the_outermost_error_counts_and_keeps_its_notes() -> None:
    error = CommitFailed("task 1 was not committed; run it again")
    error.add_note("and: a file is open")
    found = raised_in_task(shown(error, cause=UsageError("the file is open; close it")))
    assert isinstance(found, CommitFailed)
    assert found.__notes__ == ["and: a file is open"]
    assert (found.done, found.failed, found.not_started) == ((), (), ())


@pytest.mark.parametrize("error", [ValueError("magicfs.errors.UsageError"), RuntimeError("x"), KeyError(1)])
def test_errors_of_others_stay_with_spark(error: Exception) -> None:
    assert raised_in_task(shown(error)) is None


def test_an_error_of_ours_that_only_caused_another_is_not_it() -> None:
    assert raised_in_task(shown(ValueError("mine"), cause=UsageError("ours; mend it"))) is None
