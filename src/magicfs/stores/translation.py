"""Exceptions of a store's client, raised as errors of the port."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["translating"]


class translating:  # noqa: N801 - a context manager, made for every request: a generator takes thrice as long
    """Raise what ``translate`` makes of exceptions within; one that it returns is raised as it is.

    The exception is shown as the cause, unless ``translate`` has given another one.
    """

    __slots__ = ("_operation", "_path", "_translate")

    def __init__(
        self, translate: Callable[[Exception, str, str], Exception], operation: str, path: str
    ) -> None:
        self._translate = translate
        self._operation = operation
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if not isinstance(error, Exception):
            return
        known = self._translate(error, self._operation, self._path)
        if known is not error:
            raise known from known.__cause__ or error
