"""``spark.read.format("magic")`` and ``spark.readStream.format("magic")``: exactly the published files.

====================  =======================================================================================
``options``           what a read was asked to do
``schema``            the columns of a dataset, from a file of it and from the names of its directories
``directories``       Hive-style partition directories, read: values, types, and which files a filter needs
``files``             the files of each format as Arrow batches
``text``              CSV and JSON, and what their texts stand for
``declared``          what files hold, made what was declared
``snapshot``          which files there are, at one instant, and how tasks share them
``reader``            the batch reader
``stream``            the reader of new publications
====================  =======================================================================================
"""
