"""Lets ``magicfs.write`` fail: in the first call before it does anything, in the second after it is done.

The file that ``MAGICFS_PROOF_CALLS`` names has a line for each call, whichever process makes it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import magicfs

_calls = Path(os.environ["MAGICFS_PROOF_CALLS"])
_write = magicfs.write


def _failing(*args: Any, **how: Any) -> Any:
    with _calls.open("a") as file:
        file.write(f"{how['run_id']}\n")
    number = len(_calls.read_text().splitlines())
    if number == 1:
        raise ConnectionError("nothing was sent")
    report = _write(*args, **how)
    if number == 2:
        raise ConnectionError("the answer is lost")
    return report


if magicfs.write is not _failing:
    magicfs.write = _failing
