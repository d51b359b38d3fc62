"""Cut anywhere, recover always: jobs are cut at every request, recovered, and held to what they promised.

``python -m proofs.crash`` runs everything and prints its figures. ``invariants`` says what must
hold, ``scene`` plays jobs in memory, ``grid`` cuts them everywhere, ``simulation`` plays them with everything
that can go wrong, and ``mutants`` breaks the shipped code on purpose, to see that it would be noticed.
"""
