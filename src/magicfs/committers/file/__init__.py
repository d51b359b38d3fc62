"""The file committer: Hadoop's ``FileOutputCommitter``, algorithms 1 and 2, on anything with a rename.

Tasks write plain files below ``_temporary``, and the files are renamed to where they belong: once when their
task commits, and with algorithm 1 once more when the job does. On a filesystem a rename is one step; an
object store copies every byte and deletes the original, each time.

It differs from Hadoop's where that loses data or publishes it twice: two jobs at one destination do not meet,
an attempt cannot touch what another has committed, what is published is written down before the first file
moves, and so a job commit that died is carried on by whoever comes next. Reasons stand in the modules
``algorithm1``, ``algorithm2`` and ``markers``.
"""
