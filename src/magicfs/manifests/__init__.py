"""The chain of published jobs."""
