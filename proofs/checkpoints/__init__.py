"""Checkpoints of PyTorch are saved by four ranks, which are killed, and loaded by other numbers of ranks."""
