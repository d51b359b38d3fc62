"""``python -m proofs.upkeep``."""

from __future__ import annotations

import sys

from proofs.upkeep.main import main

if __name__ == "__main__":
    sys.exit(main())
