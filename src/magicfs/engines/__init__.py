"""Dask, Ray and Daft: each is a module of its own, loaded when it is first used, as ``magicfs.dask``.

Spark has a room of its own, ``magicfs.spark``; what has ``submit`` needs none, and goes to ``Job.map``.
"""
