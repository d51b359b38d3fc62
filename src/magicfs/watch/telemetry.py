"""Jobs as OpenTelemetry sees them: spans, events and metrics.

A job is a span. Its children are its setup, its tasks and its commit, and those of a commit are its phases:
``prepare`` up to the commit point, ``complete`` until every file is visible, ``publish`` until the job has
ended. A task in another process is a child of the job's span, whose context travels with the task.

Requests are counted in dictionaries, where they are made; OpenTelemetry reads those when it collects.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import wraps
from operator import attrgetter
from typing import TYPE_CHECKING, Final, TypeVar, cast

from magicfs.errors import UsageError
from magicfs.runtime import watchers
from magicfs.stores import resolve
from magicfs.stores.delegating import DelegatingStore
from magicfs.stores.port import Store
from magicfs.version import __version__

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation
    from opentelemetry.trace import Span, TracerProvider

_T = TypeVar("_T")
_Method = TypeVar("_Method", bound=Callable[..., object])
_Facts = Mapping[str, object]

METRICS: Final = {
    "magicfs.jobs": ("{job}", "Jobs, by destination and by the step that they have reached"),
    "magicfs.files": ("{file}", "Files that were published"),
    "magicfs.bytes": ("By", "Bytes that were published"),
    "magicfs.rows": ("{row}", "Rows that were published, where tasks counted them"),
    "magicfs.requests": ("{request}", "Requests to stores, by operation, without repetitions"),
    "magicfs.retries": ("{request}", "Requests that were made again, by operation and cause"),
    "magicfs.conflicts": ("{conflict}", "Times that another process moved a job first"),
    "magicfs.phase.duration": ("s", "Seconds of each phase of a job"),
}
"""Unit and description of each metric. ``magicfs.phase.duration`` is a histogram, all others are counters."""

_PHASES: Final = {"committing": "complete", "completed": "publish"}
"""The phases that begin with a state."""
_SEEN_ANYWAY: Final = frozenset({"open", "ended"})
"""States with which a span begins or ends."""
_OF_SPAN: Final = frozenset({"url", "job", "run", "mode"})
_NAMES: Final = {
    "url": "magicfs.destination",
    "job": "magicfs.job.id",
    "run": "magicfs.run.id",
    "task": "magicfs.task.id",
    "attempt": "magicfs.attempt.id",
}
_TASKS_MAX: Final = 10_000
"""Most tasks whose spans are open; of more, the oldest ends."""


@dataclass(slots=True)
class _Work:
    """Work that is under way."""

    span: Span
    requests: Counter[str] = field(default_factory=Counter)
    phase: Span | None = None  # the part of it that is under way
    name: str = ""  # of the phase
    began: float = 0.0
    before: Counter[str] = field(default_factory=Counter)  # requests before the phase


_WORK: ContextVar[_Work | None] = ContextVar("magicfs_work", default=None)


def _counted(method: _Method) -> _Method:
    """A method of the port that is called for each file: without a coroutine of its own."""
    name, call = method.__name__, attrgetter(method.__name__)

    @wraps(method)
    def ask(self: _WatchedStore, *args: object, **kwargs: object) -> object:
        self.counts[name] += 1
        if (work := _WORK.get()) is not None:
            work.requests[name] += 1
        return call(self.inner)(*args, **kwargs)

    return cast("_Method", ask)


class _WatchedStore(DelegatingStore):
    """Counts requests; a listing counts one for each page that it begins."""

    def __init__(self, inner: Store, counts: Counter[str]) -> None:
        super().__init__(inner)
        self.counts = counts

    def count(self, operation: str) -> None:
        self.counts[operation] += 1
        if (work := _WORK.get()) is not None:
            work.requests[operation] += 1

    create_upload = _counted(Store.create_upload)
    put_part = _counted(Store.put_part)
    complete_upload = _counted(Store.complete_upload)
    put = _counted(Store.put)
    get = _counted(Store.get)
    head = _counted(Store.head)

    async def _around(self, operation: str, key: str, request: Callable[[], Awaitable[_T]]) -> _T:  # noqa: ARG002
        self.count(operation)
        return await request()

    def _steps(self, operation: str, prefix: str, items: AsyncIterator[_T]) -> AsyncIterator[_T]:  # noqa: ARG002
        return _Listing(items, self, operation)


class _Listing(AsyncIterator[_T]):
    """A listing, which can be asked again after a step has failed."""

    def __init__(self, items: AsyncIterator[_T], store: _WatchedStore, operation: str) -> None:
        self._items, self._store, self._operation = items, store, operation
        self._page = store.capabilities.list_page_max
        self._seen = 0

    async def __anext__(self) -> _T:
        if not self._seen:
            self._store.count(self._operation)
        found = await anext(self._items)
        if self._seen and not self._seen % self._page:
            self._store.count(self._operation)
        self._seen += 1
        return found


class Telemetry:
    """The watcher."""

    def __init__(self, tracers: TracerProvider | None, meters: MeterProvider | None) -> None:
        from opentelemetry import metrics, propagate, trace

        self._trace, self._propagate = trace, propagate
        self._tracer = trace.get_tracer("magicfs", __version__, tracers)
        meter = metrics.get_meter("magicfs", __version__, meters)
        counters = [name for name in METRICS if name not in {"magicfs.requests", "magicfs.phase.duration"}]
        self._counters = {
            name: meter.create_counter(name, unit=METRICS[name][0], description=METRICS[name][1])
            for name in counters
        }
        unit, description = METRICS["magicfs.phase.duration"]
        self._seconds = meter.create_histogram("magicfs.phase.duration", unit=unit, description=description)
        self._requests: Counter[str] = Counter()
        unit, description = METRICS["magicfs.requests"]
        meter.create_observable_counter(
            "magicfs.requests", [self._observed], unit=unit, description=description
        )
        self._lock = threading.Lock()
        self._jobs: dict[str, Span] = {}
        self._tasks: dict[tuple[str, str], Span] = {}

    def _observed(self, _: CallbackOptions) -> Iterator[Observation]:
        from opentelemetry.metrics import Observation

        for operation, number in list(self._requests.items()):
            yield Observation(number, {"operation": operation})

    # -- what watchers are asked -----------------------------------------------------------------------

    def store(self, store: Store) -> Store:
        """The store, and around it what counts its requests."""
        return _WatchedStore(store, self._requests)

    @contextmanager
    def work(self, name: str, facts: _Facts) -> Iterator[None]:
        if name == "setup":
            self._begin_job(facts)
        failure: BaseException | None = None
        parent = self._parent(name, facts)
        with self._tracer.start_as_current_span(name, context=parent, attributes=_attributes(facts)) as span:
            work = _Work(span)
            token = _WORK.set(work)
            if name == "commit":
                self._begin_phase(work, "prepare")
            began = time.monotonic()
            try:
                yield
            except BaseException as error:
                failure = error
                raise
            finally:
                _WORK.reset(token)
                self._end_phase(work)
                span.set_attributes(_requests(work.requests))
                self._seconds.record(time.monotonic() - began, {"phase": name})
                self._end(name, facts, failure)

    def happened(self, name: str, facts: _Facts) -> None:
        work, phase = _WORK.get(), _PHASES.get(name)
        if name == "task set up":
            self._begin_task(facts)
        elif name == "retry":
            how: dict[str, str | bool] = {
                "operation": str(facts["operation"]),
                "throttled": bool(facts["throttled"]),
            }
            self._counters["magicfs.retries"].add(1, how)
            self._event("throttled" if facts["throttled"] else "retry", facts)
        elif name in watchers.STEPS:
            self._step(name, facts)
        elif phase is not None and work is not None:
            if work.name != phase:
                self._end_phase(work)
                self._begin_phase(work, phase)
        elif name not in _SEEN_ANYWAY:
            if name == "conflict":
                self._counters["magicfs.conflicts"].add(1)
            self._event(name, facts)

    # -- jobs and tasks --------------------------------------------------------------------------------

    def _begin_job(self, facts: _Facts) -> None:
        span = self._tracer.start_span("job", attributes=_attributes(facts))
        carried = cast("dict[str, str]", facts["carried"])
        self._propagate.inject(carried, context=self._trace.set_span_in_context(span))
        with self._lock:
            self._jobs[str(facts["job"])] = span

    def _begin_task(self, facts: _Facts) -> None:
        parent = self._parent("task", facts)
        span = self._tracer.start_span("task", context=parent, attributes=_attributes(facts))
        with self._lock:
            self._tasks[str(facts["job"]), str(facts["attempt"])] = span
            old = self._tasks.pop(next(iter(self._tasks))) if len(self._tasks) > _TASKS_MAX else None
        if old is not None:
            old.end()

    def _parent(self, name: str, facts: _Facts) -> Context | None:
        """The context of a span's parent: its task, its job, or None for what is current."""
        job = str(facts["job"])
        with self._lock:
            span = self._jobs.get(job)
            if name.startswith("task "):
                span = self._tasks.get((job, str(facts["attempt"])), span)
        if span is not None:
            return self._trace.set_span_in_context(span)
        carried = facts.get("carried")
        return self._propagate.extract(cast("dict[str, str]", carried)) if carried else None

    def _end(self, name: str, facts: _Facts, failure: BaseException | None) -> None:
        job = str(facts["job"])
        ended: list[Span | None] = []
        with self._lock:
            if name.startswith("task "):
                ended.append(self._tasks.pop((job, str(facts["attempt"])), None))
            elif name in {"commit", "abort"} or (name == "setup" and failure is not None):
                left = [one for one in self._tasks if one[0] == job]
                ended += [*(self._tasks.pop(one) for one in left), self._jobs.pop(job, None)]
        for span in filter(None, ended):
            if failure is not None:
                span.set_status(self._trace.Status(self._trace.StatusCode.ERROR, str(failure)))
            span.end()

    # -- phases and events -----------------------------------------------------------------------------

    def _begin_phase(self, work: _Work, name: str) -> None:
        parent = self._trace.set_span_in_context(work.span)
        work.phase, work.name = self._tracer.start_span(name, context=parent), name
        work.began, work.before = time.monotonic(), Counter(work.requests)

    def _end_phase(self, work: _Work) -> None:
        if work.phase is None:
            return
        work.phase.set_attributes(_requests(work.requests - work.before))
        work.phase.end()
        self._seconds.record(time.monotonic() - work.began, {"phase": work.name})
        work.phase = None

    def _step(self, step: str, facts: _Facts) -> None:
        self._counters["magicfs.jobs"].add(1, {"step": step, "destination": str(facts["url"])})
        if step == "published":
            for name in ("files", "bytes", "rows"):
                self._counters[f"magicfs.{name}"].add(cast("int", facts[name] or 0))
        self._event(step, facts)

    def _event(self, name: str, facts: _Facts) -> None:
        """On the span of the work, else on that of the job that the request is made for."""
        work = _WORK.get()
        span = self._jobs.get(str(facts.get("job") or watchers.job())) if work is None else work.span
        news = {fact: value for fact, value in facts.items() if fact not in _OF_SPAN}
        (span or self._trace.get_current_span()).add_event(str(name), _attributes(news))


