"""Seals: records that only a publisher's key can make, and that each process with the key checks.

::

    from magicfs import seal

    seal.use("s3://lake/sales", seal.from_file("/run/secrets/sales.key"))

From then on everything that this process publishes there is sealed, and nothing else is believed there:
``docs/sealing.md``.

Names are loaded when they are first used.
"""

from typing import TYPE_CHECKING, Final

from magicfs.runtime.registered import lazy_names

if TYPE_CHECKING:
    from magicfs.seal.keys import Key as Key
    from magicfs.seal.keys import from_environment as from_environment
    from magicfs.seal.keys import from_file as from_file
    from magicfs.seal.store import forget as forget
    from magicfs.seal.store import use as use
    from magicfs.seal.take_in import SealReport as SealReport
    from magicfs.seal.take_in import seal as seal

_HOMES = {
    **dict.fromkeys(("Key", "from_environment", "from_file"), "magicfs.seal.keys"),
    **dict.fromkeys(("forget", "use"), "magicfs.seal.store"),
    **dict.fromkeys(("SealReport", "seal"), "magicfs.seal.take_in"),
}
__all__ = ["Key", "SealReport", "forget", "from_environment", "from_file", "seal", "use"]
__getattr__: Final = lazy_names(__name__, _HOMES)
