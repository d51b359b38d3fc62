"""Crafted data, from its task to its readers: a job always ends, and only our errors come out.

Each case writes files, changes what the task recorded of them, and then does what people do: commit, recover,
abort, read, drop, rewrite, verify, compact, adopt.
"""

from __future__ import annotations

import json
import logging
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import magicfs
from magicfs.errors import MagicError
from magicfs.formats.document import render
from magicfs.formats.footer import FOOTER, SCHEMA
from proofs.hostile import bounds, data_bounds
from proofs.hostile.mutations import HOSTILE_TEXTS, nested
from proofs.hostile.part import Found, WrongLine
from proofs.hostile.thrift_bytes import column, footer, leaf, of_file
from proofs.scenes.job_scene import JobScene

__all__ = ["MUTANTS", "NAME", "fixed", "fuzz"]

NAME = "data"
_MIB = 1024**2
_BYTES_OF_READ = 60
"""Most bytes of memory for a byte of input whose values are few enough to be read."""
_MOST = 2**63 - 1
_DEEP = "[" * 20_000 + "]" * 20_000
Record = dict[str, Any]
Change = Callable[[Record], None]
"""Changes what a task recorded of a file."""


def _extra(**texts: str) -> Change:
    names = {"footer": FOOTER, "schema": SCHEMA, "audit": "magicfs.audit", "checksum": "magicfs.checksum"}
    return lambda record: record["extraData"].update({names.get(key, key): one for key, one in texts.items()})


def _field(name: str, value: Any) -> Change:
    return lambda record: record.update({name: value})


def _said(**more: Any) -> str:
    return render({"rows": 1, "format": "csv", **more}).decode()


_SAID = (
    *(
        "",
        "null",
        "[]",
        _DEEP,
        '{"rows":1}',
        '{"rows":1e400,"format":"x"}',
        "x" * 300_000,
        "\\ud800",
        "{" * 999,
    ),
    *(_said(rows=_MOST), _said(schema=""), _said(schema="../../x"), _said(schema="0123456789abcdef")),
    *(_said(columns=[[2**70]]), _said(columns=[[0, "NaN", "NaN"]]), _said(columns=[[0, -1e308, True]])),
    *(_said(metadata={"a": "\x00"}), _said(x=nested(80)), _said(x="y" * 70_000), _said(columns=nested(60))),
)
_SCHEMAS = (
    *("", "null", "{}", _DEEP, "[" * 999, '[["a"]]', '[["a","int64",0,0]]', r'[["\ud800","int64",0,0]]'),
    *('[[["a","b"],"decimal(1,1)",0,0]]', '[["x","decimal(38,2)",0,0]]', '[["a","int64",1e99,0]]'),
    *(f"[{'[],' * 9999}[]]", f'[["{"n" * 60_000}","int64",0,0]]', '[["x","date",0,0],["x","date",0,0]]'),
)
_CHANGES: Sequence[tuple[str, Change]] = (
    *((f"footer {number}", _extra(footer=text)) for number, text in enumerate(_SAID)),
    *((f"schema {number}", _extra(footer=_said(), schema=text)) for number, text in enumerate(_SCHEMAS)),
    *((f"audit {number}", _extra(audit=text)) for number, text in enumerate(("", "[]", _DEEP, '{"a":1}'))),
    *(
        (f"checksum {text[:9]!a}", _extra(checksum=text))
        for text in ("", "crc32:", "x" * 9999, "sha256:\x00")
    ),
    *((f"length {n}", _field("length", n)) for n in (0, 2, _MOST, _MOST + 1, -1, 1.5)),
    *((f"created {n}", _field("created", n)) for n in (0, 1, 2**60, _MOST)),
    ("saved", _field("saved", _MOST)),
    ("a date", _field("date", "x" * 9999)),
    ("an unknown field", _field("x", ["y"] * 1000)),
    ("unknown fields", _field("x", ["y" * 100] * 1000)),
    ("a deep field", _field("x", nested(200))),
    ("many names", _field("iostatistics", {"counters": {f"c{n}": _MOST for n in range(20_000)}})),
    ("a counter", _field("iostatistics", {"counters": {"records_written": _MOST}, "x": "y" * 50_000})),
    ("an ETag", _field("etags", ["\x00"])),
    ("an upload", _field("uploadId", "../x")),
)
_NAMES = (
    *("x=NaN/f.csv", "x=Infinity/f.csv", "x=1e999999999/f.csv", f"x={'9' * 500}/f.csv", "x=%2F..%2F/f.csv"),
    *(
        "x=%00/f.csv",
        "x=\x1b[31m/f.csv",
        "x=\u202e/f.csv",
        "x=a%0Ab/f.csv",
        "x=\uff11\uff12/f.csv",
        "x=/f.csv",
    ),
    *("x=5/y=__HIVE_DEFAULT_PARTITION__/f.csv", "a..b/..c.csv", "x='/f.csv", 'x="/f.csv', "x==5/f.csv"),
)


