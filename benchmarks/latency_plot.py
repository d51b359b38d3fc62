"""Curves on logarithmic axes, as SVG: small, without any library, named where they end."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

__all__ = ["Curve", "Plot", "told_number"]

_WIDTH, _HEIGHT = 760, 480
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 150, 44, 52
_LINE_PX: Final = 15.0
"""Between two names on the right."""

# Of Okabe and Ito, who chose them for all eyes, and two greys; dashes tell apart what lies on each other.
_COLOURS: Final = (
    *("#0072b2", "#56b4e9", "#009e73", "#8fbf3f", "#e69f00"),
    *("#d55e00", "#b24a8f", "#7a7a7a", "#333333", "#a0522d"),
)
_DASHES: Final = ("", "7 3", "2 3")


@dataclass(frozen=True, slots=True)
class Curve:
    """One curve.

    Attributes:
        points: x and y, both greater than 0.
        measured: Points that were run and not told from a model; they get a mark.
    """

    points: Sequence[tuple[float, float]]
    measured: Sequence[tuple[float, float]] = ()


@dataclass(frozen=True, slots=True)
class Plot:
    """Curves on one pair of axes.

    Attributes:
        title: Above it.
        across: What the horizontal axis shows.
        up: What the vertical axis shows.
        curves: By name.
    """

    title: str
    across: str
    up: str
    curves: Mapping[str, Curve]

    def svg(self) -> str:
        """The picture."""
        size = f'width="{_WIDTH}" height="{_HEIGHT}"'
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" {size}',
                ' font-family="sans-serif" font-size="12">',
                f'<rect {size} fill="#ffffff"/>',
                f'<text x="{_LEFT}" y="24" font-size="15" font-weight="bold">{escape(self.title)}</text>',
                *self._grid(),
                *self._lines(),
                "</svg>",
                "",
            ]
        )

    # -- axes ------------------------------------------------------------------------------------------

    def _range(self, axis: int) -> tuple[float, float]:
        """The exponents of 10 between which the points of an axis lie."""
        values = [
            math.log10(point[axis])
            for curve in self.curves.values()
            for point in (*curve.points, *curve.measured)
        ]
        low, high = min(values), max(values)
        margin = max((high - low) * 0.03, 0.02)
        return low - margin, high + margin

    def _x(self, value: float) -> float:
        low, high = self._range(0)
        return _LEFT + (math.log10(value) - low) / (high - low) * (_WIDTH - _LEFT - _RIGHT)

    def _y(self, value: float) -> float:
        low, high = self._range(1)
        return _HEIGHT - _BOTTOM - (math.log10(value) - low) / (high - low) * (_HEIGHT - _TOP - _BOTTOM)

    def _grid(self) -> Iterator[str]:
        right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
        for value in _decades(*self._range(0)):
            x = self._x(value)
            yield f'<path d="M{x:.1f} {_TOP}V{bottom}" stroke="#dddddd"/>'
            yield f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{told_number(value)}</text>'
        for value in _decades(*self._range(1)):
            y = self._y(value)
            yield f'<path d="M{_LEFT} {y:.1f}H{right}" stroke="#dddddd"/>'
            yield f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{told_number(value)}</text>'
        yield f'<path d="M{_LEFT} {_TOP}V{bottom}H{right}" fill="none" stroke="#333333"/>'
        middle = (_LEFT + right) / 2
        yield f'<text x="{middle:.1f}" y="{_HEIGHT - 14}" text-anchor="middle">{escape(self.across)}</text>'
        across = (_TOP + bottom) / 2
        yield (
            f'<text transform="translate(16 {across:.1f}) rotate(-90)" text-anchor="middle">'
            f"{escape(self.up)}</text>"
        )

    # -- curves ----------------------------------------------------------------------------------------

    def _lines(self) -> Iterator[str]:
        places = self._names()
        for number, (name, curve) in enumerate(self.curves.items()):
            colour = _COLOURS[number % len(_COLOURS)]
            dash = _DASHES[number % len(_DASHES)]
            path = "L".join(f"{self._x(x):.1f} {self._y(y):.1f}" for x, y in curve.points)
            dashed = f' stroke-dasharray="{dash}"' if dash else ""
            yield f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2"{dashed}/>'
            for x, y in curve.measured:
                yield f'<circle cx="{self._x(x):.1f}" cy="{self._y(y):.1f}" r="3.5" fill="{colour}"/>'
            end_x, end_y = curve.points[-1]
            right, y = _WIDTH - _RIGHT + 14, places[name]
            yield (
                f'<path d="M{self._x(end_x):.1f} {self._y(end_y):.1f}L{right - 3} {y:.1f}" '
                f'stroke="{colour}" stroke-width="0.7"/>'
            )
            yield f'<text x="{right}" y="{y + 4:.1f}" fill="{colour}">{escape(name)}</text>'

    def _names(self) -> dict[str, float]:
        """Where the names of the curves stand: near their ends, and never on each other."""
        wanted = sorted((self._y(curve.points[-1][1]), name) for name, curve in self.curves.items())
        placed: list[float] = []
        for y, _ in wanted:
            placed.append(max(y, placed[-1] + _LINE_PX) if placed else y)
        # What has been pushed below the axis goes up again, and pushes the others.
        lowest = _HEIGHT - _BOTTOM + 4.0
        for number in reversed(range(len(placed))):
            placed[number] = min(placed[number], lowest)
            lowest = placed[number] - _LINE_PX
        return {name: y for (_, name), y in zip(wanted, placed, strict=True)}


def _decades(low: float, high: float) -> list[float]:
    """Numbers for an axis: powers of ten, and where these are few 2 and 5 times them."""
    powers = range(math.floor(low), math.ceil(high) + 1)
    steps = (1,) if high - low > 2.5 else (1, 2, 5)
    found = [step * 10.0**power for power in powers for step in steps]
    return [value for value in found if low <= math.log10(value) <= high]


def told_number(value: float) -> str:
    """A number as an axis shows it."""
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"
