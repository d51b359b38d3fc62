"""``python -m magicfs.cli``."""

import sys

from magicfs.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
