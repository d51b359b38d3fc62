"""The command."""

import sys

from proofs.endings.main import main

if __name__ == "__main__":
    sys.exit(main())
