"""``python -m proofs.job_model``."""

from __future__ import annotations

import sys

from proofs.job_model.main import main

if __name__ == "__main__":
    sys.exit(main())
