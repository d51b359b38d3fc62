"""The log ``magicfs`` as lines of JSON, for programs that collect logs."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Final

_FACTS: Final = "magicfs"
"""The attribute of a record that has the facts of a step."""


class JsonLines(logging.Formatter):
    """Formats a record as one line: ``time``, ``level``, ``logger``, ``message``, and the facts of a step."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        facts = getattr(record, _FACTS, None)
        if isinstance(facts, dict):
            line |= {name: value for name, value in facts.items() if name not in line}
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, separators=(",", ":"))


@contextmanager
def start(level: int = logging.INFO) -> Iterator[None]:
    """Within, the log ``magicfs`` is written to stderr as lines of JSON, and nowhere else."""
    handler, logger = logging.StreamHandler(sys.stderr), logging.getLogger("magicfs")
    handler.setFormatter(JsonLines())
    before = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    logger.setLevel(level)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = before[1]
        logger.setLevel(before[0])