def fixed() -> Found:
    """Each change of a record, each name, and each bound once."""
    found = Found()
    for name, change in _CHANGES:
        found.add(_case(name, [change], "x=5/f.csv"))
        found.add(_case(f"{name}, in a set", [change], "x=5/f.csv", listed=True, used=False))
    for path in _NAMES:
        found.add(_case(path, [], path))
    found.add(_case("two long files", [_field("length", _MOST)], "x=5/f.csv", files=2))
    found.add(_case("rows beyond 64 bits", [_extra(footer=_said(rows=_MOST))], "x=5/f.csv", files=2))
    for attack in data_bounds.ATTACKS:
        found.counts["footers"] += 1
        found.violations += attack()
    found.counts["footers"] += 2
    found.violations += bounds.bomb(b"[]", 8 * _MIB) + bounds.bomb(b'{"a":1}', _MIB, _BYTES_OF_READ)
    return found


def fuzz(until: float, seed: int) -> Found:
    """Several changes at once, of files that say what crafted Parquet says, and larger bombs."""
    draw, found = random.Random(seed), Found()  # noqa: S311 - no secret
    while time.monotonic() < until:
        chosen = draw.sample(_CHANGES, draw.choice((1, 2, 3)))
        path = draw.choice((*_NAMES, "x=5/f.csv", f"x={_partition(draw)}/f.csv"))
        name, body = f"seed {seed}: {[one for one, _ in chosen]} {path!a}", _parquet(draw)
        how: dict[str, Any] = {"files": draw.choice((1, 2)), "body": body, "listed": draw.random() < 0.5}
        found.add(_case(name, [change for _, change in chosen], path, **how))
        if draw.random() < 0.01:
            kind = draw.choice((b"[]", b"{}", b'""', b"0"))
            found.violations += bounds.bomb(kind, draw.choice((16, 32, 64)) * _MIB)
    return found


def _partition(draw: random.Random) -> str:
    return draw.choice(HOSTILE_TEXTS).replace("/", "%2F").encode("utf-8", "ignore").decode()[:200]


def _parquet(draw: random.Random) -> bytes:
    """A file whose footer holds values that no column has."""
    kinds: Sequence[Mapping[int, Any]] = (
        {10: {5: {1: draw.choice((0, 2, 99, -1)), 2: draw.choice((1, 38, 200))}}},
        {6: draw.choice((0, 5, 6, 11, 14, 21, 99))},
        {10: {draw.choice((7, 8, 10, 99)): {1: True, 2: {draw.choice((1, 2, 3, 4)): {}}}}},
        {},
    )
    leaves, columns = [], []
    for number in range(draw.choice((1, 2, 5))):
        physical = draw.randrange(9)
        one = {**leaf(f"x{number}".encode(), physical), **draw.choice(kinds)}
        least, greatest = (draw.randbytes(draw.choice((0, 1, 4, 8, 12, 70, 3000))) for _ in range(2))
        leaves.append(one)
        nulls, values = draw.choice((0, 1, _MOST)), draw.choice((1, 3, _MOST))
        columns.append(column(physical, least, greatest, nulls, values))
    head, tail = of_file(footer(leaves, columns, draw.choice((0, 3, _MOST))))
    return head + tail


