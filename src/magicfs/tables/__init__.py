"""``magicfs.write``: tables of any engine become a published dataset in one call.

From Arrow record batches to files is the business of this room, for Spark too: names of partitions, formats,
and files of limited size. Importing it imports no engine and no pyarrow.
"""
