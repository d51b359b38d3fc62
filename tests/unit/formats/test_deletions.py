from __future__ import annotations

import pytest

from magicfs.errors import FormatError
from magicfs.formats import deletions
from magicfs.formats.deletions import CHUNK_LENGTH, OldObject
from magicfs.formats.gate import admit
from magicfs.formats.limits import DELETIONS_SIZE_LIMIT
from magicfs.formats.rows import Place
from magicfs.testing.strategies import KEY_BYTES_MAX

PATH = "b/d/__magic_job-j/job-j/facts/n/deletions-00000.json"


def test_the_longest_chunk_fits() -> None:
    one = OldObject("\x7f" * (KEY_BYTES_MAX + 24), '"' * 66, 2**63 - 1)
    raw = deletions.write([one] * CHUNK_LENGTH)
    assert len(raw) < DELETIONS_SIZE_LIMIT
    assert len(deletions.read(PATH, raw)) == CHUNK_LENGTH


class TestKeptFiles:
    """Lists of what a dataset keeps: it may have been moved since they were written."""

    FILE = OldObject("old/t/p=1/a.csv", '"e"', 1, "v")

    @pytest.mark.parametrize("destination", ["old/t", "new", ""])
    def test_keys_follow_the_dataset(self, destination: str):
        raw = deletions.write([self.FILE], destination="old/t")
        assert b"old/t" not in raw
        (found,) = deletions.read_below(PATH, raw, destination)
        assert found == self.FILE._replace(key=f"{destination}/p=1/a.csv".lstrip("/"))

    def test_a_list_of_whole_keys_is_none_of_what_a_dataset_keeps(self):
        with pytest.raises(FormatError, match="requires: without 'relative'"):
            deletions.read_below(PATH, deletions.write([self.FILE]), "old/t")

    @pytest.mark.parametrize(
        "relative", ["../a.csv", "p=1/../../a", "_SUCCESS", "_magicfs/current.json", "__magic_job-1/a"]
    )
    def test_what_no_job_keeps_is_refused(self, relative: str):
        raw = deletions.write([OldObject(f"old/{relative}", '"e"', 1)], destination="old")
        place = Place(PATH, "b", "new", also_overwrite=None)
        with pytest.raises(FormatError, match=r"objects\[\]\.key: .*nothing was changed"):
            admit("deletions", deletions.read_below(PATH, raw, "new"), place)
