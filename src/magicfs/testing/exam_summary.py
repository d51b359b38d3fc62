"""pytest plugin: what each subject of an exam collected, passed, failed and skipped, at the end of the run.

A test class takes part by its class attributes ``exam`` and ``subject``; ``without`` names the parts of the
exam that only ask whether they are absent, and ``left_out`` maps tests that do not concern the subject to
those whom they concern. A skipped test of a subject that is ``required`` fails the run: an exam that did not
take place has not been passed. What a test belongs to is sent with its reports, so that
runs spread over processes (pytest-xdist) are counted as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, cast

import pytest

pytest.register_assert_rewrite("magicfs.testing.store_exam")

_PROPERTY = "magicfs-exam"
_OUTCOMES = ("passed", "failed", "skipped")


class ExamSummary:
    """Counts outcomes by exam and subject."""

    def __init__(self) -> None:
        self._subjects: dict[str, tuple[str, str]] = {}
        self._required: set[tuple[str, str]] = set()
        self._without: dict[tuple[str, str], tuple[str, ...]] = {}
        self._left_out: dict[tuple[str, str], dict[str, str]] = {}
        self._collected: Counter[tuple[str, str]] = Counter()
        self._outcomes: dict[str, str] = {}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Mark the tests that belong to an exam."""
        for item in session.items:
            examined = getattr(item, "cls", None)
            exam, subject = getattr(examined, "exam", None), getattr(examined, "subject", None)
            if isinstance(exam, str) and isinstance(subject, str):
                required = bool(getattr(examined, "required", True))
                without = list(getattr(examined, "without", ()))
                left_out = dict(getattr(examined, "left_out", {}))
                item.user_properties.append((_PROPERTY, [exam, subject, required, without, left_out]))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note the outcome: a failure in any phase counts, whatever the test itself said."""
        marked = dict(report.user_properties).get(_PROPERTY)
        if marked is None:
            return
        exam, subject, required, without, left_out = cast("list[Any]", marked)
        if report.nodeid not in self._subjects:
            self._subjects[report.nodeid] = (exam, subject)
            self._collected[exam, subject] += 1
            self._without[exam, subject] = tuple(without)
            self._left_out[exam, subject] = left_out
        if required:
            self._required.add((exam, subject))
        if report.failed or (report.skipped and self._outcomes.get(report.nodeid) != "failed"):
            self._outcomes[report.nodeid] = report.outcome
        elif report.when == "call":
            self._outcomes.setdefault(report.nodeid, report.outcome)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Iterator[None]:
        """Fail the run for a skip of a required subject."""
        if self._skipped_required() and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        return (yield)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the table."""
        if not self._collected:
            return
        counts = self._counts()
        terminalreporter.section("exams")
        for examined in sorted(self._collected):
            numbers = ", ".join(f"{counts[examined][outcome]} {outcome}" for outcome in _OUTCOMES)
            without = f" (has no {', no '.join(self._without[examined])})" if self._without[examined] else ""
            terminalreporter.write_line(
                f"{': '.join(examined)}: {self._collected[examined]} collected, {numbers}{without}"
            )
            for trait, names in sorted(self._left_out_by_trait(examined).items()):
                terminalreporter.write_line(f"  {len(names)} left out, only for {trait}: {', '.join(names)}")
        for exam, subject in self._skipped_required():
            terminalreporter.write_line(
                f"FAILED: the {exam} of {subject} is required and was skipped in part", red=True
            )

    def _counts(self) -> dict[tuple[str, str], Counter[str]]:
        counts: dict[tuple[str, str], Counter[str]] = {subject: Counter() for subject in self._collected}
        for nodeid, outcome in self._outcomes.items():
            counts[self._subjects[nodeid]][outcome] += 1
        return counts

    def _left_out_by_trait(self, examined: tuple[str, str]) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for name, trait in sorted(self._left_out[examined].items()):
            found.setdefault(trait, []).append(name)
        return found

    def _skipped_required(self) -> list[tuple[str, str]]:
        counts = self._counts()
        return sorted(subject for subject in self._required if counts[subject]["skipped"])


def pytest_configure(config: pytest.Config) -> None:
    """Install the summary."""
    config.pluginmanager.register(ExamSummary(), "magicfs-exam-summary")
