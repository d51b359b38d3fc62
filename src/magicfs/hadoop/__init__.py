"""Hadoop: its configuration as arguments of ``Job``, and jobs of its own, whose driver was a JVM.

Nothing of Hadoop's can finish a job whose driver died. What its tasks have committed is taken for that of a
job of ours, whose object says by whom it was begun (``begunBy``); from there on it is a job like any other.
``finder`` is what ``magicfs.datasets`` asks: ``magic``, ``staging`` and ``manifest`` find jobs of these
committers, ``fates`` says what became of uploads that are on record, and ``job`` finishes or discards one.
``conf`` reads a configuration.
"""
