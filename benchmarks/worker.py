"""A side as a process: ``python -m benchmarks.worker MODULE:CLASS PLACE``, asked line by line.

A question is ``{"work": "stream", "arguments": {…}}``, the answer the samples of its phases. Work is a method
of the class, which is given a clock and the arguments.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
import traceback
from dataclasses import asdict
from typing import Any

from benchmarks.clock import Clock, peak_mb
from benchmarks.place import Place

__all__ = ["main"]


def main(name: str, told: str) -> None:
    """Answer until the standard input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print is no answer
    given = json.loads(told)
    place = None if given is None else Place(**given)
    module, _, kind = name.partition(":")
    try:
        side = getattr(importlib.import_module(module), kind)(place)
        ready: dict[str, Any] = {"versions": dict(side.versions())}
    except Exception:  # noqa: BLE001 - told to who asked
        ready = {"error": traceback.format_exc()}
    print(json.dumps(ready), file=answers, flush=True)
    for line in sys.stdin:
        question = json.loads(line)
        print(json.dumps(_answer(side, question, place)), file=answers, flush=True)


def _answer(side: Any, question: dict[str, Any], place: Place | None) -> dict[str, Any]:
    clock = Clock(None if place is None else place.server)
    try:
        gc.collect()
        peak_mb(reset=True)
        values = getattr(side, question["work"])(clock, **question["arguments"]) or {}
    except Exception:  # noqa: BLE001 - told to who asked
        return {"error": traceback.format_exc()}
    samples = {phase: asdict(sample) for phase, sample in clock.samples.items()}
    return {"samples": samples, "values": {**values, "peak_mb": peak_mb()}}


if __name__ == "__main__":
    main(*sys.argv[1:])
