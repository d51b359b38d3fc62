"""``python -m proofs.past``."""

from __future__ import annotations

import sys

from proofs.past.main import main

if __name__ == "__main__":
    sys.exit(main())
