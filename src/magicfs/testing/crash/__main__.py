"""``python -m magicfs.testing.crash``."""

from __future__ import annotations

import sys

from magicfs.testing.crash.main import main

if __name__ == "__main__":
    sys.exit(main())
