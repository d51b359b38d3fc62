"""``python -m proofs.operate``."""

from __future__ import annotations

import sys

from proofs.operate.main import main

if __name__ == "__main__":
    sys.exit(main())
