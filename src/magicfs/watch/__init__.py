"""Watching jobs: the progress bar, OpenTelemetry, logs as JSON, and who did what.

``magicfs.watch.start()`` reports the jobs of this process to OpenTelemetry.
"""

from magicfs.watch.telemetry import start, stop

__all__ = ["start", "stop"]
