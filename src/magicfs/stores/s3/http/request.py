"""The head of a request, as it goes over the wire."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["head_of"]


def head_of(method: str, target: str, headers: Sequence[tuple[str, str]]) -> bytes:
    """Request line and headers, with the empty line behind them.

    Raises ``ValueError``, which does not show a header, for what would not arrive as it is written here.
    """
    text = "".join(
        [f"{method} {target} HTTP/1.1\r\n", *[f"{name}: {value}\r\n" for name, value in headers], "\r\n"]
    )
    lines = len(headers) + 2
    if text.count("\n") != lines or text.count("\r") != lines or "\0" in text:
        raise ValueError("a request cannot hold line ends or NUL in its target or a header; nothing was sent")
    if " " in target or not target.isascii():
        raise ValueError("the target of a request must be percent-encoded; nothing was sent")
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ValueError("a header holds what is no text; nothing was sent") from None
