"""Which pictures a run draws of its figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from benchmarks.figures import Figure
from benchmarks.plot import Bar, bars
from benchmarks.targets import Run

__all__ = ["PICTURES", "Picture", "drawn"]

_OURS: Final = "magicfs"


@dataclass(frozen=True, slots=True)
class Picture:
    """One picture: the figures called ``before + side + after`` of the sides that took part."""

    name: str  # of its file
    run: Run
    title: str
    note: str
    unit: str
    before: str
    after: str
    sides: Mapping[str, str]  # the part of a figure's name: how the picture calls it


_STREAMS: Final = {name: name for name in (_OURS, "obstore", "pyarrow", "boto3", "s5cmd", "s3fs")}
_PLAIN_STREAMS: Final = {_OURS: _OURS, "unsigned": "magicfs, bodies unsigned", **_STREAMS}
_TRACKED: Final = {
    "memory": "magicfs, in bundles",
    "uploads": "magicfs, in memory",
    "store": "magicfs, in store",
}

PICTURES: Final[tuple[Picture, ...]] = (
    Picture(
        name="commit",
        run="bench",
        title="Job commit of 10,000 files, a server that answers at once",
        note="Processor time of the client for each completed upload; less is better.",
        unit="ms",
        before="commit_",
        after="_ms",
        sides={_OURS: _OURS, "aiobotocore": "aiobotocore", "boto3": "boto3, 32 threads"},
    ),
    Picture(
        name="small",
        run="bench",
        title="1 kB files, from open to visible, SeaweedFS",
        note="Processor time of the client for each file; peers write one PUT each. Less is better.",
        unit="ms",
        before="small_",
        after="_ms",
        sides={**_TRACKED, "s3fs": "s3fs pipe", "obstore": "obstore put"},
    ),
    Picture(
        name="stub-stream",
        run="bench",
        title="Streaming 1 GiB to a server that answers at once",
        note="One file, parts of 8 MiB where a client can be told. More is better.",
        unit="MiB/s",
        before="stub_stream_",
        after="_mib_s",
        sides=_PLAIN_STREAMS,
    ),
    Picture(
        name="tls-stream",
        run="bench",
        title="Streaming 1 GiB by TLS to a server that answers at once",
        note="One file, parts of 8 MiB where a client can be told. More is better.",
        unit="MiB/s",
        before="tls_stream_",
        after="_mib_s",
        sides=_STREAMS,
    ),
    Picture(
        name="stream",
        run="bench",
        title="Streaming 512 MiB to SeaweedFS",
        note="One file, parts of 8 MiB where a client can be told. More is better.",
        unit="MiB/s",
        before="stream_",
        after="_mib_s",
        sides=_PLAIN_STREAMS,
    ),
    Picture(
        name="many",
        run="bench",
        title="2,000 files of 100 KB from one task, SeaweedFS",
        note="32 requests at once. Less is better.",
        unit="s",
        before="many_",
        after="_s",
        sides={
            "memory": "magicfs, in memory",
            "bundles": "magicfs, in bundles",
            "store": "magicfs, in store",
            "s3fs": "s3fs",
            "obstore": "obstore",
            "boto3": "boto3",
            "s5cmd": "s5cmd",
        },
    ),
    Picture(
        name="rows",
        run="bench",
        title="6 M rows into 21 partitions of Parquet, SeaweedFS",
        note="pyarrow's write_dataset through three filesystems, and writers of others. Less is better.",
        unit="s",
        before="rows_",
        after="_s",
        sides={
            _OURS: _OURS,
            "s3fs": "s3fs",
            "pyarrow": "pyarrow's own S3",
            "polars": "Polars sink",
            "duckdb": "DuckDB COPY",
            "awswrangler": "awswrangler",
        },
    ),
    Picture(
        name="million",
        run="bench-full",
        title="Peak memory of a job commit, a server that answers at once",
        note="The whole process of the driver, Python and libraries included. Less is better.",
        unit="MB",
        before="million_",
        after="peak_mb",
        sides={"tenth_": "100,000 files", "": "1,000,000 files"},
    ),
)


def drawn(run: Run, figures: Mapping[str, Figure]) -> Iterator[tuple[Picture, str]]:
    """The pictures of a run, for which there are figures."""
    for picture in PICTURES:
        if picture.run != run:
            continue
        found = [
            Bar(label, figures[name], label.startswith(_OURS) or run == "bench-full")
            for side, label in picture.sides.items()
            if (name := f"{picture.before}{side}{picture.after}") in figures
        ]
        if found:
            yield picture, bars(picture.title, picture.note, picture.unit, found)
