"""Tools to test your own store: an exam, and stores and a proxy that fail on purpose.

There is no stable API before 1.0. ``pip install 'magicfs[testing]'`` installs what the modules import;
docs/testing.md shows how to use them with a store of your own.
Importing this package imports nothing else.
"""
