"""Trees, which committers ask that move files: over objects, and over folders and objects."""
