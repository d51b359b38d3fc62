"""The rules of the protocol as pure functions: no I/O, no clock, no randomness, no environment.

Whatever must be decided is decided here, from facts that others have read, and carried out elsewhere.
"""
