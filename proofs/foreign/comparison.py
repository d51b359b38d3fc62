"""Two runs of one suite, compared test by test, and what may differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

__all__ = ["Comparison", "Difference", "compare", "counted"]

_PASSED = {"passed", "xpassed"}
_FAILED = {"failed", "error"}


@dataclass(frozen=True)
class Difference:
    """Tests that end otherwise when the library writes through a task."""

    library: str
    tests: tuple[str, ...]  # ends of ids; without parameters, every one of them
    plain: str
    through: str
    reason: str

    def names(self, test: str) -> bool:
        """Whether a test is one of these."""
        return any(_is(test, one) for one in self.tests)


@dataclass(frozen=True)
class Comparison:
    """What two runs of one library's suites have shown; troubles are whole sentences."""

    differing: Mapping[str, str]  # the reason of each test that differs as it may
    troubles: tuple[str, ...]


def compare(
    plain: Mapping[str, str], through: Mapping[str, str], allowed: Sequence[Difference]
) -> Comparison:
    """Compare outcomes by test id. Troubles: what no difference names, and one that is not met."""
    differing: dict[str, str] = {}
    troubles = [f"{test} {outcome} without magicfs" for test, outcome in plain.items() if outcome in _FAILED]
    for test in sorted(plain.keys() | through.keys()):
        ended = (plain.get(test, "missing"), through.get(test, "missing"))
        named = [one for one in allowed if one.names(test)]
        if any(ended != (one.plain, one.through) for one in named):
            troubles.append(f"{test} was {' and '.join(ended)}, which is not what its difference tells")
        elif named:
            differing[test] = named[0].reason
        elif ended[0] != ended[1]:
            troubles.append(f"{test} {ended[0]} plain and {ended[1]} through a task")
    troubles += [
        f"{name} is named as a difference and was not run"
        for one in allowed
        for name in one.tests
        if not any(_is(test, name) for test in plain)
    ]
    return Comparison(differing, tuple(troubles))


def counted(outcomes: Mapping[str, str]) -> dict[str, int]:
    """How many tests passed, failed and were left out."""
    counts = Counter(outcomes.values())
    return {
        "passed": sum(counts[one] for one in _PASSED),
        "failed": sum(counts[one] for one in _FAILED),
        "skipped": counts["skipped"],
        "xfailed": counts["xfailed"],
    }


def _is(test: str, name: str) -> bool:
    return test.endswith(f"/{name}") or test.partition("[")[0].endswith(f"/{name}")
