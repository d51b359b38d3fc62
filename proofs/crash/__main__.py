"""``python -m proofs.crash``."""

from __future__ import annotations

import sys

from proofs.crash.main import main

if __name__ == "__main__":
    sys.exit(main())
