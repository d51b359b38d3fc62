"""Keys of a command, by ``MAGICFS_CONNECT_SEAL``: a JSON object of URLs, and of files or variables with keys.

::

    MAGICFS_CONNECT_SEAL='{"s3://lake/sales": ["new.key", "env:OLD_KEY"]}' magicfs verify s3://lake/sales
"""

from __future__ import annotations

from typing import Final

from magicfs.errors import FormatError, UsageError
from magicfs.formats.document import parse
from magicfs.seal.keys import SealingKey, from_environment, from_file
from magicfs.seal.store import use

_LIMIT: Final = 64 * 1024
_VARIABLE: Final = "env:"


def connect(value: str) -> None:
    """Take the keys that the variable names. Raises UsageError if one cannot be had; none is taken then."""
    try:
        found = parse("MAGICFS_CONNECT_SEAL", value.encode("utf-8", "surrogatepass"), size_limit=_LIMIT)
    except FormatError as error:
        raise _wrong(error.problem) from None
    named = {url: [one] if isinstance(one, str) else one for url, one in found.items()}
    if not named:
        raise _wrong("it names no URL")
    keys = {url: list(map(_key, _texts(url, given))) for url, given in named.items()}
    for url, those in keys.items():
        use(url, *those)


def _texts(url: str, given: object) -> list[str]:
    if not isinstance(given, list) or not given or not all(isinstance(one, str) for one in given):
        raise _wrong(f"{url!a} has to have the name of a key file, or a list of them")
    return given


def _key(text: str) -> SealingKey:
    if text.startswith(_VARIABLE):
        return from_environment(text.removeprefix(_VARIABLE))
    return from_file(text)


def _wrong(problem: str) -> UsageError:
    return UsageError(
        f"MAGICFS_CONNECT_SEAL cannot be read: {problem}; write it like "
        '\'{"s3://lake/sales": "/run/secrets/sales.key"}\''
    )
