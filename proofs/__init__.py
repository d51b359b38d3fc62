"""What the project claims, proven: run with ``tox``, not shipped."""
