"""Handing the files of a job commit to an engine's workers, to be completed there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fsspec.asyn import sync

from magicfs.committers.base import Committer
from magicfs.engine import Engine
from magicfs.errors import UsageError
from magicfs.job.spec import JobSpec
from magicfs.transaction.delegate import Completed, Order, Portion, Spreading, complete_portion

__all__ = ["CompleteFiles", "Completed", "Completer", "Portion", "use"]


@dataclass(frozen=True)
class CompleteFiles:
    """Completes portions of a job's files in whatever process it is called.

    It pickles without secrets, except those in ``storage_options``, which are meant to travel.

    Attributes:
        spec: What the job was asked to do.
        order: How the files are to be completed.
        storage_options: Options of the filesystem, in place of the job's, which lose their secrets on the
            way; None takes the job's.
    """

    spec: JobSpec
    order: Order
    storage_options: Mapping[str, Any] | None = field(default=None, repr=False)

    def with_storage_options(self, options: Mapping[str, Any]) -> CompleteFiles:
        """The same with other options of the filesystem, secrets included."""
        return replace(self, spec=replace(self.spec, filesystem=None), storage_options=dict(options))

    def __call__(self, portion: Portion, *, first: bool = False) -> Completed:
        """Complete a portion. No trouble raises: what became of it is in the result.

        A second call, also at the same time, finds the files completed; one that comes after the job commit
        has ended does nothing.

        Args:
            portion: The files.
            first: Whether the caller knows that no other call was given this portion before. That saves a
                request for each file; otherwise each is looked at before it counts.
        """
        order = replace(self.order, verify=self.order.verify or not first)
        try:
            spec = self._spec()
            engine = Engine(spec.store(), spec.concurrency)
            done: Completed = sync(spec.loop, complete_portion, engine, spec.context, order, portion)
        except Exception as error:  # noqa: BLE001 - the driver does it itself, and sees its own trouble
            return Completed.nothing(portion, f"{type(error).__name__}: {error}")
        return done

    def _spec(self) -> JobSpec:
        if self.storage_options is None:
            return self.spec
        return replace(self.spec, storage_options=dict(self.storage_options))


Completer = Callable[[CompleteFiles, Sequence[Portion]], Iterable[Completed]]
"""Calls the first argument with each portion, anywhere, and returns what it returned, in any order.

``concurrent.futures.Executor.map`` is one. It is called in a thread of its own. What it does not tell,
because a worker died or it raised, the driver does itself; a portion may be completed and told twice.
"""


def use(completer: Completer, spec: JobSpec, committer: Committer) -> None:
    """Let a committer's next job commit have its files completed by an engine's workers.

    Raises:
        UsageError: This committer completes no uploads in its job commit.
    """
    if not isinstance(committer, Spreading):
        raise UsageError(
            f"committer={spec.committer!r} completes no uploads when its job commits, so there is nothing to "
            "spread; leave completer out, or use magic, directory or partitioned"
        )

    def spread(order: Order, portions: Sequence[Portion]) -> Iterable[Completed]:
        return completer(CompleteFiles(spec, order), portions)

    committer.spread = spread
