"""The table of a run: every target, what was measured, and whether it is met."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from benchmarks.figures import Figure
from benchmarks.targets import Target

__all__ = ["as_text", "cells", "number"]

NOT_MEASURED = "not measured"


def number(value: float) -> str:
    """A value with three digits that count."""
    digits = next((digits for digits, least in enumerate((100, 10, 1)) if abs(value) >= least), 3)
    return f"{value:,.{digits}f}"


def cells(target: Target, figures: Mapping[str, Figure]) -> tuple[str, str, str, str]:
    """The row of a target: measure, measured with its spread, target, whether it is met."""
    measure = f"**{target.measure}**" if target.must else target.measure
    figure = figures.get(target.name)
    if figure is None:
        return measure, NOT_MEASURED, target.limits, ""
    told = number(figure.value) + (f" {target.unit}" if target.unit else "")
    if figure.rounds > 1:
        told += f" ({number(figure.low)} to {number(figure.high)})"
    met = {True: "yes", False: "no", None: ""}[target.is_met(figure.value)]
    return measure, told, target.limits, met


def as_text(targets: Iterable[Target], figures: Mapping[str, Figure]) -> str:
    """The table for a terminal; below it the figures that no target is set for."""
    rows = [("measure", "measured", "target", "met"), *(cells(target, figures) for target in targets)]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    judged = {target.name for target in targets}
    others = [f"{name} {number(figure.value)}" for name, figure in figures.items() if name not in judged]
    return "\n".join(
        [*(line.rstrip() for line in lines), *(["also: " + ", ".join(others)] if others else [])]
    )
