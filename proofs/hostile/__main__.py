"""Runs the proof of hostile input."""

import sys

from proofs.hostile.main import main

if __name__ == "__main__":
    sys.exit(main())
