"""Hundreds of publications with a past, killed at random: what was published then is what is read as of then.

Run it with ``python -m proofs.past``. Linux only: processes are held by pidfd.
"""
