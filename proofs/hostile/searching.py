"""Canaries: strings that stand for secrets. What comes out is searched for each, in all its spellings."""

from __future__ import annotations

import base64
import json
import logging
import pickle
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final
from urllib.parse import quote

__all__ = ["Outputs", "canary", "heard", "in_url"]

_EDGE: Final = 4


def canary(number: int) -> str:
    """A secret that no other text is like, with characters that are escaped in many ways."""
    return f"cnry{number:04d}/+=~{number:04d}yrnc"


def in_url(secret: str) -> str:
    """A secret as it stands in a URL."""
    return quote(secret, safe="")


def spellings(secret: str) -> frozenset[bytes]:
    """A secret as it is, and percent-, JSON- and base64-escaped, wherever it begins in what is encoded."""
    found = {secret, quote(secret), quote(secret, safe=""), json.dumps(secret)[1:-1], repr(secret)[1:-1]}
    found |= {one.replace("/", "\\/") for one in list(found)}
    found |= {secret.encode().hex(), secret.strip("=")}
    for before in range(3):
        coded = base64.b64encode(b"x" * before + secret.encode()).decode()[_EDGE:-_EDGE]
        found |= {coded, coded.replace("+", "-").replace("/", "_"), quote(coded, safe="")}
    return frozenset(one.encode() for one in found)


class Outputs:
    """What came out, and which canaries were in it."""

    def __init__(self, where: str, secrets: dict[str, str]) -> None:
        """``secrets``: canaries by the place in which each was given."""
        self.where = where
        self.counts: Counter[str] = Counter()
        self.violations: list[str] = []
        self._spellings = {place: spellings(secret) for place, secret in secrets.items()}

    def look(self, what: str, output: str | bytes) -> None:
        """Search one output."""
        raw = output.encode(errors="backslashreplace") if isinstance(output, str) else output
        self.counts["outputs"] += 1
        for place, forms in self._spellings.items():
            if any(form in raw for form in forms):
                self.violations.append(f"{self.where}: the {place} is in {what}")

    def show(self, what: str, *values: object) -> None:
        """Search all that can be shown of values, and their pickles."""
        self.show_only(what, *values)
        for value in values:
            self.pickle(what, value)

    def show_only(self, what: str, *values: object) -> None:
        """Search all that can be shown of values that nobody pickles."""
        for value in values:
            name = f"{what} of {type(value).__name__}"
            self.look(f"str {name}", str(value))
            self.look(f"repr {name}", repr(value))
            for method in ("to_dict", "to_json"):
                if callable(call := getattr(value, method, None)):
                    self.look(f"{method} {name}", json.dumps(call(), default=repr))
            if callable(html := getattr(value, "_repr_html_", None)):
                self.look(f"html {name}", html())
            if isinstance(value, BaseException):
                self._show_chain(what, value)

    def pickle(self, what: str, value: object) -> None:
        """Search the pickle of a value; an error in its place is an output, too."""
        try:
            self.look(f"pickle {what} of {type(value).__name__}", pickle.dumps(value))
        except Exception as error:  # noqa: BLE001 - whatever it is: what no pickle takes gives nothing away
            self.look(f"error of the pickle {what}", "".join(traceback.format_exception(error)))

    def _show_chain(self, what: str, error: BaseException) -> None:
        self.look(f"traceback {what}", "".join(traceback.format_exception(error)))
        for one in _chain(error):
            self.look(f"{what}: {type(one).__name__} in its chain", f"{one} {one!r} {one.args!r}")

    @contextmanager
    def errors(self, what: str) -> Iterator[None]:
        """Show the error that ends a block, if one does."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - of any library
            self.show(what, error)


def _chain(error: BaseException) -> Iterator[BaseException]:
    left, seen = [error], set[int]()
    while left:
        one = left.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        left += [other for other in (one.__cause__, one.__context__) if other is not None]
        if isinstance(one, BaseExceptionGroup):
            left += one.exceptions


@contextmanager
def heard(outputs: Outputs, *loggers: str) -> Iterator[None]:
    """Search all that loggers say meanwhile, at DEBUG."""

    class Ear(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            with suppress(TypeError, ValueError):
                outputs.look(f"a log line of {record.name}", logging.Formatter().format(record))

    ear = Ear()
    found = [logging.getLogger(name) for name in loggers]
    levels = [logger.level for logger in found]
    for logger in found:
        logger.addHandler(ear)
        logger.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        for logger, level in zip(found, levels, strict=True):
            logger.removeHandler(ear)
            logger.setLevel(level)
