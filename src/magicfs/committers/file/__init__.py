"""The file committer: Hadoop's ``FileOutputCommitter``, algorithms 1 and 2, on anything with a rename or a
copy.

Tasks write plain files below ``_temporary``, and their files are renamed to where they belong: with algorithm
1 when the job commits, with algorithm 2 when their task does. On a filesystem a rename is one step; an object
store copies every byte.

It differs from Hadoop's where that loses data or publishes it twice: it works under the job object, so that
two jobs at one destination do not meet, no attempt can touch what another has committed, and a job commit
that died is carried on by whoever comes next.
"""
