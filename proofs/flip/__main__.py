"""The command."""

import sys

from proofs.flip.main import main

if __name__ == "__main__":
    sys.exit(main())
