"""pytest plugin: of large products each day a sample, and the whole by ``tox run -e long``.

``@pytest.mark.sample`` is for a test, class or module whose parameters are multiplied with each other. In the
default run each value of each parameter is tried, with ``sample(pairs=True)`` each pair of two values, but
not each combination. One body for several classes, as in an exam, has the class as a further parameter. With
``sample(classes="NAME")`` the body is another: each is run by one of the classes of its module that have this
mark, and with each value of its parameters. With ``sample(most=COUNT)`` not each value is tried, but of one
body so many of all combinations, other ones each day.

``@pytest.mark.turn(days=COUNT)`` is for a dear test, class or module: each test that is left has its turn on
one day of so many.

``tox run -e quick`` draws of every body one combination of parameters, unless files are named.

Hypothesis tries a quarter of its examples; in settings of a test, ``examples(COUNT)`` is that of so many.

The fixture ``some`` is for a test that goes through a long sequence itself, such as the requests of a job:
``some(requests, 10)`` is ten of them in the default run, with the first and the last.

Both draw by the seed of pytest-randomly, which the head of a run prints. ``-m long`` runs each test of
which something was left out, with all combinations and whole sequences; so does a run that names single
tests (``FILE::TEST``), and one for ``MAGICFS_EXAMS``. The end of a run says what was left out.
"""

from __future__ import annotations

import inspect
import os
import random
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any, ClassVar, TypeVar

import pytest
from hypothesis import settings

__all__ = ["Sample", "Some", "covering", "examples", "few", "may_leave_out", "pytest_configure", "some"]

_T = TypeVar("_T")
Some = Callable[[Iterable[Any], int], list[Any]]
"""What the fixture ``some`` returns."""
_LONG = "not long"
_QUICK = "not slow"
_QUICK_MOST = 1
_SENT = "magicfs_left_out"


def covering(rows: Sequence[Mapping[Any, Hashable]], strength: int, draw: random.Random) -> list[int]:
    """Indices of rows in which each combination of as many values is that is in any row."""
    parts = _parts(rows, strength)
    missing = {part for row in parts for part in row}
    left = list(range(len(rows)))
    draw.shuffle(left)
    chosen = []
    while missing:
        best = max(left, key=lambda index: len(parts[index] & missing))
        left.remove(best)
        chosen.append(best)
        missing -= parts[best]
    return sorted(chosen)


def may_leave_out(rows: Sequence[Mapping[Any, Hashable]], strength: int) -> bool:
    """Whether some draw of ``covering`` leaves out a row: one that has nothing alone."""
    parts = _parts(rows, strength)
    counts = Counter(part for row in parts for part in row)
    return any(all(counts[part] > 1 for part in row) for row in parts)


def _parts(rows: Sequence[Mapping[Any, Hashable]], strength: int) -> list[set[frozenset[Any]]]:
    return [{frozenset(some) for some in combinations(row.items(), min(strength, len(row)))} for row in rows]


def few(values: Iterable[_T], count: int, draw: random.Random) -> list[_T]:
    """As many of the values, in their order, with the first and the last."""
    every = list(values)
    if len(every) <= count:
        return every
    inner = draw.sample(range(1, len(every) - 1), max(count - 2, 0))
    return [every[index] for index in sorted({0, len(every) - 1, *inner})]


def examples(count: int) -> int:
    """How many examples of Hypothesis a test takes: of so many a quarter each day."""
    return count if Sample.is_whole else count // 4


def _row(item: pytest.Function) -> dict[Hashable, Hashable]:
    """Its class, its body, and its place in each of the lists that are multiplied with each other."""
    spec: Any = getattr(item, "callspec", None)
    body = _body(item)
    places: dict[Hashable, Hashable] = {
        (body, number): place for number, place in enumerate(spec._idlist if spec else [])
    }
    return {"class": getattr(item.cls, "__name__", ""), "body": body, **places}


def _has_examples(item: pytest.Function) -> bool:
    """Whether Hypothesis tries examples."""
    return hasattr(item.obj, "hypothesis") or hasattr(item.cls, "settings")


def _body(item: pytest.Function) -> str:
    name: str = inspect.unwrap(item.function).__qualname__
    return name


