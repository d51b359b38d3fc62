"""Seals: records that only a publisher's key can make, and that who has the key checks.

::

    from magicfs import seal

    seal.use("s3://lake/sales", seal.from_file("/run/secrets/sales.key"))

From then on everything that this process publishes there is sealed, and nothing else is believed there:
``docs/sealing.md``.
"""

from magicfs.seal.keys import Key, SealingKey, from_environment, from_file
from magicfs.seal.store import forget, use
from magicfs.seal.take_in import SealReport, seal

__all__ = ["Key", "SealReport", "SealingKey", "forget", "from_environment", "from_file", "seal", "use"]
