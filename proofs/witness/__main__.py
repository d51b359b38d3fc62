"""``python -m proofs.witness``."""

import sys

from proofs.witness.main import main

sys.exit(main())
