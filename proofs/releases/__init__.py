"""Hundreds of releases of several datasets, with drivers killed at random: readers see no torn one.

Run it with ``python -m proofs.releases``.
"""