def _case(
    name: str,
    changes: Sequence[Change],
    path: str,
    *,
    files: int = 1,
    body: bytes = b"a\n1\n",
    listed: bool = False,
    used: bool = True,
) -> Found:
    """One job whose task wrote crafted data, to its end, and everything that people do afterwards.

    ``listed``: the pending set is what is changed, and the job finds it by a listing. ``used``: readers come.
    """
    found, scene = Found(), JobScene()
    found.counts["footers"] += files
    steps = _Steps(name, found.violations)
    with _quiet():
        job = scene.job("append", footers=True, unique_names=False)
        task = job.task(0)
        task.setup()
        for number in range(files):
            where = path if not number else path.replace("f.csv", f"f{number}.parquet")
            steps.do("write", partial(task.filesystem.pipe_file, f"{task.path}/{where}", body))
        if not listed:
            _change(scene, ".pending", changes)
        commits = [commit] if (commit := steps.do("task commit", task.commit)) is not None else []
        if listed:
            _change(scene, ".pendingset", changes)
        steps.do("job commit", partial(job.commit, None if listed else commits))
        steps.do("recover", scene.recover)
        if scene.work():
            steps.do("abort", lambda: scene.recover(abort=True))
        if left := scene.work():
            found.violations.append(f"{name}: the job cannot be ended: {left[:3]}")
        if used:
            _use(scene, steps)
    return found


def _change(scene: JobScene, suffix: str, changes: Sequence[Change]) -> None:
    for name in scene.work():
        if name.endswith(suffix):
            document = json.loads(scene.objects()[f"{scene.destination}/{name}"][0])
            for record in document.get("commits", [document]):
                for change in changes:
                    change(record)
            raw = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
            scene.put(name, raw.encode("utf-8", "surrogatepass"))


def _use(scene: JobScene, steps: _Steps) -> None:
    """What readers and maintenance do with the dataset, and the next job."""
    there = magicfs.Dataset(scene.url, filesystem=scene.filesystem)
    for text in ("x < 7", "x = '5'", "x in (1, 2.5)", "n >= 1"):
        steps.do(f"drop {text}", partial(there.drop, where=text, dry_run=True))
    steps.do("footers", there.footers)
    steps.do("verify", there.verify)
    steps.do("rewrite", lambda: there.rewrite(dry_run=True))
    steps.do("history", lambda: list(there.history()))
    steps.do("compact", there.compact)
    steps.do("adopt", lambda: there.adopt(dry_run=True))
    steps.do("the next job", lambda: scene.published({"x=5/y.csv": b"a\n"}, mode="overwrite", footers=True))
    steps.do("drop", partial(there.drop, where="x = '5'", keep=None))
    if left := scene.work():
        steps.violations.append(f"{steps.name}: the next jobs left {left[:3]}")


class _Steps:
    """Steps of one case; what comes out of one that is no error of ours is a violation."""

    def __init__(self, name: str, violations: list[str]) -> None:
        self.name = name
        self.violations = violations

    def do(self, step: str, call: Callable[[], Any]) -> Any:
        """What a step returns; None if it raised."""
        try:
            return call()
        except MagicError:
            return None
        except Exception as error:  # noqa: BLE001 - all that must not come out
            self.violations.append(f"{self.name}: {step}: {type(error).__name__}: {str(error)[:300]}")
            return None


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what a job logs of the wrongs that are meant."""
    logger = logging.getLogger("magicfs")
    before = logger.disabled
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = before


MUTANTS: Sequence[WrongLine] = data_bounds.MUTANTS
