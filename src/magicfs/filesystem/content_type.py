"""The content type of a file that is opened, where the wrapped filesystem gives it one by its name."""

from __future__ import annotations

import mimetypes

from magicfs.protocol.file_options import CONTENT_TYPE
from magicfs.stores.port import Store

__all__ = ["guessed"]


def guessed(store: Store, path: str) -> dict[str, str]:
    """The options of an upload that say so; none where it gives none, or the name gives none."""
    kind = mimetypes.guess_type(path)[0] if store.capabilities.guesses_content_type else None
    return {} if kind is None else {CONTENT_TYPE: kind}
