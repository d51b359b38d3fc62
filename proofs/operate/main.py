"""``python -m proofs.operate``: open uploads, count them, end some; the last line is one JSON object.

A fifth each are of a running job, of a job in quarantine, of a job of Hadoop's, of jobs that have ended, and
of nobody. Eight days later, by the clocks of the store and of this machine, ``uploads --abort --older-than
7d`` must end exactly those of the last two, and leave every other one, by key and upload id.
"""

from __future__ import annotations

import argparse
import json
import logging
import resource
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar
from uuid import uuid4

from fsspec.asyn import sync

import magicfs
from magicfs.engine import Engine
from magicfs.errors import AuditFailed
from magicfs.formats.pending import Pending
from magicfs.formats.pendingset import PendingSet
from magicfs.operate.prices import price_of
from magicfs.operate.uploads import UploadsReport, survey
from magicfs.protocol.paths import Location
from magicfs.runtime.parallel import gathered
from magicfs.stores import resolve
from magicfs.stores.delegating import DelegatingStore
from magicfs.stores.port import Store
from magicfs.testing.counting_store import CountingStore
from proofs.doubles.servers import SERVERS

__all__ = ["main"]

_T = TypeVar("_T")
_BUCKET: Final = "bucket"
_KINDS: Final = ("running", "quarantined", "hadoop", "ended", "nobody")
_LATER_S: Final = 8 * 86_400.0
_AT_ONCE: Final = 32
_BODY: Final = b"a part"
_FILES_OF_A_SET: Final = 1000


class _Later(DelegatingStore):
    """The same store, whose clock is eight days ahead: its uploads were opened long ago."""

    async def _around(self, operation: str, key: str, request: Callable[[], Awaitable[_T]]) -> _T:
        found = await super()._around(operation, key, request)
        return found + _LATER_S if operation == "clock" else found  # type: ignore[operator,return-value]


