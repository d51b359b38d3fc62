"""Looking after a destination from any process, whatever became of the driver of a job.

====================  =======================================================================================
``recover``           bring a job that has died to its end, or take it back
``commit``            publish what the tasks of a dead driver have committed
``preview_commit``    say what ``commit`` would publish
``abort``             discard a job that is not committed, or what is left of one that has ended
``compact``           sum the manifests up, so that readers need not walk all of the chain
``Cluster``           where Hadoop's staging committers keep what tasks have committed
====================  =======================================================================================

Each is in a module of its name. ``read`` and ``verify`` read what is published, ``stocator`` what the
stocator committer has published, and ``adopt`` adopts files that no job has brought. ``listed_jobs`` finds
a job by what its tasks left, and ``connection`` is the way to the store.
``checkup`` says what is right and what is not. ``own_paths`` publishes and discards what lies
below a user's own magic path.
"""

from magicfs.datasets.abort import abort
from magicfs.datasets.commit import ListedJob, commit, commit_listed, preview_commit
from magicfs.datasets.compact import CompactReport, compact
from magicfs.datasets.foreign_jobs.staging import Cluster
from magicfs.datasets.recover import recover, recover_jobs
from magicfs.report import RecoveredJob, RecoverReport

__all__ = [
    "Cluster",
    "CompactReport",
    "ListedJob",
    "RecoverReport",
    "RecoveredJob",
    "abort",
    "commit",
    "commit_listed",
    "compact",
    "preview_commit",
    "recover",
    "recover_jobs",
]
