"""pytest plugin: what the gate runs of large products, and the rest at night, in shards.

``@pytest.mark.sample`` is for a test, class or module whose parameters are multiplied with each other. In
the gate, which is the default run, each value of each parameter is tried, with ``sample(pairs=True)`` each
pair of two values, but not each combination. One body for several classes, as in an exam, has the class as a
further parameter. With ``sample(classes="NAME")`` the body is another: each is run by one of the classes of
its module that have this mark, and with each value of its parameters. With ``sample(most=COUNT)`` not each
value is tried, but of one body so many combinations as have the most of them. Where a parameter is a server,
the gate takes those of ``DEAR`` only for what there is no other for.

``@pytest.mark.nightly`` is for a test that the gate leaves out.

``tox run -e quick`` takes of every body one combination of parameters, unless files are named.

Hypothesis tries a quarter of its examples in the gate; in settings of a test, ``examples(COUNT)`` is that of
so many. The fixture ``some`` is for a test that goes through a long sequence itself, such as the requests of
a job: ``some(requests, 10)`` is ten of them in the gate, with the first and the last.

What the gate takes depends on nothing but the names of a module, its bodies and their parameters: not on a
seed, the day, the order, or the other tests of a run. ``-m nightly`` runs each test of which the gate leaves
something out, with whole sequences, and Hypothesis draws other examples each time. ``--shard 3/8`` runs the
third eighth of whatever is asked for; classes, and modules without, stay whole. A run that names single tests
(``FILE::TEST``), and one for ``MAGICFS_EXAMS``, leaves nothing out. The end of a run says what was left out.
"""

from __future__ import annotations

import argparse
import inspect
import os
import random
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, ClassVar, TypeVar

import pytest
from hypothesis import settings

__all__ = [
    "DEAR",
    "Sample",
    "Some",
    "covering",
    "examples",
    "few",
    "in_shard",
    "pytest_addoption",
    "pytest_collection_modifyitems",
    "pytest_configure",
    "some",
]

DEAR = frozenset({"azurite", "moto", "seaweedfs", "versions on moto", "versions on seaweedfs"})
"""Servers that the gate starts for few tests: ministack and the doubles of other clouds stand for them."""
_T = TypeVar("_T")
Some = Callable[[Iterable[Any], int], list[Any]]
"""What the fixture ``some`` returns."""
_GATE = "not nightly"
_QUICK = "not slow"
_QUICK_MOST = 1
_SENT = "magicfs_left_out"


def covering(
    rows: Sequence[Mapping[Any, Hashable]], strength: int, draw: random.Random, most: int | None = None
) -> list[int]:
    """Indices of rows in which each combination of as many values is that is in any row.

    Args:
        rows: Values by the names of their parameters.
        strength: How many values a combination has.
        draw: Chooses between rows that have as many combinations more.
        most: Ends with so many rows, whatever is missing then.
    """
    parts = _parts(rows, strength)
    missing = {part for row in parts for part in row}
    left = list(range(len(rows)))
    draw.shuffle(left)
    chosen: list[int] = []
    while missing and len(chosen) != most:
        best = max(left, key=lambda index: len(parts[index] & missing))
        left.remove(best)
        chosen.append(best)
        missing -= parts[best]
    return sorted(chosen)


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
    """How many examples of Hypothesis a test takes: of so many a quarter in the gate."""
    return count if Sample.is_whole else count // 4


def in_shard(nodeids: Iterable[str], number: int, count: int) -> set[str]:
    """The tests of one shard of so many, from 1: whole classes and modules, which share servers.

    The largest goes first, to the shard that has the fewest tests by then.
    """
    scopes: dict[str, list[str]] = {}
    for nodeid in nodeids:
        scopes.setdefault(nodeid.partition("[")[0].rpartition("::")[0], []).append(nodeid)
    shards: list[set[str]] = [set() for _ in range(count)]
    for scope in sorted(scopes, key=lambda scope: (-len(scopes[scope]), scope)):
        min(shards, key=len).update(scopes[scope])
    return shards[number - 1]


def _shard(text: str) -> tuple[int, int]:
    number, _, count = text.partition("/")
    if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise argparse.ArgumentTypeError(f"{text!r} is no shard; write 3/8 for the third of eight")
    return int(number), int(count)


def _row(item: pytest.Function) -> dict[Hashable, Hashable]:
    """Its class, its body, and its place in each of the lists that are multiplied with each other."""
    spec: Any = getattr(item, "callspec", None)
    body = _body(item)
    places: dict[Hashable, Hashable] = {
        (body, number): place for number, place in enumerate(spec._idlist if spec else [])
    }
    return {"class": getattr(item.cls, "__name__", ""), "body": body, **places}


def _is_dear(row: Mapping[Hashable, Hashable]) -> bool:
    return any(part in DEAR for value in row.values() for part in str(value).split("-"))


def _has_examples(item: pytest.Function) -> bool:
    """Whether Hypothesis tries examples."""
    return hasattr(item.obj, "hypothesis") or hasattr(item.cls, "settings")


def _body(item: pytest.Function) -> str:
    name: str = inspect.unwrap(item.function).__qualname__
    return name


