"""Speed, measured beside others in one run: ``python -m benchmarks``."""
