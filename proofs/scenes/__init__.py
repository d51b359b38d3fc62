"""Scenes that proofs and tests share."""
