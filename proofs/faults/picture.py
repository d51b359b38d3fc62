"""``python -m proofs.faults.picture``: readers beside overwrites whose process is killed, as a picture.

Each lane is a real run on a real server. A process of its own replaces four files and is killed; a reader
counts rows all the while. What it saw is drawn: the old rows, the new rows, or anything else.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from itertools import count
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import pyarrow as pa

import magicfs
from proofs.doubles.servers import SeaweedFS
from proofs.faults.place import Place

__all__ = ["Lane", "Seen", "drawn", "main"]

_FILES, _ROWS = 4, 250
_OLD, _NEW = 0, 1
_PAUSE_S = 0.4
"""Between two files of a writer, so that a reader sees each step."""
_BEFORE_S = 2.0
_RECOVERED_S, _AFTER_S = 2.0, 2.0
"""How long readers go on after the last writer died and was recovered."""
_LONGEST_S = 60.0
_LANES = (
    ("magicfs.write, killed in its tasks", "writing"),
    ("magicfs.write, killed in its commit", "publishing"),
    ("s3fs delete, pandas write", "pandas"),
    ("pyarrow delete_matching", "arrow"),
)
_COLORS = {"old": "#5c7cfa", "new": "#2f9e44", "neither": "#e03131"}
_TEXTS = {"old": "old rows", "new": "new rows", "neither": "neither: rows are missing"}


@dataclass(frozen=True)
class Seen:
    """What a reader found from one moment to the next."""

    begin: float
    end: float
    state: str


@dataclass(frozen=True)
class Lane:
    """One run."""

    title: str
    seen: list[Seen]
    killed: float
    recovered: float | None = None


def main(arguments: Sequence[str] | None = None) -> int:
    """The command. Exit code 1 if a reader of ours saw anything but the old rows or the new ones."""
    parser = argparse.ArgumentParser(prog="python -m proofs.faults.picture", description=__doc__)
    parser.add_argument("--write", metavar="FILE", type=Path, default=Path("docs/overwrite.svg"))
    parser.add_argument("--victim", nargs=2, metavar=("HOW", "PLACE"), help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.victim:
        how, place = given.victim
        for name in ("pandas", "pyarrow.dataset", "s3fs"):  # before the clock starts
            import_module(name)

        print("ready", flush=True)  # noqa: T201
        sys.stdin.readline()
        time.sleep(_BEFORE_S)
        _WRITERS[how](Place.load(place))
        return 0
    with SeaweedFS() as server:
        bucket = server.create_bucket("picture")
        keys = (server.endpoint, server.access_key, server.secret_key, server.region, bucket)
        places = [Place(*keys, how) for _, how in _LANES]
        with ThreadPoolExecutor(len(_LANES)) as pool:
            lanes = list(
                pool.map(partial(_run, Barrier(len(_LANES)), []), *zip(*_LANES, strict=True), places)
            )
    given.write.write_text(drawn(lanes), encoding="utf-8")
    return int(any(one.state == "neither" for lane in lanes[:2] for one in lane.seen))


def _table(first: int, part: int) -> pa.Table:
    return pa.table({"p": [part] * _ROWS, "state": [first] * _ROWS})


def _whole(state: int) -> pa.Table:
    return pa.concat_tables([_table(state, part) for part in range(_FILES)])


def _slowly(state: int) -> Any:
    for part in range(_FILES):
        yield _table(state, part).to_batches()[0]
        time.sleep(_PAUSE_S)


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _magicfs(place: Place, source: Any, progress: Any = None) -> None:
    options = place.storage_options
    magicfs.write(
        source, place.url, partition_by="p", mode="overwrite", storage_options=options, progress=progress
    )


def _writing(place: Place) -> None:
    parts = count()

    def rows() -> Any:
        for batch in _slowly(_NEW):
            if next(parts) == 3:
                _die()
            yield batch

    _magicfs(place, pa.RecordBatchReader.from_batches(_table(0, 0).schema, rows()))


def _publishing(place: Place) -> None:
    def progress(done: Any) -> None:
        if done.stage == "complete":
            time.sleep(_PAUSE_S)
        if done.files_done == 2:
            _die()

    _magicfs(place, _whole(_NEW), progress)


def _pandas(place: Place) -> None:
    filesystem = _filesystem(place)
    filesystem.rm(place.path, recursive=True)
    for part in range(_FILES):
        time.sleep(_PAUSE_S)
        if part == 2:
            _die()
        frame = _table(_NEW, part).to_pandas()
        frame.to_parquet(f"{place.url}/{part}.parquet", storage_options=place.storage_options)


def _arrow(place: Place) -> None:
    import pyarrow.dataset
    from s3fs import S3FileSystem

    class Slow(S3FileSystem):
        def open(self, path: str, mode: str = "rb", **options: Any) -> Any:
            if mode == "wb":
                time.sleep(_PAUSE_S)
                if next(parts) == 2:
                    _die()
            return super().open(path, mode, **options)

    parts = count()
    pyarrow.dataset.write_dataset(
        _whole(_NEW),
        place.path,
        filesystem=Slow(**place.storage_options),
        format="parquet",
        partitioning=["p"],
        partitioning_flavor="hive",
        existing_data_behavior="delete_matching",
        use_threads=False,
    )


_WRITERS: dict[str, Callable[[Place], None]] = {
    "writing": _writing,
    "publishing": _publishing,
    "pandas": _pandas,
    "arrow": _arrow,
}


def _filesystem(place: Place) -> Any:
    from s3fs import S3FileSystem

    return S3FileSystem(**place.storage_options, use_listings_cache=False, skip_instance_cache=True)


def _state(place: Place, ours: bool) -> str:
    import pyarrow.dataset

    try:
        if ours:
            found = magicfs.Dataset(place.url, storage_options=place.storage_options).to_arrow()
        else:
            found = pyarrow.dataset.dataset(place.path, filesystem=_filesystem(place), format="parquet")
        states = found.to_table(columns=["state"])["state"].to_pylist() if found.files else []
    except FileNotFoundError:
        states = []
    if len(states) == _FILES * _ROWS and len(set(states)) == 1:
        return "new" if states[0] == _NEW else "old"
    return "neither"


def _run(together: Barrier, ends: list[float], title: str, how: str, place: Place) -> Lane:
    ours = how in ("writing", "publishing")
    if ours:
        _magicfs(place, _whole(_OLD))
    else:
        for part in range(_FILES):
            frame = _table(_OLD, part).to_pandas()
            directory = f"{place.url}/p={part}" if how == "arrow" else place.url
            frame.to_parquet(f"{directory}/{part}.parquet", storage_options=place.storage_options)
    assert _state(place, ours) == "old"
    line = [sys.executable, "-m", "proofs.faults.picture", "--victim", how, place.dump()]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    victim = subprocess.Popen(line, **pipes)  # type: ignore[call-overload]  # noqa: S603 - this module
    assert victim.stdin is not None
    assert victim.stdout is not None
    with victim.stdout as lines:
        lines.readline()
    together.wait()
    begin = time.monotonic()
    killed = recovered = recovery = None
    seen: list[Seen] = []
    while (now := time.monotonic() - begin) < _LONGEST_S:
        if killed is None and victim.poll() is not None:
            killed = now
            ends.append(now)
        if recovery is not None and not recovery.is_alive() and len(ends) == len(_LANES):
            ends.append(now)
        if len(ends) == len(_LANES) + 1 and now > max(ends) + _AFTER_S:
            break
        if how == "publishing" and killed is not None and recovery is None and now > killed + _RECOVERED_S:
            recovered = now
            recovery = Thread(
                target=magicfs.Dataset(place.url, storage_options=place.storage_options).recover
            )
            recovery.start()
        state = _state(place, ours)
        if not victim.stdin.closed:
            victim.stdin.close()  # it begins
        since = seen[-1].end if seen else 0.0
        if seen and seen[-1].state == state:
            since = seen.pop().begin
        seen.append(Seen(since, time.monotonic() - begin, state))
    if recovery is not None:
        recovery.join()
    assert killed is not None, f"{how} has not died in time"
    assert victim.wait() == -signal.SIGKILL
    return Lane(title, seen, killed, recovered)


def drawn(lanes: Sequence[Lane]) -> str:
    """The lanes as SVG. Time goes from left to right."""
    left, width, height, top = 20, 680, 26, 44
    scale = width / max(lane.seen[-1].end for lane in lanes)
    shapes = []
    for number, lane in enumerate(lanes):
        y = top + number * 62
        shapes.append(f'<text x="{left}" y="{y + 12}" font-weight="600">{lane.title}</text>')
        for one in lane.seen:
            x, wide = left + one.begin * scale, (one.end - one.begin) * scale
            shapes.append(
                f'<rect x="{x:.1f}" y="{y + 20}" width="{wide:.1f}" height="{height}" '
                f'fill="{_COLORS[one.state]}"/>'
            )
            if wide > 8 * len(_TEXTS[one.state]):
                shapes.append(f'<text x="{x + 8:.1f}" y="{y + 38}" fill="#fff">{_TEXTS[one.state]}</text>')
        for moment, text, anchor in ((lane.killed, "SIGKILL", "end"), (lane.recovered, "recover", "start")):
            if moment is not None:
                x = left + moment * scale
                shapes.append(
                    f'<path d="M{x:.1f} {y + 16}v{height + 8}" stroke="#111" stroke-width="2.5"/>'
                    f'<text x="{x:.1f}" y="{y + 12}" text-anchor="{anchor}">{text}</text>'
                )
    bottom = top + len(lanes) * 62 + 6
    head = "What a reader sees while four files are overwritten on S3 and the writer is killed"
    style = "font-family:system-ui,-apple-system,Segoe UI,Roboto,sans-serif;font-size:13px"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 {bottom}" role="img" style="{style}">',
            f"<title>{head}</title>",
            f'<rect width="720" height="{bottom}" fill="#fff"/>',
            f'<g fill="#1a1a1a"><text x="{left}" y="26" font-size="15" font-weight="700">{head}</text>',
            *shapes,
            "</g>",
            "</svg>",
            "",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
