"""What goes wrong between a request and its answer."""

from __future__ import annotations

__all__ = ["HttpError", "NoAnswer", "NotConnected"]


class HttpError(OSError):
    """A request without an answer. ``str(error)`` names the server and what happened, and holds no secret."""


class NotConnected(HttpError):
    """There is no connection: nothing of the request was sent."""


class NoAnswer(HttpError):
    """The request was sent, perhaps in part, and no whole answer came: it may have taken place."""