class Sample:
    """What a run takes, and what it leaves out.

    Attributes:
        is_nightly: Whether it runs what the gate leaves out.
        whole: Whether nothing is left out.
        left_out: How many tests, and steps of tests, were left out; and of how many.
        is_whole: The same as ``whole``, for what is read while modules are imported.
    """

    is_whole: ClassVar[bool] = True

    def __init__(self, config: pytest.Config) -> None:
        self.is_nightly = _GATE not in config.option.markexpr
        self.whole = (
            self.is_nightly
            or "MAGICFS_EXAMS" in os.environ
            or any("::" in argument for argument in config.args)
        )
        self.is_quick = _QUICK in config.option.markexpr and not any(
            ".py" in argument for argument in config.args
        )
        self.left_out: Counter[str] = Counter()

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Mark as nightly what the gate leaves out."""
        functions = [item for item in items if isinstance(item, pytest.Function)]
        if self.is_nightly or not self.whole:
            for item in self._left_out_of(functions):
                item.add_marker(pytest.mark.nightly)
        if self.is_nightly:
            for item in functions:
                if "some" in item.fixturenames or _has_examples(item):
                    item.add_marker(pytest.mark.nightly)

    def _left_out_of(self, items: Iterable[pytest.Function]) -> Iterator[pytest.Function]:
        """What the gate does not run of products."""
        products: dict[tuple[Any, ...], list[pytest.Function]] = {}
        for item in items:
            if item.get_closest_marker("nightly") is None and (how := self._how(item)) is not None:
                of = f"classes {how['classes']}" if "classes" in how else _body(item)
                key = item.path.name, item.path, of, 1 + bool(how.get("pairs")), how.get("most")
                products.setdefault(key, []).append(item)
        for (file, _, of, strength, most), product in products.items():
            product.sort(key=lambda item: item.nodeid)
            rows = [_row(item) for item in product]
            cheap = [row for row in rows if not _is_dear(row)] or rows
            indices = covering(cheap, strength, random.Random(f"{file} {of}"), most)
            chosen = [cheap[index] for index in indices]
            self.left_out["tests"] += len(product) - len(chosen)
            self.left_out["of tests"] += len(product)
            yield from (item for item, row in zip(product, rows, strict=True) if row not in chosen)

    def _how(self, item: pytest.Function) -> Mapping[str, Any] | None:
        """How some stand for all of a product; None if all of it is run."""
        marker = item.get_closest_marker("sample")
        if self.is_quick and hasattr(item, "callspec"):
            return {"most": _QUICK_MOST}
        return None if marker is None else marker.kwargs

    def take(self, item: str, values: Iterable[_T], count: int) -> list[_T]:
        """Of a sequence of one test all, or some."""
        every = list(values)
        taken = every if self.whole else few(every, count, random.Random(item))
        self.left_out["steps"] += len(every) - len(taken)
        self.left_out["of steps"] += len(every)
        return taken

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Tell the process that prints."""
        if (output := getattr(session.config, "workeroutput", None)) is not None:
            output[_SENT] = dict(self.left_out)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Hear of one process: all have taken the same tests, and each has gone through its own steps."""
        told = getattr(node, "workeroutput", {}).get(_SENT, {})
        for what, count in told.items():
            self.left_out[what] = (
                max(self.left_out[what], count) if "tests" in what else self.left_out[what] + count
            )

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say what was left out."""
        found = self.left_out
        if self.whole or not (found["tests"] or found["steps"]):
            return
        terminalreporter.section("samples")
        for what in ("tests", "steps"):
            if found[what]:
                of = f"{found[what]:,} of {found[f'of {what}']:,} {what} of large products"
                terminalreporter.write_line(f"{of} were left out")
        more = "tests has more" if self.is_quick else "nightly has them all"
        terminalreporter.write_line(f"tox run -e {more}")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a run be one of several."""
    parser.addoption(
        "--shard", type=_shard, metavar="NUMBER/COUNT", help="run one of so many parts of the tests"
    )


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests of this shard, of those that markers and names have left."""
    if (shard := config.getoption("shard")) is not None:
        here = in_shard((item.nodeid for item in items), *shard)
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in here])
        items[:] = [item for item in items if item.nodeid in here]


def pytest_configure(config: pytest.Config) -> None:
    """Install the plugin."""
    config.pluginmanager.register(made := Sample(config), "magicfs-sample")
    Sample.is_whole = made.whole
    # A deadline is a timed assertion, and fails on a busy machine.
    profile = "nightly" if made.is_nightly else "whole" if made.whole else "gate"
    settings.register_profile(
        profile,
        deadline=None,
        max_examples=examples(100),
        derandomize=not made.is_nightly,
        print_blob=made.is_nightly,
    )
    settings.load_profile(profile)
    config.addinivalue_line(
        "markers", "sample(pairs, classes, most): a product of which the gate runs a sample"
    )


@pytest.fixture
def some(request: pytest.FixtureRequest) -> Some:
    """Return ``some(values, count)``: as many of the values in the gate, all at night."""
    sample: Any = request.config.pluginmanager.get_plugin("magicfs-sample")

    def take(values: Iterable[_T], count: int) -> list[_T]:
        taken: list[_T] = sample.take(request.node.nodeid, values, count)
        return taken

    return take
