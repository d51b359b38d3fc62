"""Jobs of Hadoop's, whose driver was a JVM: what state they are in, and their end under a job object of ours.

Nothing of Hadoop's can finish a job whose driver died. What its tasks have committed is taken for that of a
job of ours, whose object says by whom it was begun (``begunBy``); from there on it is a job like any other.
``fates`` tells what became of uploads that are on record, ``magic``, ``staging`` and ``manifest`` find jobs
of these committers, ``claim`` takes the place of a driver, and ``discard`` ends a job of which nothing is
published.
"""
