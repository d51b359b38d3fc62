"""Exceptions of a store's client, raised as errors of the port."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["translating"]


@contextmanager
def translating(
    translate: Callable[[Exception, str, str], Exception], operation: str, path: str
) -> Iterator[None]:
    """Raise what ``translate`` makes of exceptions within; one that it returns is raised as it is.

    The exception is shown as the cause, unless ``translate`` has given another one.
    """
    try:
        yield
    except Exception as error:
        known = translate(error, operation, path)
        if known is error:
            raise
        raise known from known.__cause__ or error
