"""The page about performance: each run writes its own part, and nothing else of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from benchmarks.figures import Figure
from benchmarks.pictures import drawn
from benchmarks.session import SideTimes
from benchmarks.table import cells, number
from benchmarks.targets import Run, of_run

__all__ = ["QUICK", "part", "part_of", "write"]

QUICK = "**A quick run: its sizes are small, and these figures mean nothing.**"
_SUFFIX = ".svg"


def write(
    path: Path,
    run: Run,
    figures: Mapping[str, Figure],
    told: Mapping[str, Any],
    sides: Sequence[SideTimes] = (),
    pictures: Mapping[str, tuple[str, str]] = MappingProxyType({}),
) -> None:
    """Write a run's part, and its pictures into a directory that is called as the page.

    Raises:
        ValueError: The page has no place for the part; nothing was written.
    """
    page = path.read_text(encoding="utf-8")
    before, after = _around(page, run)
    directory = path.with_suffix("")
    directory.mkdir(exist_ok=True)
    blocks = [*([QUICK] if told["quick"] else []), _about(told), part(run, figures)]
    for picture, text in drawn(run, figures):
        (directory / f"{picture.name}{_SUFFIX}").write_text(text, encoding="utf-8")
        blocks.append(f"![{picture.title}]({directory.name}/{picture.name}{_SUFFIX})")
    for name, (title, text) in pictures.items():
        (directory / f"{name}{_SUFFIX}").write_text(text, encoding="utf-8")
        blocks.append(f"![{title}]({directory.name}/{name}{_SUFFIX})")
    blocks += ["\n".join(f"* {name}: {why}" for name, why in told["remarks"].items())]
    blocks += [_times(sides)] if sides else []
    path.write_text("\n\n".join([before.rstrip(), *filter(None, blocks), after]), encoding="utf-8")


def part(run: Run, figures: Mapping[str, Figure]) -> str:
    """The table of a run; without figures, that it was not run."""
    rows = [("measure", "measured", "target", "met"), ("---", "---:", "---:", "---")]
    return _table([*rows, *(cells(target, figures) for target in of_run(run))])


def _table(rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |".replace("|  |", "| |") for row in rows)


def _times(sides: Sequence[SideTimes]) -> str:
    """What every side took, client and server apart."""
    head = ("group", "side", "phase", "time", "processor time, client", "processor time, server")
    rows = [
        (one.group, one.side, one.phase, *(f"{number(time.value)} s" for time in one.times)) for one in sides
    ]
    return _table([head, ("---", "---", "---", "---:", "---:", "---:"), *rows])


def part_of(page: str, run: Run) -> str:
    """The part of a run, as a page has it."""
    before, after = _around(page, run)
    return page[len(before) : len(page) - len(after)].strip()


def _around(page: str, run: Run) -> tuple[str, str]:
    begin, end = f"<!-- {run}: written by the run -->\n", f"<!-- {run}: end -->"
    if page.count(begin) != 1 or page.count(end) != 1:
        raise ValueError(f"the page needs one line {begin.strip()!r} and one {end!r}")
    before, _, rest = page.partition(begin)
    return before + begin, end + rest.partition(end)[2]


def _about(told: Mapping[str, Any]) -> str:
    machine = told["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in told["versions"].items())
    fallbacks = f"{sum(told['fallbacks'].values()):,}"
    return (
        f"Measured on {told['date']} with {machine['cores']} cores of {machine['cpu']}, "
        f"{machine['memory_gb']:g} GB, {machine['system']}, Python {machine['python']}, "
        f"load {machine['load']:g} at the start, in {told['whole_s']:.0f} s. "
        f"Requests of magicfs that fell back to aiobotocore: {fallbacks}. Versions: {versions}."
    )
