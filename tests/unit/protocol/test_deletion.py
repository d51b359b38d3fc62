"""Which visible file a job may delete, as a function of values."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from magicfs.protocol.identity import Purpose, may_delete

KEYS = st.sampled_from(["t/a", "t/b", "t/a b%+#", "t/ü"])
WRITE_IDS = st.none() | st.sampled_from(["w1", "w2"])
OWN = st.dictionaries(KEYS, WRITE_IDS)


@given(KEYS, WRITE_IDS, OWN)
def test_a_replace_deletes_no_key_that_the_job_publishes(
    key: str, write_id: str | None, own: dict[str, str | None]
) -> None:
    assert may_delete(Purpose.REPLACE, key, write_id, own) == (key not in own)


@given(KEYS, WRITE_IDS, OWN)
def test_a_revert_deletes_only_files_that_bear_the_write_id_of_their_upload(
    key: str, write_id: str | None, own: dict[str, str | None]
) -> None:
    assert not may_delete(Purpose.TAKE_BACK, key, None, own)
    if may_delete(Purpose.TAKE_BACK, key, write_id, own):
        assert own[key] == write_id
