"""One page about a destination or a bucket, for people who would rather look than read.

It holds everything that it shows: no script, no font and no picture from elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import Final

from magicfs.operate.prices import money
from magicfs.operate.status import BucketStatus, DatasetStatus, Partition, Step
from magicfs.protocol.period import human_age, human_time
from magicfs.report import human_bytes

_PARTITIONS_MAX: Final = 120
_AGES: Final = ((86_400.0, "a day"), (7 * 86_400.0, "a week"), (30 * 86_400.0, "a month"))
_STYLE: Final = """
:root{color-scheme:light dark;--ink:#1c2430;--faint:#5a6675;--paper:#fff;--card:#f3f5f8;--line:#d5dbe3;
--up:#2f6fb5;--down:#c2571a;--warn:#8a3b12}
@media(prefers-color-scheme:dark){:root{--ink:#e6ebf2;--faint:#9aa7b7;--paper:#12161c;--card:#1b222b;
--line:#333d49;--up:#6aa7e8;--down:#e8945f;--warn:#f0b48c}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:60rem;padding:1rem;background:var(--paper);color:var(--ink);
font:16px/1.45 system-ui,sans-serif}
h1{font-size:1.25rem;margin:0;overflow-wrap:anywhere}
h2{font-size:1.05rem;margin:1.8rem 0 .5rem}
p{margin:.3rem 0}.faint{color:var(--faint);font-size:.85rem}.warn{color:var(--warn)}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(9rem,1fr));gap:.6rem;margin:1rem 0}
.card{background:var(--card);border-radius:.5rem;padding:.6rem .8rem}
.card b{display:block;font-size:1.3rem;overflow-wrap:anywhere}
.bars{display:flex;align-items:stretch;gap:2px;height:11rem;border-bottom:1px solid var(--line)}
.bars>div{flex:1 1 0;min-width:2px;max-width:2.5rem;display:flex;flex-direction:column}
.half{flex:1;display:flex;flex-direction:column;justify-content:flex-end}
.half+.half{justify-content:flex-start;border-top:1px solid var(--line)}
.up{background:var(--up)}.down{background:var(--down)}
.key{display:inline-block;width:.8em;height:.8em;border-radius:2px;margin-right:.3em}
.map{position:relative;height:26rem}
.map>div{position:absolute;padding:1px}
.map>div>div{height:100%;padding:.2rem .3rem;border-radius:.25rem;overflow:hidden;
font-size:.75rem;line-height:1.25}
.map b{display:block;overflow-wrap:anywhere}
.age0{background:#1f5f9e;color:#fff}.age1{background:#3d84c4;color:#fff}
.age2{background:#8fbbe2;color:#10202f}.age3{background:#c9d3dd;color:#10202f}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:.9rem}
th,td{text-align:left;vertical-align:top;padding:.35rem .6rem .35rem 0;border-bottom:1px solid var(--line);
overflow-wrap:break-word}
code{font:.85em ui-monospace,monospace;overflow-wrap:anywhere}
@media(max-width:34rem){.map{height:auto}.map>div{position:static;width:auto!important;height:auto!important}
.map>div:nth-child(n+13){display:none}table,tbody,tr,td{display:block}thead{display:none}
tr{border-bottom:1px solid var(--line);padding:.4rem 0}td{border:0;padding:.1rem 0;overflow-wrap:anywhere}
td[data-name]:before{content:attr(data-name) ": ";color:var(--faint)}}
"""


def page_of(found: DatasetStatus | BucketStatus) -> str:
    """The page, whole."""
    body = _bucket(found) if isinstance(found, BucketStatus) else _dataset(found)
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(found.url)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f"<style>{_STYLE}</style></head>\n<body><main>\n{body}\n</main></body></html>\n"
    )


def _bucket(found: BucketStatus) -> str:
    rows = [[escape(cell) for cell in row] for row in found.table()]
    waiting = sum(one.unfinished for one in found.destinations)
    cards = [("destinations", f"{len(found.destinations):,}"), ("unfinished jobs", f"{waiting:,}")]
    more = "" if found.is_whole else '<p class="warn">There are more directories than were looked at.</p>'
    more += "".join(f"<p>{escape(one.sentence)}</p>" for one in found.uploads)
    table = _table([name.capitalize() for name in found.HEADER], rows)
    return _title(found.url, found.now) + _cards(cards) + table + more


def _dataset(found: DatasetStatus) -> str:
    newest = found.newest
    cards = [
        ("files", f"{found.files:,}"),
        ("size", human_bytes(found.bytes)),
        ("rows", "" if found.rows is None else f"{found.rows:,}"),
        ("published", f"{human_age(found.now - newest.published.timestamp())} ago" if newest else "never"),
        ("unfinished jobs", f"{len(found.jobs):,}"),
        ("costs a month", money(found.dollars)),
    ]
    parts = [_title(found.url, found.now), _cards(cards)]
    parts += [f'<p class="warn">{escape(one)}</p>' for one in found.problems]
    parts += [_publications(found.steps), _map(found.partitions, found.now), _jobs(found), _owed(found)]
    return "\n".join(filter(None, parts))


def _title(url: str, now: float) -> str:
    when = human_time(now, now).partition("(")[2].rstrip(")")
    return f'<h1>{escape(url)}</h1><p class="faint">as of {escape(when)}</p>'


def _cards(cards: Iterable[tuple[str, str]]) -> str:
    made = (f'<div class="card">{escape(name)}<b>{escape(value)}</b></div>' for name, value in cards if value)
    return f'<div class="cards">{"".join(made)}</div>'


def _publications(steps: Sequence[Step]) -> str:
    if not steps:
        return ""
    most = max(max(one.added, one.removed) for one in steps) or 1
    bars = []
    for one in steps:
        rows = "" if one.rows is None else f", {one.rows:,} rows"
        said = (
            f"{human_time(one.published, one.published).partition('(')[2].rstrip(')')}: {one.mode}, "
            f"{human_bytes(one.added)} added{rows}, {human_bytes(one.removed)} taken away, "
            f"{human_bytes(one.total)} afterwards, job {one.job_id}"
        )
        up, down = (f"{100 * size / most:.1f}" for size in (one.added, one.removed))
        bars.append(
            f'<div title="{escape(said)}"><div class="half"><div class="up" style="height:{up}%"></div></div>'
            f'<div class="half"><div class="down" style="height:{down}%"></div></div></div>'
        )
    last = [
        [
            escape(human_time(one.published, one.published).partition("(")[2].rstrip(")")),
            escape(one.mode),
            "" if one.rows is None else f"{one.rows:,}",
            human_bytes(one.added),
            human_bytes(one.removed),
            human_bytes(one.total),
        ]
        for one in reversed(steps[-5:])
    ]
    key = (
        '<p class="faint"><span class="key up"></span>added, <span class="key down"></span>taken away; the '
        f"tallest bar is {human_bytes(most)}; the last {len(steps)} publications</p>"
    )
    names = ("Published", "Mode", "Rows", "Added", "Taken away", "Size afterwards")
    return f'<h2>Publications</h2><div class="bars">{"".join(bars)}</div>{key}{_table(names, last)}'


def _map(partitions: Sequence[Partition], now: float) -> str:
    if not partitions:
        return ""
    shown, others = partitions[:_PARTITIONS_MAX], partitions[_PARTITIONS_MAX:]
    boxes = []
    for one, (left, top, width, height) in _placed(shown, 0.0, 0.0, 160.0, 100.0):
        age = len(_AGES) if one.changed is None else sum(now - one.changed >= limit for limit, _ in _AGES)
        name = one.name or "(the destination itself)"
        when = "" if one.changed is None else f", changed {human_age(now - one.changed)} ago"
        said = escape(f"{name}: {one.files:,} files, {human_bytes(one.bytes)}{when}")
        place = f"left:{left / 1.6:.2f}%;top:{top:.2f}%;width:{width / 1.6:.2f}%;height:{height:.2f}%"
        boxes.append(
            f'<div style="{place}" title="{said}"><div class="age{age}"><b>{escape(name)}</b>'
            f"{human_bytes(one.bytes)}</div></div>"
        )
    rest = f"; {len(others):,} smaller ones are left out" if others else ""
    ages = "".join(
        f'<span class="key age{number}"></span>{text} '
        for number, text in enumerate([*(f"within {name}" for _, name in _AGES), "older"])
    )
    return (
        f'<h2>Partitions</h2><div class="map">{"".join(boxes)}</div><p class="faint">{len(partitions):,} '
        f"partitions, the largest first, by when a job changed them: {ages}{rest}</p>"
    )


_Box = tuple[float, float, float, float]


def _placed(
    partitions: Sequence[Partition], left: float, top: float, width: float, height: float
) -> Iterator[tuple[Partition, _Box]]:
    """Partitions, the largest first, as boxes whose areas are as their sizes: halves of halves."""
    if len(partitions) == 1:
        yield partitions[0], (left, top, width, height)
        return
    sizes = [one.bytes or 1 for one in partitions]
    whole, first, at = sum(sizes), sizes[0], 1
    while at < len(sizes) - 1 and first + sizes[at] <= whole / 2:
        first += sizes[at]
        at += 1
    share = first / whole
    if width >= height:
        yield from _placed(partitions[:at], left, top, width * share, height)
        yield from _placed(partitions[at:], left + width * share, top, width * (1 - share), height)
    else:
        yield from _placed(partitions[:at], left, top, width, height * share)
        yield from _placed(partitions[at:], left, top + height * share, width, height * (1 - share))


def _jobs(found: DatasetStatus) -> str:
    if not found.jobs:
        return ""
    rows = [
        [
            escape(one.job_id) + (f", run {escape(one.run_id)}" if one.run_id else ""),
            escape(one.state),
            escape(human_time(one.moved, found.now) if one.moved else "unknown"),
            escape(one.host),
            f"<code>{escape(one.end)}</code>",
        ]
        for one in found.jobs
    ]
    return f"<h2>Unfinished jobs</h2>{_table(('Job', 'State', 'Last moved', 'Host', 'To end it'), rows)}"


def _owed(found: DatasetStatus) -> str:
    rows = [
        ["open uploads", escape(one.sentence), f"<code>{escape(one.advice)}</code>" if one.advice else ""]
        for one in found.uploads
    ]
    named = dict(found.short())
    rows += [[what, escape(named[what]), ""] for what in ("kept",) if what in named]
    rows += [["table behind", escape(one), ""] for one in found.behind]
    rows += [["leftover", escape(one), ""] for one in found.leftovers]
    if not rows:
        return "<h2>Owed</h2><p>Nothing: no open upload, no kept file, no table behind.</p>"
    return f"<h2>Owed</h2>{_table(('What', 'How much', 'To end it'), rows)}"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose cells are HTML already, without columns that have none; on a phone a cell is a line."""
    shown = [place for place in range(len(header)) if not rows or any(row[place] for row in rows)]
    names = [escape(name) for name in header]
    head = "".join(f"<th>{names[place]}</th>" for place in shown)
    lines = []
    for row in rows:
        cells = (f'<td data-name="{names[n]}">{row[n]}</td>' if row[n] else "<td></td>" for n in shown)
        lines.append(f"<tr>{''.join(cells)}</tr>")
    table = f"<thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody>"
    return f'<div class="scroll"><table>{table}</table></div>'
