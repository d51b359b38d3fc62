"""``python -m proofs.checkpoints``."""

import sys

from proofs.checkpoints.main import main

sys.exit(main())
