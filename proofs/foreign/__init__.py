"""The suites of other libraries, run as they are and once more with every write through a task of a job.

The suites know nothing of magicfs. In the second run the filesystems that they ask fsspec for send each file
through a task, publish its job when the file is closed, and read what was published.
"""
