"""Four ranks save through SeaweedFS and are killed; the last line of stdout is one JSON object."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import signal
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import fsspec.config
import torch
import torch.distributed.checkpoint as dcp

import magicfs
from magicfs.errors import MagicError
from magicfs.torch import StorageReader, latest
from proofs.checkpoints.libraries import played
from proofs.checkpoints.points import RAISES
from proofs.checkpoints.rank import run
from proofs.checkpoints.state import RANKS, SIZE, differences, empty, state_of
from proofs.doubles.servers import SeaweedFS

__all__ = ["main"]

_SECONDS_MAX = 180
_BUCKET: Final = "checkpoints"


@dataclass(frozen=True)
class Case:
    """One rank dies at one point of a save."""

    victim: int
    point: str
    is_new: bool = False  # whether the checkpoint is there afterwards

    @property
    def name(self) -> str:
        return f"rank {self.victim} {'' if self.point == RAISES else 'killed '}{self.point}"


CASES: Final = (
    Case(2, "before it writes"),
    Case(2, "in the middle of a file"),
    Case(2, "before its task commits"),
    Case(2, "after its task has committed"),
    Case(3, RAISES),
    Case(0, "in the middle of a file"),
    Case(0, "before the job commits"),
    Case(0, "while it publishes", is_new=True),
    Case(0, "after the job has committed", is_new=True),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Play every case; 0 if every checkpoint was whole or not there, and nothing was left."""
    parser = argparse.ArgumentParser(prog="python -m proofs.checkpoints", description=__doc__)
    parser.add_argument("--only", metavar="TEXT", default="", help="cases whose names have this in them")
    given = parser.parse_args(argv)
    began = time.monotonic()
    with SeaweedFS() as server:
        os.environ.update(server.environment())
        fsspec.config.set_conf_env(fsspec.config.conf)
        server.create_bucket(_BUCKET)
        figures = _played(server, given.only)
    ok = not any(case["wrong"] for case in figures["cases"].values()) and not figures["loaded"]["wrong"]
    ok = ok and not any(figures["libraries"].values())
    figures |= {"seconds": round(time.monotonic() - began, 1), "ok": ok}
    print(json.dumps(figures, separators=(",", ":")))  # noqa: T201
    return 0 if ok else 1


def _played(server: SeaweedFS, only: str) -> dict[str, Any]:
    url, step = f"s3://{_BUCKET}/run é %+#", 1
    _must(_ranks({"do": "save", "url": url, "step": step, "name": "step 1"}))
    cases: dict[str, dict[str, Any]] = {}
    for number, case in enumerate((one for one in CASES if only in one.name), start=2):
        _say(case.name)
        order = {"do": "save", "url": url, "step": number, "name": f"step {number}"}
        codes = _ranks(order | {"victim": case.victim, "point": case.point})[0]
        cases[case.name], step = _judged(server, url, case, codes, step, number)
    loaded: dict[str, Any] = {"wrong": []}
    for ranks in (RANKS, 3, 2):
        _say(f"{ranks} ranks load")
        codes, _ = _ranks({"do": "load", "url": url, "step": step, "name": f"step {step}"}, ranks)
        loaded[f"by {ranks} ranks"] = not any(codes)
        loaded["wrong"] += [f"{ranks} ranks ended with {codes}"] if any(codes) else []
    _say("libraries")
    libraries = played(f"s3://{_BUCKET}/libraries")
    if uploads := server.pending_uploads(_BUCKET):
        libraries["all"] = [f"left are {[one['Key'] for one in uploads]}"]
    _say("pace")
    pace = _must(_ranks({"do": "pace", "url": f"s3://{_BUCKET}/pace"}))
    return {
        "torch": torch.__version__,
        "store": server.name,
        "ranks": RANKS,
        "bytes": SIZE,
        "cases": cases,
        "loaded": loaded,
        "libraries": libraries,
        "save_seconds": pace,
        "save_ratio_to_fsspec": round(pace["magicfs"] / pace["fsspec"], 2),
    }


def _judged(
    server: SeaweedFS, url: str, case: Case, codes: list[int | None], old: int, new: int
) -> tuple[dict[str, Any], int]:
    """Look at what a case has left, and bring its job to an end; returns the figures and the newest step."""
    wrong = []
    if case.point != RAISES and codes[case.victim] != -signal.SIGKILL:
        wrong.append(f"the victim was not killed: the ranks ended with {codes}")
    if case.point == RAISES and any(codes):
        wrong.append(f"the ranks ended with {codes}")
    left = len(server.pending_uploads(_BUCKET))
    before = latest(url)
    wrong += _unreadable(url, old) if before == f"step {old}" else _unreadable(url, new)
    try:
        if magicfs.Dataset(url).recover().undecided:  # a job that is still open
            magicfs.Dataset(url).recover(abort=True)
    except MagicError as error:
        wrong.append(f"recover: {error}")
    newest = new if case.is_new else old
    if (found := latest(url)) != f"step {newest}":
        wrong.append(f"afterwards the newest is {found!r}")
    wrong += _unreadable(url, newest) + _unreadable(url, old)
    uploads = [one["Key"] for one in server.pending_uploads(_BUCKET)]
    work = [key for key in _keys(server) if "__magic" in key]
    parts = [key for key in _keys(server) if f"/step {new}/" in key]
    if uploads or work or (parts and not case.is_new):
        wrong.append(f"left are {uploads + work + parts}")
    figures = {
        "uploads_left_by_the_killed": left,
        "newest_before_recover": before,
        "newest_after": found,
        "uploads_left_after": len(uploads),
        "files_of_the_new_one": len(parts),
        "wrong": wrong,
    }
    return figures, newest


def _unreadable(url: str, step: int) -> list[str]:
    """Load a checkpoint in this process; says what is wrong with it."""
    state = empty()
    try:
        dcp.load(state, checkpoint_id=f"step {step}", storage_reader=StorageReader(url), no_dist=True)
    except Exception as error:  # noqa: BLE001 - told
        return [f"step {step} cannot be loaded: {error!r}"]
    return [f"step {step}: {name} differs" for name in differences(state, state_of(step))]


def _keys(server: SeaweedFS) -> list[str]:
    pages = server.s3_client().get_paginator("list_objects_v2").paginate(Bucket=_BUCKET)
    return [one["Key"] for page in pages for one in page.get("Contents", ())]


def _ranks(order: dict[str, Any], count: int = RANKS) -> tuple[list[int | None], Any]:
    """Run ranks; returns how each ended, and what the first one has told."""
    # Importing torch takes seconds, so one process imports it and is forked for each rank.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["proofs.checkpoints.rank"])
    port, (told, tell) = _free_port(), context.Pipe(duplex=False)
    running = [context.Process(target=run, args=(order, rank, count, port, tell)) for rank in range(count)]
    for process in running:
        process.start()
    tell.close()
    until = time.monotonic() + _SECONDS_MAX
    for process in running:
        process.join(max(1.0, until - time.monotonic()))
        if process.is_alive():
            process.kill()
            process.join()
    shown = None
    with suppress(EOFError):
        shown = told.recv() if told.poll() else None
    return [process.exitcode for process in running], shown


def _must(ended: tuple[list[int | None], Any]) -> Any:
    codes, told = ended
    if any(codes):
        raise SystemExit(f"the ranks ended with {codes}")
    return told


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def _say(text: str) -> None:
    sys.stderr.write(f"checkpoints: {text}\n")
    sys.stderr.flush()
