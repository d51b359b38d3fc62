"""How much room lists of keys take in a manifest, told before it is written."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicfs.transaction import prepare


@given(st.lists(st.text() | st.sampled_from(["\ud800", "\udc00", '"\\\n\x7f', "東京"]), max_size=9))
def test_many_keys_take_what_each_of_them_takes(keys: list[str]) -> None:
    each = [len(json.dumps(key, ensure_ascii=False).encode(errors="replace")) + 1 for key in keys]
    for at_once in (1, 2, 1000):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(prepare, "_AT_ONCE", at_once)
            assert prepare._size(keys) == sum(each)
