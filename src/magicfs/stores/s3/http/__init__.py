"""A lean client of HTTP/1.1: each request is sent once, and costs little."""

from __future__ import annotations

from magicfs.stores.s3.http.answer import Answer
from magicfs.stores.s3.http.client import HttpClient
from magicfs.stores.s3.http.connection import Address, HttpError, NoAnswer, NotConnected

__all__ = ["Address", "Answer", "HttpClient", "HttpError", "NoAnswer", "NotConnected"]
