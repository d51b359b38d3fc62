"""Watching jobs: the progress bar, OpenTelemetry, logs as JSON, and who decided what.

``magicfs.watch.start()`` reports the jobs of this process to OpenTelemetry.
"""

from typing import TYPE_CHECKING, Final

from magicfs.runtime.registered import lazy_names

if TYPE_CHECKING:
    from magicfs.watch.telemetry import start as start
    from magicfs.watch.telemetry import stop as stop

__all__ = ["start", "stop"]
__getattr__: Final = lazy_names(__name__, dict.fromkeys(__all__, "magicfs.watch.telemetry"))
