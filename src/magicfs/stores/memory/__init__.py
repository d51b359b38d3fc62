"""The memory store, which defines the port, and its filesystem of fsspec."""