def _attributes(facts: _Facts) -> dict[str, str | int | float | bool]:
    known = {name: value for name, value in facts.items() if isinstance(value, str | int | float)}
    return {_NAMES.get(name, f"magicfs.{name}"): value for name, value in known.items()}


def _requests(counts: Counter[str]) -> dict[str, int]:
    return {f"magicfs.requests.{operation}": number for operation, number in counts.items()}


_STARTED: Final[list[Telemetry]] = []


def start(
    *, tracer_provider: TracerProvider | None = None, meter_provider: MeterProvider | None = None
) -> None:
    """Report the jobs of this process to OpenTelemetry. A second call does nothing.

    Call it in each process that has jobs or tasks, before it opens any; or start the process by
    ``opentelemetry-instrument``, which calls it.

    Args:
        tracer_provider: Takes the spans; by default the process's own.
        meter_provider: Takes the metrics; by default the process's own.

    Raises:
        UsageError: OpenTelemetry is not installed.
    """
    if _STARTED:
        return
    try:
        made = Telemetry(tracer_provider, meter_provider)
    except ImportError as error:
        raise UsageError("magicfs.watch.start() needs OpenTelemetry; pip install 'magicfs[otel]'") from error
    _STARTED.append(made)
    watchers.WATCHERS.append(made)
    resolve.AROUND.append(made.store)


def stop() -> None:
    """Stop reporting. A second call does nothing."""
    while _STARTED:
        made = _STARTED.pop()
        watchers.WATCHERS.remove(made)
        resolve.AROUND.remove(made.store)


class Instrumentor:
    """What ``opentelemetry-instrument`` calls."""

    def instrument(self, **how: object) -> None:
        """See ``start``."""
        named = {"tracer_provider", "meter_provider"}
        start(**{name: value for name, value in how.items() if name in named})

    def uninstrument(self, **_: object) -> None:
        """See ``stop``."""
        stop()
