"""Tools for those who test on object stores: the exam of a store, faults, servers, pytest fixtures.

There is no stable API before 1.0. ``pip install 'magicfs[testing]'`` installs what the modules import;
docs/testing.md shows how to use them with a store of your own.

Importing this package imports nothing else. The servers are installed from PyPI, each into a virtual
environment of its own, on first use; none of them is a dependency of magicfs.
"""
