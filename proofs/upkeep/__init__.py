"""``magicfs maintain`` in two loops while 20 writers publish, and both are killed.

No row is lost, and nothing is left that is older than the policy says. Run ``python -m proofs.upkeep``.
Linux only: processes are held by pidfd.
"""