class Sample:
    """What a run draws, and what it leaves out.

    Attributes:
        whole: Whether nothing is left out.
        left_out: How many tests, and steps of tests, were left out; and of how many.
        is_whole: The same as ``whole``, for what is read while modules are imported.
    """

    is_whole: ClassVar[bool] = True

    def __init__(self, config: pytest.Config) -> None:
        self._is_long = _LONG not in config.option.markexpr
        self.whole = (
            self._is_long
            or "MAGICFS_EXAMS" in os.environ
            or any("::" in argument for argument in config.args)
        )
        self.is_quick = _QUICK in config.option.markexpr and not any(
            ".py" in argument for argument in config.args
        )
        self.left_out: Counter[str] = Counter()
        self._config = config

    @property
    def seed(self) -> Any:
        """By what all is drawn."""
        return self._config.getoption("randomly_seed", 0)

    def draw(self, what: str) -> random.Random:
        """What draws for one test."""
        return random.Random(f"{self.seed} {what}")

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Mark as long what is not in the sample; in a whole run, all that is ever left out."""
        products: dict[tuple[Any, ...], list[pytest.Function]] = {}
        inner: list[pytest.Function] = []
        for item in items:
            if not isinstance(item, pytest.Function) or item.get_closest_marker("long"):
                continue
            if (how := self._how(item)) is not None:
                of = f"classes {how['classes']}" if "classes" in how else _body(item)
                key = item.path, of, 1 + bool(how.get("pairs")), how.get("most")
                products.setdefault(key, []).append(item)
            if "some" in item.fixturenames or _has_examples(item):
                inner.append(item)
        for (path, name, strength, most), product in products.items():
            drawn = self.draw(f"{path.name} {name}")
            rows = [_row(item) for item in product]
            left: list[pytest.Function] = []
            if self._is_long:
                is_cut = may_leave_out(rows, strength) if most is None else len(rows) > most
                left = product if is_cut else []
            elif not self.whole:
                if most is None:
                    chosen = set(covering(rows, strength, drawn))
                else:
                    chosen = set(drawn.sample(range(len(rows)), min(most, len(rows))))
                left = [item for index, item in enumerate(product) if index not in chosen]
                self.left_out["tests"] += len(left)
                self.left_out["of tests"] += len(product)
            for item in left:
                item.add_marker(pytest.mark.long)
        for item in inner if self._is_long else ():
            item.add_marker(pytest.mark.long)
        for item in items:
            if not item.get_closest_marker("long") and self._waits(item):
                item.add_marker(pytest.mark.long)

    def _how(self, item: pytest.Function) -> Mapping[str, Any] | None:
        """How a test is drawn; None if it is always run."""
        marker = item.get_closest_marker("sample")
        if self.is_quick and hasattr(item, "callspec"):
            return {"most": _QUICK_MOST}
        return None if marker is None else marker.kwargs

    def _waits(self, item: pytest.Item) -> bool:
        """Whether a test has no turn today; in a long run, whether there are such days."""
        marker = item.get_closest_marker("turn")
        if marker is None or self._is_long or self.whole:
            return marker is not None and self._is_long
        waits = bool(self.draw(f"{item.nodeid} turn").randrange(marker.kwargs["days"]))
        self.left_out["tests"] += waits
        self.left_out["of tests"] += item.get_closest_marker("sample") is None  # which counted it before
        return waits

    def take(self, item: str, values: Iterable[_T], count: int) -> list[_T]:
        """Of a sequence of one test all, or some."""
        every = list(values)
        taken = every if self.whole else few(every, count, self.draw(item))
        self.left_out["steps"] += len(every) - len(taken)
        self.left_out["of steps"] += len(every)
        return taken

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Tell the process that prints."""
        if (output := getattr(session.config, "workeroutput", None)) is not None:
            output[_SENT] = dict(self.left_out)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Hear of one process: all have drawn the same tests, and each has gone through its own steps."""
        told = getattr(node, "workeroutput", {}).get(_SENT, {})
        for what, count in told.items():
            self.left_out[what] = (
                max(self.left_out[what], count) if "tests" in what else self.left_out[what] + count
            )

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say what was left out."""
        found = self.left_out
        if not (found["tests"] or found["steps"]):
            return
        terminalreporter.section("samples")
        for what in ("tests", "steps"):
            if found[what]:
                of = f"{found[what]:,} of {found[f'of {what}']:,} {what} of large products"
                terminalreporter.write_line(f"{of} were left out, drawn by --randomly-seed={self.seed}")
        all_of_them = "tests has more" if self.is_quick else "long has them all"
        terminalreporter.write_line(f"tox run -e {all_of_them}")


def pytest_configure(config: pytest.Config) -> None:
    """Install the plugin."""
    config.pluginmanager.register(made := Sample(config), "magicfs-sample")
    Sample.is_whole = made.whole
    # A deadline is a timed assertion, and fails on a busy machine.
    profile = "whole" if made.whole else "each day"
    settings.register_profile(profile, deadline=None, max_examples=examples(100))
    settings.load_profile(profile)
    config.addinivalue_line(
        "markers", "sample(pairs, classes, most): a product of which each day a sample is run"
    )
    config.addinivalue_line("markers", "turn(days): a dear test that is run on one day of so many")


@pytest.fixture
def some(request: pytest.FixtureRequest) -> Some:
    """Return ``some(values, count)``: as many of the values in the default run, all in a long one."""
    sample: Any = request.config.pluginmanager.get_plugin("magicfs-sample")

    def take(values: Iterable[_T], count: int) -> list[_T]:
        taken: list[_T] = sample.take(request.node.nodeid, values, count)
        return taken

    return take
