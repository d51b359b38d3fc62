"""``python -m magicfs.testing.job_model``."""

from __future__ import annotations

import sys

from magicfs.testing.job_model.main import main

if __name__ == "__main__":
    sys.exit(main())
