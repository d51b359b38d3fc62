"""What a change of the house must not change: requests, contents and words of 2,000 small stories.

``python -m proofs.witness`` plays them, ``--write`` renews what they are compared with.
"""
