"""Spark's executors, drivers, streams and servers killed over running writes, rows counted, and speed.

Run as ``python -m proofs.spark_proof``.
"""
