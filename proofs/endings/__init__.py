"""Processes that read and write through pyarrow, over and over: how each of them ends."""
