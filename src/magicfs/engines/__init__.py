"""What ``magicfs.dask``, ``magicfs.ray`` and ``magicfs.daft`` have in common: Arrow tables in, one job out.

Spark has a room of its own, ``magicfs.spark``; what has ``submit`` needs none, and goes to ``Job.map``.
"""
