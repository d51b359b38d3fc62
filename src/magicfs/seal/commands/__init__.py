"""The command ``seal``."""
