"""What tests and proofs write to: doubles of clouds, emulators and S3 servers, each a process of its own.

The servers of others are installed from PyPI or npm, each into an environment of its own, on first use.
``bucket_view`` looks at what they hold, by plain clients. ``pytest_plugins = ["proofs.doubles.fixtures"]``
brings them as fixtures.
"""
