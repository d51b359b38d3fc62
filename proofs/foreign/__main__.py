"""The command."""

import sys

from proofs.foreign.main import main

if __name__ == "__main__":
    sys.exit(main())
