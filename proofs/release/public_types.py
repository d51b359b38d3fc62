"""How much of what magicfs exports has types, as pyright sees it who has installed it."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Final

from proofs.release import say

LEAST: Final = 0.99
"""Which share of the exported symbols must have a type that pyright knows."""
_SHOWN_MAX: Final = 40


def main() -> int:
    """Print the share, and the symbols without; returns 0 if it is high enough."""
    pyright = [sys.executable, "-m", "pyright", "--outputjson"]
    asked = [*pyright, "--verifytypes", "magicfs", "--ignoreexternal"]
    done = subprocess.run(asked, check=False, capture_output=True, text=True)  # noqa: S603
    try:
        found = json.loads(done.stdout)["typeCompleteness"]
    except (ValueError, KeyError):
        raise SystemExit(f"pyright gave no figures:\n{done.stdout}\n{done.stderr}") from None
    unknown = [one for one in found["symbols"] if one["isExported"] and not one["isTypeKnown"]]
    for one in unknown[:_SHOWN_MAX]:
        messages = "; ".join(said["message"].splitlines()[0] for said in one["diagnostics"])
        say(f"{one['name']}: {messages or 'not known'}")
    share, counts = found["completenessScore"], found["exportedSymbolCounts"]
    say(f"{share:.2%} of the exported symbols have known types: {counts}")
    return 0 if share >= LEAST else 1


if __name__ == "__main__":
    sys.exit(main())
