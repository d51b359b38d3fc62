"""``python -m proofs.hadoop``."""

import sys

from proofs.hadoop.main import main

sys.exit(main())
