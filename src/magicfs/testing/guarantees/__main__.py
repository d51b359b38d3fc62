"""The command."""

import sys

from magicfs.testing.guarantees.main import main

if __name__ == "__main__":
    sys.exit(main())
