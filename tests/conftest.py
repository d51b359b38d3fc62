from __future__ import annotations

from hypothesis import settings

pytest_plugins = ["magicfs.testing.fixtures", "magicfs.testing.exam_summary"]

# A deadline is a timed assertion, and fails on a busy machine.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
