"""The witness of behaviour: the same stories come to the same, and what changes is noticed."""

from __future__ import annotations

import pytest

from proofs.scenes.mutants import patched
from proofs.witness.face import face
from proofs.witness.main import FACE, differences, digests, digests_of
from proofs.witness.story import FEATURES, committer_and_feature, play

pytestmark = pytest.mark.slow
_SOME = range(0, 279, 31)
"""Stories of ``nothing`` but a job, by each committer."""


def test_the_public_face_is_what_is_checked_in() -> None:
    assert face() == FACE.read_text(), "if you want this change: tox run -e witness -- --face"


def test_a_story_is_the_same_each_time() -> None:
    for seed in (*_SOME, list(FEATURES).index("silence")):
        assert play(seed) == play(seed), committer_and_feature(seed)


def test_a_request_that_is_made_no_more_is_noticed() -> None:
    known = digests_of(map(digests, _SOME))
    with patched("magicfs.transaction.setup", "if directory:", "if not directory:"):
        changed = digests_of(map(digests, _SOME))
    assert "magic + nothing" in differences(known, changed)["requests"]
    assert not any(differences(known, digests_of(map(digests, _SOME))).values())
