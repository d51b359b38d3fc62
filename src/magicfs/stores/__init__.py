"""Object stores: the port that every store fulfils, and the stores.

Nobody outside this room imports a store by name; ``resolve`` finds the one behind a filesystem.
"""
