"""Bars as SVG: small, the same for the same values, and to be read on light and on dark pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from benchmarks.figures import Figure
from benchmarks.table import number

__all__ = ["Bar", "bars"]

_WIDTH, _LABELS, _VALUES = 720, 170, 130
_ROW, _BAR, _TOP, _BOTTOM = 30, 18, 58, 14
_STYLE = """
  text { font: 13px system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; fill: #1f2328; }
  .page { fill: #ffffff; }
  .title { font-size: 15px; font-weight: 600; }
  .note { fill: #59636e; font-size: 12px; }
  .ours { fill: #0969da; }
  .peer { fill: #9aa4af; }
  .spread { stroke: #1f2328; stroke-width: 1.5; }
  .axis { stroke: #9aa4af; stroke-width: 1; }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117; }
    text { fill: #e6edf3; }
    .note { fill: #9198a1; }
    .ours { fill: #4493f8; }
    .peer { fill: #59636e; }
    .spread { stroke: #e6edf3; }
    .axis { stroke: #59636e; }
  }
"""


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: a median, and the spread of its rounds as a line."""

    label: str
    figure: Figure
    is_ours: bool


def bars(title: str, note: str, unit: str, drawn: Sequence[Bar]) -> str:
    """A picture with one bar under the other, from zero."""
    height = _TOP + _ROW * len(drawn) + _BOTTOM
    most = max(bar.figure.high for bar in drawn) or 1.0
    scale = (_WIDTH - _LABELS - _VALUES) / most
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img">',
        f"<title>{escape(title)}</title>",
        f"<style>{_STYLE}</style>",
        f'<rect class="page" width="{_WIDTH}" height="{height}" rx="6"/>',
        f'<text class="title" x="8" y="22">{escape(title)}</text>',
        f'<text class="note" x="8" y="42">{escape(note)}</text>',
    ]
    for place, bar in enumerate(drawn):
        top = _TOP + _ROW * place
        middle = top + _BAR / 2
        low, value, high = (
            _LABELS + scale * one for one in (bar.figure.low, bar.figure.value, bar.figure.high)
        )
        kind = "ours" if bar.is_ours else "peer"
        told = f"{number(bar.figure.value)} {unit}"
        lines += [
            f'<text x="{_LABELS - 10}" y="{middle + 4.5:.1f}" text-anchor="end">{escape(bar.label)}</text>',
            f'<rect class="{kind}" x="{_LABELS}" y="{top}" width="{value - _LABELS:.1f}" height="{_BAR}"/>',
            f'<text x="{max(value, high) + 8:.1f}" y="{middle + 4.5:.1f}">{escape(told)}</text>',
        ]
        if bar.figure.rounds > 1:
            lines.append(
                f'<line class="spread" x1="{low:.1f}" y1="{middle:.1f}" x2="{high:.1f}" y2="{middle:.1f}"/>'
            )
    end = _TOP + _ROW * len(drawn) - (_ROW - _BAR) + 4
    lines.append(f'<line class="axis" x1="{_LABELS}" y1="{_TOP - 4}" x2="{_LABELS}" y2="{end}"/>')
    return "\n".join([*lines, "</svg>", ""])
