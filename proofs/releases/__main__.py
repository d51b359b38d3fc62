"""``python -m proofs.releases``."""

from __future__ import annotations

import sys

from proofs.releases.main import main

if __name__ == "__main__":
    sys.exit(main())