class _Ground:
    """A bucket on a server, and who has opened what there."""

    def __init__(self, options: dict[str, Any], number: int) -> None:
        self.options = options
        self.share = number // len(_KINDS)
        self.filesystem = resolve.filesystem("s3", options)
        self.store = resolve.open_store(self.filesystem, _BUCKET)
        self.counts: Counter[str] = Counter()

    def run(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Run a coroutine on the store's loop."""
        return sync(resolve.loop_of(self.filesystem), work, *arguments)

    def begin(self) -> dict[str, set[tuple[str, str]]]:
        """Open them all; returns what each kind has."""
        running = magicfs.Job(f"s3://{_BUCKET}/sales", mode="append", storage_options=self.options).setup()
        audited = magicfs.Job(
            f"s3://{_BUCKET}/stock", mode="append", audit=[lambda _: "never"], storage_options=self.options
        ).setup()
        with audited.task(0) as task:
            task.filesystem.pipe_file(f"{task.path}/x", _BODY)
        with suppress(AuditFailed):
            audited.commit()
        [one] = self.run(self._all)
        ended, hadoop = [str(uuid4()) for _ in range(7)], str(uuid4())
        made = {
            "running": self._open(f"sales/day={{0}}/a{{1}}-000000-{running.id}.parquet", self.share),
            "quarantined": [one, *self._open(f"stock/b{{1}}-000000-{audited.id}.parquet", self.share - 1)],
            "hadoop": self._open("lake/day={0}/part-{1}.parquet", self.share),
            "ended": [
                *(
                    key
                    for number, job in enumerate(ended)
                    for key in self._open(
                        f"sales/day={{0}}/c{{1}}-000001-{job}.parquet",
                        self.share // len(ended) + (number < self.share % len(ended)),
                    )
                )
            ],
            "nobody": self._open("logs/{0}/part-{1}", self.share),
        }
        self._record(hadoop, made["hadoop"])
        return {kind: {(key, upload) for key, upload, *_ in found} for kind, found in made.items()}

    def _open(self, template: str, number: int) -> list[tuple[str, ...]]:
        keys = [template.format(one % 30, one) for one in range(number)]

        async def begin(key: str) -> tuple[str, ...]:
            upload = await self.store.create_upload(key, metadata={})
            part = await self.store.put_part(key, upload, 1, _BODY)
            return key, upload, part.etag

        found: list[tuple[str, ...]] = self.run(gathered, keys, begin, _AT_ONCE)
        return found

    def _record(self, job: str, opened: Sequence[tuple[str, ...]]) -> None:
        """What tasks of Hadoop's magic committer leave that have committed."""
        for start in range(0, len(opened), _FILES_OF_A_SET):
            commits = [
                Pending.from_bytes(
                    "p.pending",
                    json.dumps(
                        {
                            "version": 2,
                            "uploadId": upload,
                            "bucket": _BUCKET,
                            "destinationKey": key,
                            "etags": [etag],
                            "length": len(_BODY),
                        }
                    ).encode(),
                )
                for key, upload, etag in opened[start : start + _FILES_OF_A_SET]
            ]
            task = f"task_202611280000_0001_m_{start:06}"
            key = f"lake/__magic_job-{job}/job-{job}/00/{task}.pendingset"
            self.run(self.store.put, key, PendingSet.merge(job, commits).to_bytes())

    async def _all(self) -> list[tuple[str, ...]]:
        return [(one.key, one.upload_id) async for one in self.store.list_uploads("")]

    def left(self) -> set[tuple[str, str]]:
        """Every open upload, as the store lists it."""
        return {(key, upload) for key, upload in self.run(self._all)}

    def survey(self, *, later: bool = False, **how: Any) -> tuple[UploadsReport, float, dict[str, int]]:
        """What ``uploads`` reports, its seconds, and its requests by kind."""
        counts = Counter[str]()
        inner: Store = CountingStore(self.store, counts)
        engine = Engine(_Later(inner) if later else inner, _AT_ONCE)
        location, price = Location("s3", _BUCKET, ""), price_of("s3", None)
        if later:
            how |= {"clock": lambda: time.time() + _LATER_S}
        started = time.monotonic()

        async def work() -> UploadsReport:
            return await survey(engine, location, price, **how)

        report: UploadsReport = self.run(work)
        return report, round(time.monotonic() - started, 2), dict(counts)


def main(argv: Sequence[str] | None = None) -> int:
    """Run it and print the figures; 0 if all are exact."""
    parser = argparse.ArgumentParser(prog="python -m proofs.operate", description=__doc__)
    parser.add_argument("--uploads", type=int, default=2000, help="how many (default: 2000)")
    parser.add_argument("--server", choices=sorted(SERVERS), default="seaweedfs")
    arguments = parser.parse_args(argv)
    logging.getLogger("magicfs").setLevel(logging.ERROR)
    with SERVERS[arguments.server]() as server:
        server.create_bucket(_BUCKET)
        found = _prove(_Ground(server.storage_options(), arguments.uploads))
    print(json.dumps({"server": arguments.server, **found}))  # noqa: T201
    return 1 if found["wrong"] else 0


def _prove(ground: _Ground) -> dict[str, object]:
    expected = ground.begin()
    before = _peak_mib()
    wrong: list[str] = []

    def compare(what: str, seen: object, wanted: object) -> None:
        if seen != wanted:
            wrong.append(f"{what}: {str(seen)[:200]}, not {str(wanted)[:200]}")

    report, told_s, told_requests = ground.survey()
    compare("owners", _owners(report), {kind: len(found) for kind, found in expected.items()})
    sized, sized_s, sized_requests = ground.survey(sizes=True)
    compare("bytes", sized.total.bytes, sum(map(len, expected.values())) * len(_BODY))
    compare("unsized", sized.total.unsized, 0)
    planned, *_ = ground.survey(later=True, older_than_s=7 * 86_400.0, dry_run=True)
    free = expected["ended"] | expected["nobody"]
    assert planned.aborting is not None
    compare("planned", planned.aborting.ended.uploads, len(free))
    compare("left by the dry run", ground.left(), set().union(*expected.values()))
    done, ended_s, ended_requests = ground.survey(later=True, older_than_s=7 * 86_400.0)
    assert done.aborting is not None
    compare("ended", done.aborting.ended.uploads, len(free))
    compare("left", ground.left(), set().union(*expected.values()) - free)
    again, *_ = ground.survey(later=True, older_than_s=7 * 86_400.0)
    assert again.aborting is not None
    compare("ended again", again.aborting.ended.uploads, 0)
    return {
        "uploads": sum(map(len, expected.values())),
        "owners": _owners(report),
        "ended": done.aborting.ended.uploads,
        "left": done.total.uploads,
        "wrong": wrong,
        "report": {"seconds": told_s, "requests": told_requests},
        "report_with_sizes": {"seconds": sized_s, "requests": sized_requests},
        "abort": {"seconds": ended_s, "requests": ended_requests},
        "peak_mib_before": before,
        "peak_mib": _peak_mib(),
    }


def _owners(report: UploadsReport) -> dict[str, int]:
    return {owner.value: one.uploads for owner, one in report.owners.items()}


def _peak_mib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
