"""Tools for testing on real object stores: servers, a fault-injecting proxy, pytest fixtures.

Importing this package imports nothing else. The servers are installed from PyPI, each into a virtual
environment of its own, on first use; none of them is a dependency of magicfs.
"""
