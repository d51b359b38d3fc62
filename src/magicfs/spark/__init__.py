"""Spark: ``df.write.format("magic")``, and tasks for ``mapInPandas`` and ``mapInArrow``.

Spark finds the format by the package ``pyspark_magic``; nothing needs to be registered. Importing this
package imports neither pyspark nor pyarrow.
"""
