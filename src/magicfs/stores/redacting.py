"""Secrets within text: users and passwords in URLs, and signatures. What is shown is shown without them."""

from __future__ import annotations

import re

__all__ = ["has_password", "has_signature", "redacted"]

_USERINFO = re.compile(
    r"(?P<scheme>\b(?:https?|socks\w*)://)[^\s/?#]*@|(?P<other>\A|://)[^\s/?#]*:[^\s/?#]*@", re.IGNORECASE
)
"""A user or a password before the host of a URL, or of a proxy without a scheme."""
_SIGNED = re.compile(
    r"(?P<name>\b(?:AccountKey|SharedAccessSignature)=|"
    r"[?&](?:sig|X-Amz-Signature|X-Amz-Security-Token|X-Goog-Signature)=)[^\s;&\"']+",
    re.IGNORECASE,
)
"""What lets anybody in who has the text: a part of a connection string, or of a signed URL."""


def has_password(url: str) -> bool:
    """Whether a URL has a user or a password before its host."""
    return _USERINFO.search(url) is not None


def has_signature(text: str) -> bool:
    """Whether a text carries a signature, or a part of a connection string, that lets anybody in."""
    return _SIGNED.search(text) is not None


def redacted(text: str) -> str:
    """Text as it may be shown: URLs in it lose user and password, and signatures their value."""
    if "@" in text:
        text = _USERINFO.sub(lambda found: found["scheme"] or found["other"] or "", text)
    return _SIGNED.sub(lambda found: f"{found['name']}…", text)
