"""The command."""

import sys

from proofs.faults.main import main

if __name__ == "__main__":
    sys.exit(main())
