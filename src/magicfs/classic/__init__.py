"""Committers as others have them: direct, stocator, task-completing, and algorithm 2 of the file committer.

A guest: the core finds them by entry points, which name what is known of each before it is made.
"""

from dataclasses import replace
from typing import Final

from magicfs.committers.registry import CORE, CommitterInfo

DIRECT: Final = CommitterInfo(
    home="magicfs.classic.direct:DirectCommitter",
    writes="final files",
    needs="nothing",
    modes=("error", "append"),
    place="magicfs.classic.filesystem:of_task",
)
STOCATOR: Final = replace(
    DIRECT, home="magicfs.classic.stocator:StocatorCommitter", place="magicfs.classic.filesystem:of_attempt"
)
TASK_COMPLETING: Final = CommitterInfo(
    "magicfs.classic.task_completing:TaskCompletingCommitter", "delayed uploads", "uploads", DIRECT.modes
)
ALGORITHM_2: Final = replace(
    CORE["file"],
    home="magicfs.classic.algorithm2:TaskPublishingCommitter",
    modes=DIRECT.modes,
    variants="",
    refusal=(
        "committer='file' with algorithm=2 publishes when its tasks commit, and with mode='{mode}' "
        "readers would see old and new files together until the job commits; use algorithm=1, or "
        "committer='manifest' where the store has a rename"
    ),
)
