from __future__ import annotations

from magicfs.formats import deletions
from magicfs.formats.deletions import CHUNK_LENGTH, DELETIONS_SIZE_LIMIT, OldObject
from magicfs.testing.strategies import KEY_BYTES_MAX

PATH = "b/d/__magic_job-j/job-j/facts/n/deletions-00000.json"


def test_the_longest_chunk_fits() -> None:
    one = OldObject("\x7f" * (KEY_BYTES_MAX + 24), '"' * 66, 2**63 - 1)
    raw = deletions.write([one] * CHUNK_LENGTH)
    assert len(raw) < DELETIONS_SIZE_LIMIT
    assert len(deletions.read(PATH, raw)) == CHUNK_LENGTH
