"""Handing the files of a job commit to an engine's workers, to be completed there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from magicfs.engine import Engine
from magicfs.job.spec import JobSpec
from magicfs.runtime.interrupt import run_on
from magicfs.transaction.delegate import (
    CompleteRemotely,
    CompletionRequest,
    CompletionResult,
    FileRange,
    complete_range,
)

__all__ = ["CompleteFiles", "Completer", "CompletionResult", "FileRange", "remotely"]


@dataclass(frozen=True)
class CompleteFiles:
    """Completes ranges of a job's files in whatever process it is called.

    It pickles without secrets, except those in ``storage_options``, which are meant to travel: they replace
    the job's, which lose their secrets on the way; None takes the job's.
    """

    spec: JobSpec
    request: CompletionRequest
    storage_options: Mapping[str, Any] | None = field(default=None, repr=False)

    def with_storage_options(self, options: Mapping[str, Any]) -> CompleteFiles:
        """The same with other options of the filesystem, secrets included."""
        told = dict(options)
        return replace(
            self, spec=replace(self.spec, filesystem=None, storage_options=told), storage_options=told
        )

    def __call__(self, files: FileRange, *, first: bool = False) -> CompletionResult:
        """Complete a range of files. No trouble raises: what became of it is in the result.

        A second call, also at the same time, finds the files completed; one that comes after the job commit
        has ended does nothing. ``first``: whether the caller knows that no other call was given these files
        before. That saves a request for each file; otherwise each is looked at before it counts.
        """
        request = replace(self.request, verify=self.request.verify or not first)
        try:
            spec = self._spec()
            engine = Engine(spec.store(), spec.concurrency)
            done: CompletionResult = run_on(spec.loop, complete_range, engine, spec.context, request, files)
        except Exception as error:  # noqa: BLE001 - the driver does it itself, and sees its own trouble
            return CompletionResult.nothing(files, f"{type(error).__name__}: {error}")
        return done

    def _spec(self) -> JobSpec:
        if self.storage_options is None:
            return self.spec
        return replace(self.spec, storage_options=dict(self.storage_options))


Completer = Callable[[CompleteFiles, Sequence[FileRange]], Iterable[CompletionResult]]
"""Calls the first argument with each range of files, anywhere, and returns what it returned, in any order.

``concurrent.futures.Executor.map`` is one. It is called in a thread of its own. What it does not report,
because a worker died or it raised, the driver does itself; a file may be completed and reported twice.
"""


def remotely(completer: Completer, spec: JobSpec) -> CompleteRemotely:
    """What hands a job's files to a completer."""

    def call(request: CompletionRequest, ranges: Sequence[FileRange]) -> Iterable[CompletionResult]:
        return completer(CompleteFiles(spec, request), ranges)

    return call
