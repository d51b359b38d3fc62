"""The command ``show``: the files of a job, for people."""
