"""Kills real processes of real jobs at random times, recovers, and counts rows.

Run it with ``python -m proofs.kill --kills 200``. Linux only: processes are held by pidfd.
"""
