from __future__ import annotations

pytest_plugins = ["magicfs.testing.fixtures", "magicfs.testing.exam_summary"]
